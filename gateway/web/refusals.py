"""Count refused requests, so that a burst of them stays cheap and the chats keep their turn on the event loop."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

LOOPBACK_PEERS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
_PER_MINUTE = 120  # of one address; then it must wait for the next minute before anything of it is read
_PER_SECOND = 50  # of all addresses; beyond, connections are taken one in each pause
_PAUSE_SECONDS = 0.01


@dataclass(slots=True)
class Refusals:
    _minute: int = 0
    _second: int = 0
    _in_second: int = 0
    _by_address: Counter[str] = field(default_factory=Counter)

    def count(self, request: web.Request) -> None:
        now = int(time.monotonic())
        if now != self._second:
            self._second, self._in_second = now, 0
        self._in_second += 1
        if now // 60 != self._minute:
            self._minute = now // 60
            self._by_address.clear()
        self._by_address[find_address(request)] += 1

    def is_spent(self, request: web.Request) -> bool:
        """Return whether the address of a request was refused too often in this minute."""
        is_now = int(time.monotonic()) // 60 == self._minute
        return is_now and self._by_address[find_address(request)] >= _PER_MINUTE

    async def pace(self) -> None:
        """Wait before the next connection is taken; hardly at all unless many requests were refused just now.

        By the number of all, not by address: behind a proxy that names nobody, everybody has one address.
        """
        is_burst = self._in_second >= _PER_SECOND and int(time.monotonic()) - self._second <= 1
        await asyncio.sleep(_PAUSE_SECONDS if is_burst else 0)


def find_address(request: web.Request) -> str:
    """Return who asks: the peer, or whom a proxy on this machine names."""
    peer = request.remote or ""
    named = request.headers.get("X-Forwarded-For", "") if peer in LOOPBACK_PEERS else ""
    return named.rpartition(",")[2].strip()[:64] or peer
