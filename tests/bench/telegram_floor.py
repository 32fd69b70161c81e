"""The least that a Telegram bot in front of a model can be: plain aiohttp, nothing kept, no SDK.

`python -m tests.bench.telegram_floor <address of the model> <address of the bot>` polls until it is ended.
"""

import asyncio
import sys
from collections import defaultdict
from typing import Any

import aiohttp

from tests.bench.bare_model import BareModel, bare_session

_POLL_SECONDS = 25


class TelegramFloor:
    def __init__(self, session: aiohttp.ClientSession, model: BareModel, bot_url: str) -> None:
        self._session = session
        self._model = model
        self._bot_url = bot_url
        self._chats: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # first come, first served

    async def run(self) -> None:
        offset = 0
        async with asyncio.TaskGroup() as group:
            while True:
                for update in await self._call("getUpdates", offset=offset, timeout=_POLL_SECONDS):
                    offset = update["update_id"] + 1
                    group.create_task(self._relay(update["message"]))

    async def _relay(self, message: dict[str, Any]) -> None:
        chat = message["chat"]["id"]
        async with self._chats[chat], asyncio.TaskGroup() as beside:
            beside.create_task(self._call("sendChatAction", chat_id=chat, action="typing"))
            whole = "".join([piece async for piece in self._model.answer(message["text"])])
            await self._call("sendMessage", chat_id=chat, text=whole)

    async def _call(self, method: str, **values: Any) -> Any:
        async with self._session.post(f"{self._bot_url}/{method}", json=values) as response:
            response.raise_for_status()
            return (await response.json())["result"]


async def _main(model_url: str, bot_url: str) -> None:
    async with bare_session() as session:
        await TelegramFloor(session, BareModel(session, model_url), bot_url).run()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
