"""Limits like the real ones: one a second per chat with a small burst, 20 a minute in groups, 30 a second overall."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Window:
    """At most `most` in any `seconds`."""

    most: int
    seconds: float
    times: deque[float] = field(default_factory=deque)

    def wait(self, now: float) -> float:
        """How long until one more fits."""
        while self.times and self.times[0] <= now - self.seconds:
            self.times.popleft()
        return self.times[0] + self.seconds - now if len(self.times) >= self.most else 0.0


class Limits:
    """Nothing is limited until switched on."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.on = on
        self.chat_burst = 3
        self.group_per_minute = 20
        self.overall_per_second = 30
        self._clock = clock
        self._overall = _Window(self.overall_per_second, 1.0)
        self._chats: dict[int, _Window] = {}

    def check(self, chat_id: int, *, is_group: bool) -> int:
        """Seconds to wait before one more message to this chat; 0 lets it through and counts it."""
        if not self.on:
            return 0
        now = self._clock()
        window = self._chats.get(chat_id)
        if window is None:
            most, seconds = (self.group_per_minute, 60.0) if is_group else (self.chat_burst, float(self.chat_burst))
            window = self._chats[chat_id] = _Window(most, seconds)
        wait = max(window.wait(now), self._overall.wait(now))
        if wait > 0:
            return max(1, math.ceil(wait))
        window.times.append(now)
        self._overall.times.append(now)
        return 0
