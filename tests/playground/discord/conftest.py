"""discord.py is imported here first, where its import of a module that Python 3.13 drops is no error."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord

from collections.abc import AsyncGenerator

import pytest

from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Scene, point_discord_at

__all__ = ["discord"]


@pytest.fixture
async def server() -> AsyncGenerator[DiscordServer]:
    async with DiscordServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _pointed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnecting at once; and pointed at the server of the test, if it has one."""
    monkeypatch.setattr("discord.client.ExponentialBackoff.delay", lambda backoff: 0.01)
    if "server" in request.fixturenames:
        point_discord_at(request.getfixturevalue("server"), monkeypatch)


@pytest.fixture
async def scene(server: DiscordServer) -> AsyncGenerator[Scene]:
    """A bot that is ready, in a guild with Ada and Bob and one channel, and Ada's direct messages."""
    async with Scene(server) as running:
        yield running
