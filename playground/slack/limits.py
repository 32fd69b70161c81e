"""Limits like the real ones: tiers of calls a minute for each method, about one message a second for each channel."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

_TIERS = {1: 1, 2: 20, 3: 50, 4: 100}
_METHODS = {
    "apps.connections.open": 3,
    "bots.info": 3,
    "chat.delete": 3,
    "chat.postEphemeral": 4,
    "chat.update": 3,
    "conversations.history": 3,
    "conversations.info": 3,
    "conversations.list": 2,
    "conversations.members": 4,
    "conversations.open": 3,
    "conversations.replies": 3,
    "files.completeUploadExternal": 4,
    "files.getUploadURLExternal": 4,
    "files.info": 4,
    "reactions.add": 3,
    "reactions.remove": 2,
    "team.info": 3,
    "users.conversations": 3,
    "users.info": 4,
}


@dataclass(slots=True)
class _Window:
    """At most `most` in any `seconds`."""

    most: int
    seconds: float
    times: deque[float] = field(default_factory=deque)

    def wait(self, now: float) -> float:
        """How long until one more fits; 0 counts it."""
        while self.times and self.times[0] <= now - self.seconds:
            self.times.popleft()
        if len(self.times) >= self.most:
            return self.times[0] + self.seconds - now
        self.times.append(now)
        return 0.0


class Limits:
    """Nothing is limited until switched on."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.on = on
        self.channel_burst = 3  # in as many seconds
        self.tiers = dict(_METHODS)
        self._clock = clock
        self._windows: dict[tuple[str, str], _Window] = {}

    def check(self, method: str, channel_id: str) -> int:
        """Seconds to wait before one more such call; 0 lets it through and counts it."""
        if not self.on:
            return 0
        if method == "chat.postMessage":
            key, most, seconds = (method, channel_id), self.channel_burst, float(self.channel_burst)
        elif method in self.tiers:
            key, most, seconds = (method, ""), _TIERS[self.tiers[method]], 60.0
        else:
            return 0
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(most, seconds)
        wait = window.wait(self._clock())
        return max(1, math.ceil(wait)) if wait > 0 else 0
