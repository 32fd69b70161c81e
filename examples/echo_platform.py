"""The smallest complete platform: lines from one stream become messages, and replies go to another.

A real one adds its `spec.py` and settings; see "Add a platform" in CONTRIBUTING.md.
"""

import asyncio
import itertools
import time
from collections.abc import Callable

from gateway.errors import MediaUnavailable
from gateway.messages import InboundMessage, Media, OutboundMessage, Receipt, Sender, SessionKey, Text
from gateway.platforms.base import Features, Inlet
from gateway.platforms.rate_limit import RateLimits


class EchoPlatform:
    """One chat whose only member is the owner."""

    account = "echo"
    features = Features(resend="never", local=True)  # a line that was written cannot be looked up again
    rate_limits = RateLimits()

    def __init__(self, lines: asyncio.StreamReader, write: Callable[[str], None]) -> None:
        self._lines = lines
        self._write = write
        self._numbers = itertools.count(1)

    async def run(self, inlet: Inlet) -> None:
        inlet.alive()
        while line := await self._lines.readline():
            message = InboundMessage(
                key=SessionKey(platform="echo", chat="main"),
                message_id=str(time.time_ns()),  # the same message has the same id, or it would be answered twice
                sender=Sender(id="me"),
                parts=(Text(text=line.decode().strip()),),
                sent_ms=time.time_ns() // 1_000_000,
            )
            await inlet.accept([message], None)  # only now may the sender be told that it was taken
            inlet.alive()

    async def send(self, message: OutboundMessage) -> Receipt:
        self._write(message.text)
        return Receipt(message_id=str(next(self._numbers)))

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        raise MediaUnavailable("there are no files here")
