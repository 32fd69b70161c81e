"""A Slack of our own, a bot on it, and a gateway that writes down what it is handed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.messages import Address, Choice, Cursor, InboundMessage, OutboundMessage, Text
from gateway.platforms.base import Inlet
from gateway.platforms.pace import Pace
from gateway.platforms.slack.platform import SlackPlatform
from playground.slack.server import SlackServer
from tests.gateway.scene import soon

COMMANDS = (("help", "Show what I can do"), ("stop", "Stop what is going on"))


@dataclass
class Gate:
    taken: list[InboundMessage] = field(default_factory=list)
    pages: list[list[InboundMessage]] = field(default_factory=list)
    cursors: dict[str, str] = field(default_factory=dict)
    reached: list[str] = field(default_factory=list)
    heard: int = 0
    refuse_with: list[Exception] = field(default_factory=list)
    refused: int = 0
    before_accept: Callable[[], Awaitable[None]] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def inlet(self) -> Inlet:
        return Inlet(
            accept=self._accept,
            cursor=self._cursor,
            cursors=self._cursors,
            heard=self._heard,
            reachable=self._reachable,
            moved=self._moved,
        )

    async def until(self, condition: Callable[[], Any]) -> None:
        async def wait() -> None:
            while not condition():
                self.changed.clear()
                await self.changed.wait()

        await soon(wait())

    async def next_texts(self, count: int) -> list[str]:
        await self.until(lambda: len(self.taken) >= count)
        return [message.text for message in self.taken]

    @property
    def distinct(self) -> list[str]:
        """What is left when second copies are known as such, as the inbox knows them."""
        seen = {(one.key.chat, one.message_id, one.kind, one.edited_ms): one.text for one in self.taken}
        return list(seen.values())

    def seen(self, channel: str) -> str:
        return self.cursors.get(f"seen:{channel}", "").partition(" ")[0]

    async def _accept(self, messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        if self.before_accept is not None:
            await self.before_accept()
        if self.refuse_with and messages:
            self.refused += 1
            self.changed.set()
            raise self.refuse_with.pop(0)
        if messages:
            self.pages.append(list(messages))
        self.taken += messages
        if cursor is not None:
            self.cursors[cursor.channel] = cursor.value
        self.changed.set()

    async def _cursor(self, channel: str) -> str:
        return self.cursors.get(channel, "")

    async def _cursors(self) -> dict[str, str]:
        return dict(self.cursors)

    async def _reachable(self, chat: str) -> None:
        self.reached.append(chat)
        self.changed.set()

    async def _moved(self, old: str, new: str) -> None:
        raise AssertionError("channels of Slack keep their ids")

    def _heard(self) -> None:
        self.heard += 1
        self.changed.set()


def bot_of(server: SlackServer, **options: Any) -> SlackPlatform:
    given = {"api_url": server.api_url, "pace": Pace(), "commands": COMMANDS, **options}
    bot_token, app_token = given.pop("bot_token", server.bot_token), given.pop("app_token", server.app_token)
    return SlackPlatform(bot_token, app_token, **given)


@asynccontextmanager
async def listening(platform: SlackPlatform, gate: Gate, server: SlackServer) -> AsyncIterator[asyncio.Task[None]]:
    """While the block runs, on both sockets; what ends the run by itself is left in the task."""
    task = asyncio.create_task(platform.run(gate.inlet()))
    try:
        connected = asyncio.create_task(server.wait_for_socket(2))
        await asyncio.wait([task, connected], return_when=asyncio.FIRST_COMPLETED)
        connected.cancel()
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
        await server.wait_for(lambda: not server.sockets.open)


def outbound(text: str = "hello", *, chat: str, **fields: Any) -> OutboundMessage:
    address = Address(account="slack", chat=chat, thread=fields.pop("thread", ""), reply_to=fields.pop("reply_to", ""))
    choices = tuple(Choice(label=label, action=f"do:{label}") for label in fields.pop("choices", ()))
    given = {"key": "k1", "parts": (Text(text=text),), "choices": choices, **fields}
    return OutboundMessage(address=address, **given)
