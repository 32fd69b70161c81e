"""The real python-telegram-bot on a Bot API of our own."""

from collections.abc import AsyncGenerator

import pytest
from telegram import Bot
from telegram.request import HTTPXRequest

from playground.telegram.server import TelegramServer

PLAIN_HTTP = {"verify": False, "trust_env": False}  # loading certificates takes longer than a test


def bot_of(server: TelegramServer, token: str = "", *, read_seconds: float = 5.0) -> Bot:
    requests = [
        HTTPXRequest(httpx_kwargs=PLAIN_HTTP, connection_pool_size=4, read_timeout=read_seconds) for _ in range(2)
    ]
    return Bot(
        token or server.token, base_url=f"{server.url}/bot", base_file_url=f"{server.url}/file/bot",
        request=requests[0], get_updates_request=requests[1],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _waits_are_timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # or every RetryAfter is a warning


@pytest.fixture
async def server() -> AsyncGenerator[TelegramServer]:
    async with TelegramServer(token="77:secret-of-the-bot", username="our_bot") as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncGenerator[Bot]:
    async with bot_of(server) as running:
        yield running


@pytest.fixture
def ada(server: TelegramServer) -> int:
    user_id: int = server.people.make_user("Ada", id=1001, username="ada")["id"]
    return user_id
