"""A page without a browser: says things in many chats over one socket and takes the time until each is answered."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import aiohttp

from tests.bench.relay_model import ANSWER

_DEFLATE_BITS = 15  # offered as browsers do
_TEXT = "Could you look at the build of last night and tell me what broke?"
_ANSWERED_WITHIN_SECONDS = 60.0


class RelayClient:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = count(1)
        self._chats = count(1)
        self._waiting: dict[str, asyncio.Future[float]] = {}

    async def listen(self) -> None:
        async for received in self._socket:
            # Pieces of answers are most of what comes, and to parse them would be half of our own work.
            if received.data.startswith('{"type": "message"'):
                self._take(json.loads(received.data)["item"])
        raise ConnectionError("the other side hung up")

    def _take(self, item: dict[str, Any]) -> None:
        for answered in item["answers"]:
            if item["text"].strip() == ANSWER.strip():
                self._waiting.pop(answered).set_result(time.perf_counter())
            else:
                self._waiting.pop(answered).set_exception(AssertionError(f"not the model's answer: {item['text']}"))

    async def ask(self, chat: str) -> float:
        """Gives the milliseconds until the whole answer is here."""
        message_id = f"m{next(self._ids)}"
        answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = answered
        began = time.perf_counter()
        await self._socket.send_str(json.dumps({"type": "send", "id": message_id, "chat": chat, "text": _TEXT}))
        async with asyncio.timeout(_ANSWERED_WITHIN_SECONDS):
            return (await answered - began) * 1000

    async def converse(self, *, chats: int, messages: int) -> tuple[list[float], float]:
        """In each of so many new chats the next message is said when the last one was answered.

        Gives the milliseconds of each, and the seconds that all took.
        """

        async def chat(name: str) -> list[float]:
            return [await self.ask(name) for _ in range(messages)]

        began = time.perf_counter()
        latencies = await asyncio.gather(*(chat(f"relaychat{next(self._chats)}") for _ in range(chats)))
        return [latency for of_chat in latencies for latency in of_chat], time.perf_counter() - began


@asynccontextmanager
async def relay_client(address: str) -> AsyncIterator[RelayClient]:
    """Opens the socket at an address, which may be a link to log in by."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        base = address.partition("/?")[0]
        if base != address:
            (await session.get(address)).raise_for_status()
        async with session.ws_connect(f"{base}/ws", compress=_DEFLATE_BITS, max_msg_size=0) as socket:
            client = RelayClient(socket)
            listening = asyncio.create_task(client.listen())
            try:
                yield client
            finally:
                listening.cancel()
