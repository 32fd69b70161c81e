"""A bounded log of events, in order, that tests wait on and the page follows."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from playground.wire import Wire

T = TypeVar("T")


class EventLog:
    """Each event has a growing `seq`; old ones are dropped. A new event wakes every waiter at once."""

    def __init__(self, *, keep: int = 5000) -> None:
        self._events: deque[Wire] = deque(maxlen=keep)
        self.last = 0  # seq of the newest
        self._changed = asyncio.Event()

    def note(self, kind: str, **fields: object) -> None:
        self.last += 1
        self._events.append({"seq": self.last, "at": time.time(), "kind": kind, **fields})
        self._changed.set()
        self._changed = asyncio.Event()

    def after(self, seq: int) -> list[Wire]:
        """Return the newer events, as far as they are still kept."""
        newer = min(self.last - seq, len(self._events))
        return [self._events[index] for index in range(-newer, 0)]

    async def wait_for(self, condition: Callable[[], T], *, seconds: float | None = 5.0) -> T:
        """Check the condition after every event and return its value once that is true. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                changed = self._changed
                if value := condition():
                    return value
                await changed.wait()
