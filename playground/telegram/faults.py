"""What shall go wrong, for which method, and how often."""

import itertools
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from playground.telegram.rules import Refused, Wire

Kind = Literal[
    "fail",  # answer with `status`, `description`, `retry_after`; nothing is done
    "hang",  # nothing is done and nothing is ever said
    "hang_after",  # done, and nothing is ever said
    "cut",  # the connection is closed, nothing is done
    "cut_after",  # done, then the connection is closed
    "slow",  # done after `seconds`
    "garbage",  # done, but the answer is no JSON: `status` and `body`
    "duplicate",  # an update comes twice in a row with one id
    "duplicate_later",  # an update comes once more with the same id after it was confirmed
    "duplicate_new_id",  # an update comes twice with two ids
]
KINDS: tuple[str, ...] = get_args(Kind)
_DUPLICATES = frozenset(kind for kind in KINDS if kind.startswith("duplicate"))


@dataclass(slots=True, kw_only=True)
class Fault:
    """`method` is the name of a method, or for duplicates the kind of update; `*` is any."""

    id: int
    kind: Kind
    method: str = "*"
    count: int | None = 1  # None: until cleared
    skip: int = 0  # lets this many pass first
    chat_id: int | None = None
    status: int = 500  # 502 suits garbage
    description: str = ""
    retry_after: int = 0
    seconds: float = 0.0
    body: str = "<html><body>502 Bad Gateway</body></html>"
    fired: int = 0
    extra: Wire = field(default_factory=dict)  # further `parameters` of a failure

    @property
    def refusal(self) -> Refused:
        status = 429 if self.retry_after and self.status == 500 else self.status
        words = {429: f"Too Many Requests: retry after {self.retry_after}", 502: "Bad Gateway"}
        description = self.description or words.get(status, "Internal Server Error")
        parameters = ({"retry_after": self.retry_after} if self.retry_after else {}) | self.extra
        return Refused(status, description, **parameters)


class Faults:
    """Faults are used up in the order they were added; the first that fits is taken."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(self, kind: Kind, method: str = "*", **details: Any) -> Fault:
        """Raises ValueError or TypeError for what is no fault."""
        if kind not in KINDS:
            raise ValueError(f"unknown fault {kind!r}; there are {', '.join(KINDS)}")
        fault = Fault(id=next(self._ids), kind=kind, method=method.lower(), **details)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    @property
    def waiting(self) -> list[Wire]:
        return [asdict(fault) for fault in self._faults]

    def take(self, method: str, chat_id: str) -> Fault | None:
        """The fault for this call, used up by one."""
        return self._take(method, chat_id, duplicates=False) if self._faults else None

    def take_duplicate(self, update_kind: str) -> str:
        fault = self._take(update_kind, "", duplicates=True) if self._faults else None
        return fault.kind if fault else ""

    def _take(self, name: str, chat_id: str, *, duplicates: bool) -> Fault | None:
        for fault in self._faults:
            if (fault.kind in _DUPLICATES) != duplicates or fault.method not in ("*", name):
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
