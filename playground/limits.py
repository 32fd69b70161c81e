"""Rate limits in sliding windows, for servers that limit like the real platforms."""

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `most` calls with this key in any `seconds`."""

    key: Hashable
    most: int
    seconds: float


@dataclass(slots=True)
class ServerLimits:
    """Limits nothing until switched on."""

    on: bool = False
    clock: Callable[[], float] = time.monotonic
    _times: dict[Hashable, deque[float]] = field(default_factory=dict)

    def spend(self, *limits: RateLimit) -> float:
        """Count one call against all of these; return the seconds to wait if one is used up, and count nothing."""
        if not self.on:
            return 0.0
        now = self.clock()
        if wait := max(0.0, *(self._wait(limit, now) for limit in limits)):
            return wait
        for limit in limits:
            self._times[limit.key].append(now)
        return 0.0

    def left(self, limit: RateLimit) -> tuple[int, float]:
        """Return how many calls are left, and the seconds until the oldest one no longer counts."""
        now = self.clock()
        self._wait(limit, now)
        times = self._times[limit.key]
        return limit.most - len(times), times[0] + limit.seconds - now if times else limit.seconds

    def _wait(self, limit: RateLimit, now: float) -> float:
        times = self._times.setdefault(limit.key, deque())
        while times and times[0] <= now - limit.seconds:
            times.popleft()
        return times[0] + limit.seconds - now if len(times) >= limit.most else 0.0
