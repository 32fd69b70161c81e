"""One open socket of Socket Mode: writes in order, pings, and breaks in every way a network can."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web

_PING = b"Ping from applink-playground-1"


class Socket:
    def __init__(self, number: int, link: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        self.number = number
        self.leaving = False  # was told to go: gets no envelopes any more
        self.pongs = True
        self.why = ""  # what ended it, if it was not the client
        self._link = link
        self._transport = transport
        self._outgoing: asyncio.Queue[str | None] = asyncio.Queue()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._last_pong = time.monotonic()

    def send(self, message: str) -> None:
        self._outgoing.put_nowait(message)

    async def run(self, heard: Callable[[str], None], *, ping_seconds: Callable[[], float]) -> None:
        """Until either side ends it."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._write()), group.create_task(self._ping(ping_seconds))]
            try:
                await self._read(heard)
            finally:
                for task in tasks:
                    task.cancel()

    async def _read(self, heard: Callable[[str], None]) -> None:
        async for message in self._link:
            if not self._flowing.is_set():
                continue  # was under way when the link died
            if message.type == WSMsgType.TEXT:
                heard(message.data)
            elif message.type == WSMsgType.PONG:
                self._last_pong = time.monotonic()
            elif message.type == WSMsgType.PING and self.pongs:
                await self._say(self._link.pong(message.data))

    async def _write(self) -> None:
        while True:
            message = await self._outgoing.get()
            await self._flowing.wait()
            if message is None:
                self.why = "cut_socket_after"
                self._transport.close()  # not abort: what was written shall arrive
                return
            await self._say(self._link.send_str(message))

    async def _ping(self, seconds: Callable[[], float]) -> None:
        """A client that answers no ping until the next one is due is cut, also when the link is half open."""
        while True:
            sent = time.monotonic()
            if self._flowing.is_set():
                await self._say(self._link.ping(_PING))
            await asyncio.sleep(seconds())
            if self._last_pong < sent:
                self.cut("no pong")
                return

    async def _say(self, words: Awaitable[None]) -> None:
        try:
            await words
        except ConnectionError:
            self._outgoing = asyncio.Queue()  # the client is gone; reading will tell

    def cut(self, why: str) -> None:
        self.why = self.why or why
        self._transport.abort()

    def cut_behind(self) -> None:
        """Break once what was sent so far is written."""
        self._outgoing.put_nowait(None)

    def freeze(self) -> None:
        self._flowing.clear()
        self._transport.pause_reading()

    def thaw(self) -> None:
        if not self._flowing.is_set():
            self._flowing.set()
            self._transport.resume_reading()
