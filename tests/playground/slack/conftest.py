"""A Slack on loopback, and the real SDKs against it."""

import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer


class Listener:
    """A Bolt app that keeps the bodies of all events it hears."""

    def __init__(self, server: SlackServer, *, ping_interval: float = 0.1, **options: Any) -> None:
        self.server = server
        self.bodies: list[dict[str, Any]] = []
        client = AsyncWebClient(token=server.bot_token, base_url=server.api_url)
        self.app = AsyncApp(client=client, **options)
        self.app.event(re.compile(".+"))(self._hear)
        self.handler = AsyncSocketModeHandler(self.app, server.app_token, ping_interval=ping_interval)

    async def _hear(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)
        self.server.events.note("heard")

    @property
    def events(self) -> list[dict[str, Any]]:
        return [body["event"] for body in self.bodies]

    def heard(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    async def connect(self) -> None:
        await self.handler.connect_async()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        await self.handler.close_async()  # type: ignore[no-untyped-call]

    async def start(self) -> "Listener":
        count = len(self.server.sockets.open)
        await self.connect()
        await self.server.wait_for_socket(count + 1)
        return self

    async def wait(self, count: int = 1) -> list[dict[str, Any]]:
        await self.server.wait_for(lambda: len(self.bodies) >= count)
        return self.events


@pytest.fixture
async def server() -> AsyncGenerator[SlackServer]:
    async with SlackServer() as running:
        yield running


@pytest.fixture
def hurried(server: SlackServer) -> None:
    """What is not acked comes again at once; too soon for Bolt's first answer on a busy machine."""
    server.sockets.retry_seconds = (0.05, 0.05, 0.05)


@pytest.fixture
def client(server: SlackServer) -> AsyncWebClient:
    """Tries nothing twice."""
    return AsyncWebClient(token=server.bot_token, base_url=server.api_url, retry_handlers=[])


@pytest.fixture
async def bot(server: SlackServer) -> AsyncGenerator[Listener]:
    """Acks after its listener, as Hermes does."""
    listener = await Listener(server, process_before_response=True).start()
    yield listener
    await listener.close()


@pytest.fixture
def ada(server: SlackServer) -> str:
    user_id: str = server.people.make_user("ada")["id"]
    return user_id


@pytest.fixture
def general(server: SlackServer, ada: str) -> str:
    channel_id: str = server.people.make_channel("general", members=[ada])["id"]
    return channel_id


@pytest.fixture
def dm(server: SlackServer, ada: str) -> str:
    channel_id: str = server.people.make_dm(ada)["id"]
    return channel_id
