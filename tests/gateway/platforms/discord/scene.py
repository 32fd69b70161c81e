"""A Discord of our own, a bot on it, and a gateway that writes down what it is handed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.messages import Address, Choice, InboundMessage, OutboundMessage, Receipt, Text
from gateway.platforms.base import MenuCommand
from gateway.platforms.discord.platform import DiscordPlatform
from gateway.platforms.outgoing import Load
from gateway.platforms.rate_limit import RateLimits
from playground.discord.server import DiscordServer
from tests.gateway.platforms.gate import Gate, setup_of
from tests.gateway.scene import soon

COMMANDS = (
    MenuCommand("help", "Show what I can do"),
    MenuCommand("stop", "Stop what is going on"),
    MenuCommand("reset", ""),
)


@dataclass
class Scene:
    """Ada in a guild with one channel, and her direct messages."""

    server: DiscordServer
    gate: Gate
    platform: DiscordPlatform
    ada: str
    guild: str
    channel: str
    dm: str

    @property
    def people(self) -> Any:
        return self.server.people

    @property
    def mention(self) -> str:
        return f"<@{self.server.world.bot.id}>"

    def says(self, text: str, *, where: str = "", **options: Any) -> str:
        message_id: str = self.people.send_text(where or self.dm, self.ada, text, **options)["id"]
        return message_id

    async def heard(self, count: int) -> list[InboundMessage]:
        await self.gate.until(lambda: len(self.gate.taken) >= count)
        return self.gate.taken

    def seen(self, where: str = "") -> str:
        return self.gate.cursors.get(f"seen:{where or self.dm}", "")

    async def send(self, text: str = "hello", *, chat: str = "", **fields: Any) -> Receipt:
        return await soon(self.platform.send(self.outbound(text, chat=chat, **fields)))

    def outbound(self, text: str = "hello", *, chat: str = "", **fields: Any) -> OutboundMessage:
        address = Address(account="discord", chat=chat or self.dm, reply_to=str(fields.pop("reply_to", "")))
        choices = tuple(Choice(label=label, action=f"do:{label}") for label in fields.pop("choices", ()))
        given = {"key": "0123456789abcdef01234567", "parts": (Text(text=text),), "choices": choices, **fields}
        return OutboundMessage(address=address, **given)

    def last(self, where: str = "") -> dict[str, Any]:
        message: dict[str, Any] = self.server.show(where or self.dm)[-1]["message"]
        return message

    def calls(self, method: str) -> list[dict[str, Any]]:
        return [call.params for call in self.server.called(method)]


def bot_of(
    server: DiscordServer,
    *,
    token: str | None = None,
    account: str = "discord",
    commands: Sequence[MenuCommand] = COMMANDS,
    load: Load | None = None,
    **options: Any,
) -> DiscordPlatform:
    setup = setup_of(account, server.token if token is None else token, commands=commands, load=load)
    return DiscordPlatform(
        setup, **{"api_url": server.api_url, "thread_per_conversation": False, "rate_limits": RateLimits(), **options}
    )


@asynccontextmanager
async def a_scene(**options: Any) -> AsyncIterator[Scene]:
    """Nobody listens yet."""
    server_options = options.pop("server", {})
    async with DiscordServer(**server_options) as server:
        ada = server.people.make_user("ada", global_name="Ada")["id"]
        guild = server.people.make_guild("Engines", members=[ada])["id"]
        yield Scene(
            server=server,
            gate=Gate(),
            platform=bot_of(server, **options),
            ada=ada,
            guild=guild,
            channel=server.people.make_channel(guild, "general")["id"],
            dm=server.people.open_dm(ada)["id"],
        )


@asynccontextmanager
async def listening(scene: Scene, **options: Any) -> AsyncIterator[asyncio.Task[None]]:
    """While the block runs, with a bot of its own if there are options; what ends the run is left in the task."""
    platform = bot_of(scene.server, **options) if options else scene.platform
    gate, heard = scene.gate, scene.gate.heard
    task = asyncio.create_task(platform.run(gate.inlet()))
    connected = asyncio.create_task(gate.until(lambda: gate.heard > heard))
    try:
        await asyncio.wait([task, connected], return_when=asyncio.FIRST_COMPLETED)
        yield task
    finally:
        connected.cancel()
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, if only here


async def ending_of(task: asyncio.Task[None]) -> BaseException:
    await soon(asyncio.wait([task]))
    error = task.exception()
    assert error is not None
    return error
