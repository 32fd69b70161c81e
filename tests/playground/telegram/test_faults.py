"""Everything that can go wrong on the way goes wrong on demand, as often as asked for, and no more."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import aiohttp
import pytest
from telegram import Bot
from telegram.error import BadRequest, Forbidden, NetworkError, RetryAfter, TelegramError, TimedOut

from playground.telegram.server import TelegramFault, TelegramServer
from tests.playground.telegram.conftest import bot_of


@pytest.fixture
async def hasty(server: TelegramServer) -> AsyncGenerator[Bot]:
    """What hangs fails after half a second."""
    async with bot_of(server, read_seconds=0.5) as running:
        yield running


async def test_a_call_fails_as_often_as_asked_in_its_chat_alone(server: TelegramServer, bot: Bot, ada: int) -> None:
    bob = server.people.make_user("Bob")["id"]
    server.faults.add("fail", "sendMessage", status=403, description="Forbidden: no", count=2, skip=1, chat_id=bob)
    await bot.send_message(ada, "spared")
    await bot.send_chat_action(bob, "typing")
    await bot.send_message(bob, "skipped")
    for _ in range(2):
        with pytest.raises(Forbidden, match="Forbidden: no"):
            await bot.send_message(bob, "refused")
    await bot.send_message(bob, "over")
    assert (server.texts(ada), server.texts(bob)) == (["spared"], ["skipped", "over"])
    assert [call.status for call in server.called("sendMessage")] == [200, 200, 403, 403, 200]


async def test_a_flood_wait_carries_its_seconds_also_in_the_header(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("fail", retry_after=7, count=2)
    with pytest.raises(RetryAfter) as caught:
        await bot.send_message(ada, "hi")
    assert caught.value.retry_after == timedelta(seconds=7)
    async with aiohttp.ClientSession() as http, http.get(f"{server.url}/bot{server.token}/getMe") as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
    assert server.calls[-1].description == "Too Many Requests: retry after 7"


@pytest.mark.parametrize(
    ("kind", "done"), [("hang", False), ("hang_after", True), ("cut", False), ("cut_after", True), ("garbage", True)]
)
async def test_an_answer_is_lost_before_or_after_the_work(
    server: TelegramServer, hasty: Bot, ada: int, kind: TelegramFault, done: bool
) -> None:
    server.faults.add(kind, "sendMessage")
    hangs = kind.startswith("hang")
    with pytest.raises(TimedOut if hangs else TelegramError) as caught:
        await hasty.send_message(ada, "hi")
    assert hangs or not isinstance(caught.value, (BadRequest, TimedOut))
    assert server.texts(ada) == (["hi"] if done else [])
    assert server.faults.waiting == []
    assert server.calls[-1].description == kind


@pytest.mark.parametrize("kind", ["duplicate", "duplicate_later", "duplicate_new_id"])
async def test_an_update_may_come_twice(server: TelegramServer, bot: Bot, ada: int, kind: TelegramFault) -> None:
    server.faults.add(kind, "message")
    server.people.send_text(ada, ada, "hi")
    found = [*await bot.get_updates()]
    if kind == "duplicate_later":  # after it was confirmed
        found += await bot.get_updates(offset=found[0].update_id + 1)
    one, two = found
    assert (one.update_id == two.update_id) is (kind != "duplicate_new_id")
    assert one.message == two.message
    assert await bot.get_updates(offset=two.update_id + 1) == ()


async def test_a_link_that_goes_half_open_swallows_calls_and_loses_no_update(
    server: TelegramServer, hasty: Bot, ada: int
) -> None:
    server.half_open()
    server.people.send_text(ada, ada, "hi")
    with pytest.raises(TimedOut):
        await hasty.get_updates(timeout=0)
    await server.resume()
    assert len(await hasty.get_updates()) == 1
    await server.pause()
    with pytest.raises(NetworkError):
        await hasty.get_me()


async def test_a_server_that_is_down_can_be_closed() -> None:
    async with TelegramServer() as server:
        await server.pause()
    await server.resume()  # by a timer that comes too late


def test_a_fault_that_does_not_exist_is_refused(server: TelegramServer) -> None:
    with pytest.raises(ValueError, match="unknown fault 'earthquake'"):
        server.faults.add("earthquake")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        server.faults.add("fail", "sendMessage", colour="red")
