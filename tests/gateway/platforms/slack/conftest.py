"""A workspace with Ada in it, a channel, and a direct one."""

from collections.abc import AsyncIterator

import pytest

from gateway.platforms.slack import socket
from playground.slack.server import SlackServer
from tests.gateway.platforms.slack.scene import Gate


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("socket", "backfill"):
        monkeypatch.setattr(f"gateway.platforms.slack.{module}.backoff_seconds", lambda failures: 0.01)
    monkeypatch.setattr(socket, "_PING_SECONDS", 0.1)


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer() as running:
        # Slack gives up after the last one: three would be over before a busy machine has acknowledged the first.
        running.sockets.retry_seconds = (0.05,) * 200
        yield running


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def ada(server: SlackServer) -> str:
    return str(server.people.make_user("ada")["id"])


@pytest.fixture
def dm(server: SlackServer, ada: str) -> str:
    return str(server.people.make_dm(ada)["id"])


@pytest.fixture
def general(server: SlackServer, ada: str) -> str:
    return str(server.people.make_channel("general", members=[ada])["id"])


@pytest.fixture
def me(server: SlackServer) -> str:
    """How the bot is mentioned."""
    return f"<@{server.world.bot.id}>"
