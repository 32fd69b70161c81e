"""A Slack of our own, a bot on it, and a gateway that writes down what it is handed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.messages import Address, Choice, OutboundMessage, Text
from gateway.platforms.base import MenuCommand
from gateway.platforms.outgoing import Load
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.slack.platform import SlackPlatform
from playground.slack.server import SlackServer
from tests.gateway.platforms.gate import Gate as AnyGate
from tests.gateway.platforms.gate import setup_of

COMMANDS = (MenuCommand("help", "Show what I can do"), MenuCommand("stop", "Stop what is going on"))


class Gate(AnyGate):
    @property
    def distinct(self) -> list[str]:
        """What is left when second copies are known as such, as the inbox knows them."""
        seen = {(one.key.chat, one.message_id, one.kind, one.edited_ms): one.text for one in self.taken}
        return list(seen.values())

    def seen(self, channel: str) -> str:
        return self.cursors.get(f"seen:{channel}", "").partition(" ")[0]

    async def _moved(self, old: str, new: str) -> None:
        raise AssertionError("channels of Slack keep their ids")


def bot_of(
    server: SlackServer,
    *,
    bot_token: str | None = None,
    app_token: str | None = None,
    account: str = "slack",
    load: Load | None = None,
) -> SlackPlatform:
    tokens = server.bot_token if bot_token is None else bot_token, server.app_token if app_token is None else app_token
    setup = setup_of(account, *tokens, commands=COMMANDS, load=load)
    return SlackPlatform(setup, api_url=server.api_url, rate_limits=RateLimits())


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
