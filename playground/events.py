"""What happened, in order: a bounded log that tests wait on and a page follows."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from playground.wire import Wire

T = TypeVar("T")


class EventLog:
    """Events carry a growing `seq`; old ones are forgotten, waiting ones are woken at once."""

    def __init__(self, *, keep: int = 5000) -> None:
        self._events: deque[Wire] = deque(maxlen=keep)
        self._last = 0
        self._stirred = asyncio.Event()

    @property
    def last(self) -> int:
        return self._last

    def note(self, kind: str, **fields: object) -> None:
        self._last += 1
        self._events.append({"seq": self._last, "at": time.time(), "kind": kind, **fields})
        self._stirred.set()
        self._stirred = asyncio.Event()

    def after(self, seq: int) -> list[Wire]:
        """Everything newer that is still remembered."""
        newer = min(self._last - seq, len(self._events))
        return [self._events[index] for index in range(-newer, 0)]

    async def wait_for(self, condition: Callable[[], T], *, seconds: float = 5.0) -> T:
        """What the condition gives once it is true; looked at again after every event. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                stirred = self._stirred
                if value := condition():
                    return value
                await stirred.wait()
