"""What shall go wrong, for which method, and how often; the same for every platform."""

import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal, TypeVar, get_args

from playground.wire import Wire

CallKind = Literal[
    "fail",  # answer with `status`, `description`, `retry_after`; nothing is done
    "hang",  # nothing is done and nothing is ever said
    "hang_after",  # done, and nothing is ever said
    "cut",  # the connection is closed, nothing is done
    "cut_after",  # done, then the connection is closed
    "slow",  # done after `seconds`
    "garbage",  # done, but the answer is no JSON: `status` and `body`
]
CALL_KINDS: tuple[str, ...] = get_args(CallKind)
K = TypeVar("K", bound=str)


@dataclass(slots=True, kw_only=True)
class Fault:
    """`method` is the name of a method, or for what the platform sends by itself the kind of it; `*` is any."""

    id: int
    kind: str
    method: str = "*"
    count: int | None = 1  # None: until cleared
    skip: int = 0  # lets this many pass first
    chat_id: int | str | None = None  # a chat or channel; None is any
    status: int = 500  # 502 suits garbage
    description: str = ""
    retry_after: float = 0
    seconds: float = 0.0
    body: str = "<html><body>502 Bad Gateway</body></html>"
    fired: int = 0
    extra: Wire = field(default_factory=dict)  # further fields of a failure, as the platform spells them

    @property
    def failure_status(self) -> int:
        """What waits is a 429, unless told otherwise."""
        return 429 if self.retry_after and self.status == 500 else self.status


class Faults(Generic[K]):
    """Faults are used up in the order they were added; the first that fits is taken.

    `pushed_kinds` are a platform's own, for what it sends by itself; `K` is the Literal of all kinds it knows.
    """

    def __init__(self, pushed_kinds: Iterable[str] = ()) -> None:
        self.kinds = (*CALL_KINDS, *pushed_kinds)
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(self, kind: K, method: str = "*", **details: Any) -> Fault:
        """Raises ValueError or TypeError for what is no fault."""
        if kind not in self.kinds:
            raise ValueError(f"unknown fault {kind!r}; there are {', '.join(self.kinds)}")
        fault = Fault(id=next(self._ids), kind=kind, method=method.lower(), **details)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    @property
    def waiting(self) -> list[Wire]:
        return [asdict(fault) for fault in self._faults]

    def take(self, method: str, chat_id: str = "") -> Fault | None:
        """The fault for this call, used up by one; `method` in small letters."""
        return self._take(method, chat_id, pushed=False) if self._faults else None

    def take_pushed(self, name: str, chat_id: str = "") -> Fault | None:
        """The fault for something the platform is about to send by itself."""
        return self._take(name, chat_id, pushed=True) if self._faults else None

    def _take(self, name: str, chat_id: str, *, pushed: bool) -> Fault | None:
        for fault in self._faults:
            if (fault.kind not in CALL_KINDS) != pushed or fault.method not in ("*", name):
                continue
            if fault.chat_id is not None and str(fault.chat_id) != chat_id:
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.fired += 1
            if fault.count is not None:
                fault.count -= 1
                if fault.count <= 0:
                    self._faults.remove(fault)
            return fault
        return None
