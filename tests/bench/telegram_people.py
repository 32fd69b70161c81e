"""People on the playground's Telegram, who say things to a bot and take the time until it has answered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from playground.events import EventLog
from playground.telegram.server import TelegramServer
from tests.bench.relay_sides import TEXT, Answers


class _Heard(EventLog):
    """Looks at each event once. To wait for a condition would wake all who wait, whoever was answered."""

    def __init__(self) -> None:
        super().__init__(keep=1)
        self.answers = Answers()
        self.polled = asyncio.Event()

    def note(self, kind: str, **fields: object) -> None:
        super().note(kind, **fields)
        match kind, fields:
            case "message", {"by_bot": True, "chat_id": chat, "message": {"text": str(text)}}:
                self.answers.take(str(chat), text)
            case "call", {"method": "getUpdates", "status": 200}:
                self.polled.set()
            case "poll", _:
                self.polled.set()


class TelegramPeople:
    """A person to a chat. Times end where the bot's message is taken by the server, before it is told so."""

    def __init__(self, server: TelegramServer) -> None:
        self._server = server
        self._heard = _Heard()
        server.world.events = self._heard

    @property
    def api_url(self) -> str:
        return self._server.url

    @property
    def token(self) -> str:
        return self._server.token

    async def polled(self) -> None:
        """Returns when a bot is connected: its first poll was answered, or waits."""
        await self._heard.polled.wait()

    def open_chat(self) -> Callable[[], Awaitable[float]]:
        return partial(self._ask, self._server.people.make_user()["id"])

    async def _ask(self, person: int) -> float:
        answer = self._heard.answers.expect(str(person))
        self._server.people.send_text(person, person, TEXT)
        return await answer


@asynccontextmanager
async def telegram_people() -> AsyncIterator[TelegramPeople]:
    async with TelegramServer() as server:
        yield TelegramPeople(server)
