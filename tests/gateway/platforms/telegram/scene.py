"""A Telegram of our own, a bot on it, and a gateway that writes down what it is handed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gateway.messages import Address, Choice, OutboundMessage, Text
from gateway.platforms.base import MenuCommand
from gateway.platforms.outgoing import Load
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.telegram.platform import TelegramPlatform
from playground.telegram.server import TelegramServer
from tests.gateway.platforms.gate import Gate as Gate
from tests.gateway.platforms.gate import setup_of

COMMANDS = (MenuCommand("help", "Show what I can do"), MenuCommand("stop", "Stop what is going on"))


def bot_of(
    server: TelegramServer,
    *,
    token: str | None = None,
    account: str = "telegram",
    commands: Sequence[MenuCommand] = COMMANDS,
    load: Load | None = None,
    **options: Any,
) -> TelegramPlatform:
    setup = setup_of(account, server.token if token is None else token, commands=commands, load=load)
    return TelegramPlatform(setup, **{"api_url": server.url, "poll_seconds": 5, "rate_limits": RateLimits(), **options})


@asynccontextmanager
async def listening(platform: TelegramPlatform, gate: Gate) -> AsyncIterator[asyncio.Task[None]]:
    """While the block runs; what ends the run by itself is left in the task."""
    task = asyncio.create_task(platform.run(gate.inlet()))
    heard = gate.heard
    try:
        connected = asyncio.create_task(gate.until(lambda: gate.heard > heard))
        await asyncio.wait([task, connected], return_when=asyncio.FIRST_COMPLETED)
        connected.cancel()
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def outbound(text: str = "hello", *, chat: int = 7, **fields: Any) -> OutboundMessage:
    address = Address(
        account="telegram",
        chat=str(chat),
        thread=str(fields.pop("thread", "")),
        reply_to=str(fields.pop("reply_to", "")),
    )
    choices = tuple(Choice(label=label, action=f"do:{label}") for label in fields.pop("choices", ()))
    given = {"key": "k1", "parts": (Text(text=text),), "choices": choices, **fields}
    return OutboundMessage(address=address, **given)
