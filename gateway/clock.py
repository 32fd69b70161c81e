"""Tell the time, make ids from it, and format times and durations for people."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


_CATCH_UP = 10  # a clock that is ahead runs slower by a tenth


@dataclass(slots=True, kw_only=True)
class ProcessClock:
    """Wall time that never goes back while the process runs, so that waiting for a stored time never takes too long.

    It follows a jump forward at once: the machine may have slept. When the wall clock is set back, it continues from
    where it was, a tenth slower until the two agree, so that dates and times become correct without a restart.
    """

    wall_ns: Callable[[], int] = lambda: time.time_ns()
    monotonic_ns: Callable[[], int] = lambda: time.monotonic_ns()
    _now_ns: int = 0
    _at_ns: int = 0  # on the monotonic clock
    _lock: threading.Lock = field(default_factory=threading.Lock)  # also called from the store's thread

    def now_ms(self) -> int:
        with self._lock:
            wall_ns, at_ns = self.wall_ns(), self.monotonic_ns()
            elapsed_ns, self._at_ns = at_ns - self._at_ns, at_ns
            slowed_ns = self._now_ns + elapsed_ns - elapsed_ns // _CATCH_UP
            self._now_ns = max(wall_ns, slowed_ns)
            return self._now_ns // 1_000_000


@dataclass(slots=True, kw_only=True)
class ClockJumps:
    """Notices that the wall clock was set, or that the machine slept: timers then end too late."""

    wall_ns: Callable[[], int] = lambda: time.time_ns()
    monotonic_ns: Callable[[], int] = lambda: time.monotonic_ns()
    _apart_ns: int | None = None

    def has_jumped(self) -> bool:
        """Return whether the clocks moved apart by more than a second since the last call."""
        apart_ns = self.wall_ns() - self.monotonic_ns()
        before_ns, self._apart_ns = self._apart_ns, apart_ns
        return before_ns is not None and abs(apart_ns - before_ns) > 1_000_000_000


_process_clock = ProcessClock()


def now_ms() -> int:
    """Return the process's time; see `ProcessClock`."""
    return _process_clock.now_ms()


def new_session_id(at_ms: int) -> str:
    """Return a readable, sortable id: 20260322_124359_6b542f4e."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


def new_id() -> str:
    """Return a unique id of 24 characters, short enough for platforms that take an idempotency key."""
    return secrets.token_hex(12)


def for_people(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def roughly(ms: int) -> str:
    """Return a duration in its largest unit: 3 h."""
    seconds = max(ms, 0) // 1000
    size, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def how_long(ms: int) -> str:
    """Return a duration in its largest unit and the one below it: 3 h 20 min."""
    seconds = max(ms, 0) // 1000
    for (size, unit), (smaller, below) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"
