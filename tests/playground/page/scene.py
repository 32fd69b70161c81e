"""A playground with a stand-in for the gateway, and somebody who has its link."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from playground.page.discord_phone import DiscordPhone
from playground.page.server import Playground, playground
from playground.page.slack_phone import SlackPhone
from playground.page.telegram_phone import TelegramPhone

T = TypeVar("T")

ROOT = Path(__file__).parents[3]
STUB = (sys.executable, "-m", "tests.playground.page.stub_hermes")
SECONDS = 20.0


@dataclass(kw_only=True)
class Scene:
    on: Playground
    session: aiohttp.ClientSession
    address: str

    @property
    def telegram(self) -> TelegramPhone:
        phone = self.on.phones["telegram"]
        assert isinstance(phone, TelegramPhone)
        return phone

    @property
    def discord(self) -> DiscordPhone:
        phone = self.on.phones["discord"]
        assert isinstance(phone, DiscordPhone)
        return phone

    @property
    def slack(self) -> SlackPhone:
        phone = self.on.phones["slack"]
        assert isinstance(phone, SlackPhone)
        return phone

    @property
    def origin(self) -> str:
        return self.address.rstrip("/")

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """What the page would get; it must be this status."""
        headers = {"Origin": self.origin}
        async with self.session.post(self.address + path, json=body or {}, headers=headers) as answer:
            told = await answer.json()
            assert answer.status == status, told
            return told

    async def upload(
        self, platform: str, content: bytes, *, mime_type: str = "", status: int = 200, **about: str
    ) -> Any:
        headers = {"Origin": self.origin, "Content-Type": mime_type or "application/octet-stream"}
        url = f"{self.address}api/phones/{platform}/file"
        async with self.session.post(url, data=content, params=about, headers=headers) as answer:
            told = await answer.json()
            assert answer.status == status, told
            return told

    @asynccontextmanager
    async def live(self) -> AsyncIterator["Told"]:
        async with self.session.ws_connect(f"{self.address}live", origin=self.origin) as socket:
            yield Told(socket)

    def calls(self) -> list[dict[str, Any]]:
        """What `hermes` was called with."""
        lines = (self.on.home.root / "logs" / "calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


class Told:
    """What an open page is told."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def look(self, platform: str, person: str, place: str = "dm") -> None:
        await self._socket.send_json({"look": platform, "person": person, "place": place})

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first news that fit."""
        async with asyncio.timeout(SECONDS):
            while True:
                news: dict[str, Any] = await self._socket.receive_json()
                if condition(news):
                    return news

    async def until_phone(self, platform: str, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        return await self.until(
            lambda news: news["type"] == "phone" and news["platform"] == platform and condition(news)
        )


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:
    given = {"command": STUB, "environment": dict(os.environ), "cwd": ROOT, **options}
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address without a name
    async with playground(**given) as on, aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(on.link) as answer:
            assert answer.status == 200
        yield Scene(on=on, session=session, address=on.link.partition("?")[0])


async def until(condition: Callable[[], T], *, seconds: float = SECONDS) -> T:
    """For what only another process knows and nobody announces: looked at again and again."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.02)
        return value
