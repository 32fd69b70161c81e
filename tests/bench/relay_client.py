"""A page without a browser: says things in many chats over one socket and takes the time until each is answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import aiohttp

from tests.bench.relay_sides import TEXT, Answers

_DEFLATE_BITS = 15  # offered as browsers do


class RelayClient:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = count(1)
        self._chats = count(1)
        self._answers = Answers()

    async def listen(self) -> None:
        async for received in self._socket:
            # Pieces of answers are most of what comes, and to parse them would be half of our own work.
            if received.data.startswith('{"type": "message"'):
                item = json.loads(received.data)["item"]
                for answered in item["answers"]:
                    self._answers.take(answered, item["text"])
        raise ConnectionError("the other side hung up")

    def open_chat(self) -> Callable[[], Awaitable[float]]:
        return partial(self._ask, f"relaychat{next(self._chats)}")

    async def _ask(self, chat: str) -> float:
        message_id = f"m{next(self._ids)}"
        answer = self._answers.expect(message_id)
        await self._socket.send_str(json.dumps({"type": "send", "id": message_id, "chat": chat, "text": TEXT}))
        return await answer


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
