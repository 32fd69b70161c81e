"""Rate limits: the headers of every answer, and limits like the real ones when switched on."""

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# How many in how many seconds, for each place (channel) of a bucket.
_REAL: Mapping[str, tuple[int, float]] = {
    "messages": (5, 5.0),
    "edits": (5, 5.0),
    "deletes": (5, 1.0),
    "reactions": (1, 0.25),
}
_OTHERS = (50, 1.0)
_GLOBAL = (50, 1.0)
_MANY = (1000, 1.0)
_KEPT = 5000


@dataclass(slots=True)
class _Window:
    ends: float = 0.0
    used: int = 0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left after a call; a positive `retry_after` refuses it."""

    headers: Mapping[str, str]
    retry_after: float = 0.0
    everywhere: bool = False


class Limits:
    """Nothing is refused until switched on; the headers then speak of limits nobody reaches."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.on = on
        self._clock = clock
        self._windows: dict[tuple[str, str], _Window] = {}
        self._global = _Window()

    def spend(self, name: str, bucket: str, place: str) -> Allowance:
        """Count one call."""
        most, seconds = _REAL.get(bucket, _OTHERS) if self.on else _MANY
        now, label = self._clock(), bucket or name
        window = self._windows.setdefault((label, place), _Window())
        while len(self._windows) > _KEPT:
            self._windows.pop(next(iter(self._windows)))
        if now >= window.ends:
            window.ends, window.used = now + seconds, 0
        if self.on and (wait := self._global_wait(now)):
            return Allowance(_limited(wait, "global"), wait, everywhere=True)
        window.used += 1
        left = window.ends - now
        headers = _headers(label, most, max(0, most - window.used), left, window.ends)
        if self.on and window.used > most:
            return Allowance({**headers, **_limited(left, "user")}, round(left, 3))
        return Allowance(headers)

    def _global_wait(self, now: float) -> float:
        most, seconds = _GLOBAL
        if now >= self._global.ends:
            self._global = _Window(now + seconds)
        self._global.used += 1
        return round(self._global.ends - now, 3) if self._global.used > most else 0.0


def _headers(label: str, most: int, left: int, seconds: float, ends: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(most),
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": f"{ends:.3f}",
        "X-RateLimit-Reset-After": f"{seconds:.3f}",
        "X-RateLimit-Bucket": hashlib.sha256(label.encode()).hexdigest()[:32],
    }


def _limited(seconds: float, scope: str) -> dict[str, str]:
    headers = {"Retry-After": str(math.ceil(seconds)), "X-RateLimit-Scope": scope}
    return {**headers, "X-RateLimit-Global": "true"} if scope == "global" else headers


def refusal_headers(retry_after: float, *, everywhere: bool) -> dict[str, str]:
    """Of a 429 made by a fault."""
    return _limited(retry_after, "global" if everywhere else "shared")
