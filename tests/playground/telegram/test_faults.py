"""Everything that can go wrong on the way goes wrong on demand, as often as asked for, and no more."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import aiohttp
import pytest
from telegram import Bot
from telegram.error import BadRequest, Forbidden, NetworkError, RetryAfter, TelegramError, TimedOut
from telegram.request import HTTPXRequest

from playground.telegram.server import TelegramFault, TelegramServer

_PLAIN_HTTP = {"verify": False, "trust_env": False}


@pytest.fixture(autouse=True)
def _waits_are_timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # or every RetryAfter is a warning


@pytest.fixture
async def server() -> AsyncGenerator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncGenerator[Bot]:
    """Impatient: what hangs fails after half a second."""
    requests = [HTTPXRequest(httpx_kwargs=_PLAIN_HTTP, read_timeout=0.5, connect_timeout=5) for _ in range(2)]
    running = Bot(
        server.token, base_url=f"{server.url}/bot", base_file_url=f"{server.url}/file/bot",
        request=requests[0], get_updates_request=requests[1],
    )  # fmt: skip
    async with running:
        yield running


@pytest.fixture
def ada(server: TelegramServer) -> int:
    user_id: int = server.people.make_user("Ada", id=1001)["id"]
    return user_id


async def test_a_method_fails_with_any_words_as_often_as_asked(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("fail", "sendMessage", status=403, description="Forbidden: no", count=2)
    for _ in range(2):
        with pytest.raises(Forbidden, match="Forbidden: no"):
            await bot.send_message(ada, "hi")
    await bot.send_message(ada, "hi")
    assert server.texts(ada) == ["hi"]
    assert [call.status for call in server.called("sendMessage")] == [403, 403, 200]


async def test_a_flood_wait_carries_its_seconds(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("fail", "sendMessage", retry_after=7)
    with pytest.raises(RetryAfter) as caught:
        await bot.send_message(ada, "hi")
    assert caught.value.retry_after == timedelta(seconds=7)
    assert server.calls[-1].description == "Too Many Requests: retry after 7"


async def test_a_flood_wait_is_in_the_header_too(server: TelegramServer) -> None:
    server.faults.add("fail", "getMe", retry_after=7)
    async with aiohttp.ClientSession() as http, http.get(f"{server.url}/bot{server.token}/getMe") as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
        assert (await answer.json())["parameters"] == {"retry_after": 7}


async def test_other_methods_and_chats_are_spared(server: TelegramServer, bot: Bot, ada: int) -> None:
    bob = server.people.make_user("Bob")["id"]
    server.faults.add("fail", "sendMessage", status=500, chat_id=bob, count=None)
    await bot.send_message(ada, "hi")
    await bot.send_chat_action(bob, "typing")
    for _ in range(3):
        with pytest.raises(NetworkError, match="Internal Server Error"):
            await bot.send_message(bob, "hi")
    server.faults.clear()
    await bot.send_message(bob, "hi")


async def test_a_fault_can_let_some_pass_first(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("fail", "sendMessage", status=502, skip=1)
    await bot.send_message(ada, "one")
    with pytest.raises(NetworkError, match="Bad Gateway"):
        await bot.send_message(ada, "two")


@pytest.mark.parametrize(
    ("kind", "done"), [("hang", False), ("hang_after", True), ("cut", False), ("cut_after", True), ("garbage", True)]
)
async def test_an_answer_is_lost_before_or_after_the_work(
    server: TelegramServer, bot: Bot, ada: int, kind: TelegramFault, done: bool
) -> None:
    server.faults.add(kind, "sendMessage")
    hangs = kind.startswith("hang")
    with pytest.raises(TimedOut if hangs else TelegramError) as caught:
        await bot.send_message(ada, "hi")
    assert hangs or not isinstance(caught.value, (BadRequest, TimedOut))
    assert server.texts(ada) == (["hi"] if done else [])
    assert server.faults.waiting == []
    assert server.calls[-1].description == kind
    await bot.send_message(ada, "again")


async def test_slow_is_slow_and_right(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("slow", "sendMessage", seconds=0.05)
    assert (await bot.send_message(ada, "hi")).text == "hi"
    server.faults.add("slow", "sendMessage", seconds=1.5)
    with pytest.raises(TimedOut):
        await bot.send_message(ada, "late")
    await server.wait_for(lambda: server.texts(ada) == ["hi", "late"])


async def test_a_hanging_poll_loses_no_update(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.people.send_text(ada, ada, "hi")
    server.faults.add("hang_after", "getUpdates")
    with pytest.raises(TimedOut):
        await bot.get_updates()
    assert len(await bot.get_updates()) == 1


async def test_an_update_may_come_twice_with_one_id(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("duplicate", "message")
    server.people.send_text(ada, ada, "hi")
    one, two = await bot.get_updates()
    assert one.update_id == two.update_id
    assert await bot.get_updates(offset=one.update_id + 1) == ()


async def test_an_update_may_come_again_after_it_was_confirmed(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("duplicate_later")
    server.people.send_text(ada, ada, "hi")
    (first,) = await bot.get_updates()
    (again,) = await bot.get_updates(offset=first.update_id + 1)
    assert again.update_id == first.update_id
    assert await bot.get_updates(offset=first.update_id + 1) == ()


async def test_an_update_may_come_twice_with_two_ids(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.faults.add("duplicate_new_id")
    server.people.send_text(ada, ada, "hi")
    one, two = await bot.get_updates()
    assert one.message
    assert two.message
    assert one.update_id != two.update_id
    assert one.message.message_id == two.message.message_id


async def test_a_download_breaks_in_the_middle(server: TelegramServer, bot: Bot, ada: int) -> None:
    sent = await bot.send_document(ada, b"0123456789", filename="a.txt")
    assert sent.document
    file = await bot.get_file(sent.document.file_id)
    server.faults.add("cut_after", "file")
    with pytest.raises(NetworkError):
        await file.download_as_bytearray()
    assert await file.download_as_bytearray() == b"0123456789"


async def test_the_server_goes_down_and_comes_back_on_its_port(server: TelegramServer, bot: Bot, ada: int) -> None:
    url = server.url
    await bot.send_message(ada, "before")
    await server.pause()
    server.people.send_text(ada, ada, "meanwhile")
    with pytest.raises(NetworkError):
        await bot.send_message(ada, "lost")
    await server.resume()
    assert server.url == url
    await bot.send_message(ada, "after")
    assert server.texts(ada) == ["before", "after"]
    assert len(await bot.get_updates()) == 1


async def test_going_down_cuts_a_waiting_poll(server: TelegramServer, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=20))
    await server.wait_for(lambda: server.world.updates.polling)
    await server.pause()
    with pytest.raises(NetworkError):
        await poll
    await server.resume()


async def test_a_server_that_is_down_can_be_closed() -> None:
    async with TelegramServer() as server:
        await server.pause()
    await server.resume()  # by a timer that comes too late


async def test_a_half_open_link_accepts_and_says_nothing(server: TelegramServer, bot: Bot, ada: int) -> None:
    server.half_open()
    with pytest.raises(TimedOut):
        await bot.send_message(ada, "hi")
    async with aiohttp.ClientSession() as fresh:
        with pytest.raises(TimeoutError):
            await fresh.get(f"{server.url}/bot{server.token}/getMe", timeout=aiohttp.ClientTimeout(total=0.1))
    await server.resume()
    await bot.send_message(ada, "hi again")
    assert server.texts(ada) == ["hi again"]


async def test_a_link_that_goes_half_open_swallows_the_waiting_poll(server: TelegramServer, bot: Bot, ada: int) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=1, read_timeout=0.1))
    await server.wait_for(lambda: server.world.updates.polling)
    server.half_open()
    server.people.send_text(ada, ada, "hi")
    with pytest.raises(TimedOut):
        await poll
    await server.resume()
    assert len(await bot.get_updates()) == 1


def test_a_fault_that_does_not_exist_is_refused(server: TelegramServer) -> None:
    with pytest.raises(ValueError, match="unknown fault 'earthquake'"):
        server.faults.add("earthquake")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        server.faults.add("fail", "sendMessage", colour="red")
