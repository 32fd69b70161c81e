"""Everything that can go wrong on the way goes wrong on demand, as often as asked for, and no more."""

import asyncio

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from playground.slack.sockets import SlackFault
from tests.playground.slack.conftest import Listener
from tests.playground.slack.test_chat import refusal


async def test_a_method_fails_with_any_error_as_often_as_asked(
    server: SlackServer, client: AsyncWebClient, general: str
) -> None:
    server.faults.add("fail", "chat.postMessage", description="internal_error", count=2)
    for _ in range(2):
        assert await refusal(client.chat_postMessage(channel=general, text="x")) == "internal_error"
    await client.chat_postMessage(channel=general, text="hi")
    assert server.texts(general) == ["hi"]
    assert [call.description for call in server.called("chat.postMessage")] == ["internal_error"] * 2 + [""]


async def test_a_rate_limit_carries_its_seconds(server: SlackServer, client: AsyncWebClient) -> None:
    server.faults.add("fail", "auth.test", retry_after=7)
    with pytest.raises(SlackApiError) as caught:
        await client.auth_test()
    answer = caught.value.response
    assert (answer.status_code, answer["error"], answer.headers["Retry-After"]) == (429, "ratelimited", "7")


async def test_a_server_error_is_no_json(server: SlackServer, client: AsyncWebClient) -> None:
    server.faults.add("fail", "auth.test", status=503)
    with pytest.raises(SlackApiError) as caught:
        await client.auth_test()
    assert caught.value.response.status_code == 503


async def test_other_methods_and_channels_are_spared(
    server: SlackServer, client: AsyncWebClient, dm: str, general: str
) -> None:
    server.faults.add("fail", "chat.postMessage", description="fatal_error", chat_id=dm, count=None)
    await client.chat_postMessage(channel=general, text="x")
    await client.auth_test()
    for _ in range(2):
        assert await refusal(client.chat_postMessage(channel=dm, text="x")) == "fatal_error"
    server.faults.clear()
    await client.chat_postMessage(channel=dm, text="x")


@pytest.mark.parametrize(
    ("kind", "done"), [("hang", False), ("hang_after", True), ("cut", False), ("cut_after", True), ("garbage", True)]
)
async def test_an_answer_is_lost_before_or_after_the_work(
    server: SlackServer, general: str, kind: SlackFault, done: bool
) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2)) as http:
        client = AsyncWebClient(token=server.bot_token, base_url=server.api_url, session=http, retry_handlers=[])
        server.faults.add(kind, "chat.postMessage")
        with pytest.raises((TimeoutError, aiohttp.ClientError, SlackApiError)):
            await client.chat_postMessage(channel=general, text="hi")
        assert server.texts(general) == (["hi"] if done else [])
        assert server.calls[-1].description == kind
        await client.chat_postMessage(channel=general, text="again")


async def test_the_sdk_posts_twice_by_itself_unless_its_retry_handlers_are_taken_away(
    server: SlackServer, general: str
) -> None:
    server.faults.add("cut_after", "chat.postMessage")
    stock = AsyncWebClient(token=server.bot_token, base_url=server.api_url)
    await stock.chat_postMessage(channel=general, text="hi")
    assert server.texts(general) == ["hi", "hi"]


async def test_slow_is_slow_and_right(server: SlackServer, client: AsyncWebClient, general: str) -> None:
    server.faults.add("slow", "chat.postMessage", seconds=0.05)
    assert (await client.chat_postMessage(channel=general, text="hi"))["ok"]


async def test_connecting_may_fail(server: SlackServer) -> None:
    server.faults.add("fail", "apps.connections.open", description="internal_error")
    listener = Listener(server)
    await listener.start()  # Bolt tries again
    assert len(server.called("apps.connections.open")) == 2
    await listener.close()


async def test_a_download_may_break(server: SlackServer, ada: str, general: str) -> None:
    (file,) = server.people.send_file(general, ada, b"x" * 1000)["files"]
    server.faults.add("cut_after", "file")
    headers = {"Authorization": f"Bearer {server.bot_token}"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(file["url_private"]) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


def _sent(server: SlackServer) -> list[str]:
    return [event["envelope_id"] for event in server.events.after(0) if event["kind"] == "envelope"]


async def test_an_envelope_may_come_twice(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    server.faults.add("duplicate", "message")
    server.people.send_text(general, ada, "hi")
    await bot.wait(2)
    assert len(_sent(server)) == 2
    assert len(set(_sent(server))) == 1


async def test_an_event_may_come_twice_in_two_envelopes(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.faults.add("duplicate_new_id", "message", chat_id=general)
    server.people.send_text(general, ada, "hi")
    await bot.wait(2)
    assert len(set(_sent(server))) == 2
    assert len({body["event_id"] for body in bot.bodies}) == 1


@pytest.mark.parametrize("seconds", [0.0, 0.02])
async def test_events_may_come_out_of_order(
    server: SlackServer, bot: Listener, ada: str, general: str, seconds: float
) -> None:
    server.faults.add("late", "message", seconds=seconds)
    for text in ("one", "two"):
        server.people.send_text(general, ada, text)
    await bot.wait(2)
    assert [event["text"] for event in bot.events] == ["two", "one"]


async def test_an_envelope_may_be_missed(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    server.sockets.retry_seconds = (0.05, 0.05, 3.0)
    server.faults.add("missed", "message", count=2)
    server.people.send_text(general, ada, "hi")
    await bot.wait()
    (sent,) = [event for event in server.events.after(0) if event["kind"] == "envelope"]
    assert sent["attempt"] == 2


@pytest.mark.parametrize(("kind", "times"), [("cut_socket", 1), ("cut_socket_after", 2)])
async def test_a_socket_may_break_at_an_envelope(
    server: SlackServer, bot: Listener, ada: str, general: str, kind: SlackFault, times: int
) -> None:
    server.sockets.retry_seconds = (0.5, 0.5, 0.5)
    server.faults.add(kind, "message")
    server.people.send_text(general, ada, "hi")
    await bot.wait(times)
    assert {event["text"] for event in bot.events} == {"hi"}
    await server.wait_for(lambda: server.sockets.unacked == 0)


async def test_a_half_open_link_says_nothing_until_mended(
    server: SlackServer, client: AsyncWebClient, bot: Listener, ada: str, general: str
) -> None:
    server.half_open()
    server.people.send_text(general, ada, "hi")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await client.auth_test()
    await server.resume()
    await client.auth_test()
    await bot.wait()
