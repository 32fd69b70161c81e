"""A platform's line while there is one."""

import asyncio
from typing import Generic, TypeVar

from gateway.errors import MediaUnavailable, PlatformUnavailable

LineT = TypeVar("LineT")

_PATIENCE_SECONDS = 30.0  # for a file that is wanted while we are still connecting


class Connection(Generic[LineT]):
    def __init__(self, platform: str) -> None:
        """`platform` is its name as people write it."""
        self._platform = platform
        self._line: LineT | None = None
        self._is_open = asyncio.Event()

    def open(self, line: LineT) -> None:
        self._line = line
        self._is_open.set()

    def close(self) -> None:
        """Whoever holds the line keeps it; nobody else is given it."""
        self._line = None
        self._is_open.clear()

    @property
    def line(self) -> LineT:
        """Raises PlatformUnavailable while there is none."""
        if self._line is None:
            raise PlatformUnavailable(f"not connected to {self._platform}")
        return self._line

    async def line_soon(self) -> LineT:
        """Waits for one; raises MediaUnavailable when none comes."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._line is None:  # it may be gone again by the time we are told
                    await self._is_open.wait()
        except TimeoutError:
            raise MediaUnavailable(f"{self._platform} could not be reached") from None
        return self._line
