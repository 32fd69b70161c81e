"""A real discord.py client on the loopback server, and the people it meets."""

import asyncio
from types import TracebackType
from typing import Any, Self

import discord
import pytest
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from playground.discord.server import DiscordServer
from playground.events import EventLog


def point_discord_at(server: DiscordServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are class attributes: they hold for every client of the process."""
    monkeypatch.setattr(Route, "BASE", server.api_url)
    monkeypatch.setattr(DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(server.gateway_url))


class Bot(discord.Client):
    """Writes down what it hears."""

    def __init__(self, intents: discord.Intents | None = None, **options: Any) -> None:
        super().__init__(intents=intents or discord.Intents.all(), guild_ready_timeout=0.02, **options)
        self.log = EventLog()
        self.heard: list[tuple[str, Any]] = []

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """discord.py waits five seconds here before it identifies again."""

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        super().dispatch(event, *args, **kwargs)
        self.heard.append((event, args[0] if args else None))
        self.log.note(event)

    def all(self, event: str) -> list[Any]:
        return [what for name, what in self.heard if name == event]

    async def until(self, event: str, count: int = 1) -> Any:
        """The newest of this event once there are so many."""
        # discord.py waits a random while before it connects again, longer after each try.
        await self.log.wait_for(lambda: len(self.all(event)) >= count, seconds=30.0)
        return self.all(event)[-1]

    def texts(self) -> list[str]:
        return [message.content for message in self.all("message")]


class Scene:
    def __init__(self, server: DiscordServer, bot: Bot | None = None) -> None:
        self.server = server
        self.people = server.people
        self.ada = int(self.people.make_user("ada", global_name="Ada")["id"])
        self.bob = int(self.people.make_user("bob")["id"])
        self.guild = int(self.people.make_guild("Lab", members=[self.ada, self.bob])["id"])
        self.room = int(self.people.make_channel(self.guild, "general")["id"])
        self.dm = int(self.people.open_dm(self.ada)["id"])
        self.bot = bot or Bot()
        self.run: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.run = asyncio.create_task(self.bot.start(self.server.token))
        ready = asyncio.create_task(self.bot.until("ready"))
        await asyncio.wait([self.run, ready], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            self.run.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.bot.close()
        assert self.run
        await asyncio.gather(self.run, return_exceptions=True)

    @property
    def channel(self) -> discord.TextChannel:
        channel = self.bot.get_channel(self.room)
        assert isinstance(channel, discord.TextChannel)
        return channel

    @property
    def direct(self) -> discord.PartialMessageable:
        return self.bot.get_partial_messageable(self.dm)

    def say(self, text: str, **options: Any) -> int:
        """Ada writes in the room."""
        return int(self.people.send_text(self.room, self.ada, text, **options)["id"])
