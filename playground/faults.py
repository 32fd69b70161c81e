"""Faults of a platform server: which call or event fails, how, and how often."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal, TypeVar, get_args

from playground.wire import Wire

CallKind = Literal[
    "fail",  # answer with `status`, `description`, `retry_after`; the call does nothing
    "hang",  # do nothing and never answer
    "hang_after",  # do it and never answer
    "cut",  # do nothing and close the connection
    "cut_after",  # do it and close the connection
    "slow",  # do it after `seconds`
    "garbage",  # do it and answer with `status` and `body`, which is no JSON
]
CALL_KINDS: tuple[str, ...] = get_args(CallKind)
K = TypeVar("K", bound=str)


@dataclass(slots=True, kw_only=True)
class Fault:
    """`method` is the name of a method, or the kind of an event that the platform sends; `*` is any."""

    kind: str
    method: str = "*"
    count: int | None = 1  # None: until cleared
    skip: int = 0  # let this many pass first
    chat_id: int | str | None = None  # a chat or channel; None is any
    status: int = 500  # 502 suits garbage
    description: str = ""
    retry_after: float = 0
    seconds: float = 0.0
    body: str = "<html><body>502 Bad Gateway</body></html>"
    extra: Wire = field(default_factory=dict)  # further fields of a failure, as the platform names them

    @property
    def failure_status(self) -> int:
        """A failure with `retry_after` is a 429 unless another status is given."""
        return 429 if self.retry_after and self.status == 500 else self.status


class Faults(Generic[K]):
    """Uses up faults in the order they were added; the first match is taken.

    `pushed_kinds` concern events that the platform sends by itself; `K` is the Literal of all kinds of a platform.
    """

    def __init__(self, pushed_kinds: Iterable[str] = ()) -> None:
        self.kinds = (*CALL_KINDS, *pushed_kinds)
        self._faults: list[Fault] = []

    def add(self, kind: K, method: str = "*", **details: Any) -> Fault:
        """Raises ValueError for an unknown kind and TypeError for an unknown detail."""
        if kind not in self.kinds:
            raise ValueError(f"unknown fault {kind!r}; there are {', '.join(self.kinds)}")
        fault = Fault(kind=kind, method=method.lower(), **details)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    @property
    def waiting(self) -> list[Wire]:
        return [asdict(fault) for fault in self._faults]

    def take(self, name: str, chat_id: str = "", *, pushed: bool = False) -> Fault | None:
        """Use up one fault for a call, or for an event that is about to be `pushed`; `name` is in lower case."""
        for fault in self._faults:
            if (fault.kind not in CALL_KINDS) != pushed or fault.method not in ("*", name):
                continue
            if fault.chat_id is not None and str(fault.chat_id) != chat_id:
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            if fault.count is not None:
                fault.count -= 1
                if fault.count <= 0:
                    self._faults.remove(fault)
            return fault
        return None
