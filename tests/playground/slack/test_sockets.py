"""Socket Mode as Bolt meets it: hello, acks, what comes again, and sockets that end."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from tests.playground.slack.conftest import Listener


class RawSocket:
    """A client of our own, to see the frames; it answers pings unless told not to."""

    def __init__(self, server: SlackServer, *, pongs: bool = True) -> None:
        self._server = server
        self._pongs = pongs
        self._http = aiohttp.ClientSession()

    async def __aenter__(self) -> "RawSocket":
        client = AsyncWebClient(token=self._server.bot_token, base_url=self._server.api_url)
        url = (await client.apps_connections_open(app_token=self._server.app_token))["url"]
        self.link = await self._http.ws_connect(url, autoping=self._pongs)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            return dict(await self.link.receive_json())

    async def ack(self, envelope: dict[str, Any], **payload: Any) -> None:
        answer = {"envelope_id": envelope["envelope_id"], **({"payload": payload} if payload else {})}
        await self.link.send_str(json.dumps(answer))

    async def end(self) -> aiohttp.WSMsgType:
        """What the socket ends with."""
        async with asyncio.timeout(30):
            while (message := await self.link.receive()).type in (aiohttp.WSMsgType.PING, aiohttp.WSMsgType.TEXT):
                pass
            return message.type


def ended(server: SlackServer) -> list[str]:
    return [e["why"] for e in server.events.after(0) if e["kind"] == "socket" and e["state"] == "closed"]


def lost(server: SlackServer) -> list[str]:
    return [event["name"] for event in server.events.after(0) if event["kind"] == "lost"]


async def test_hello_counts_the_sockets(server: SlackServer) -> None:
    async with RawSocket(server) as one, RawSocket(server) as two:
        hello = await one.receive()
        assert (hello["type"], hello["num_connections"]) == ("hello", 1)
        assert hello["debug_info"]["approximate_connection_time"] > 0
        assert (await two.receive())["num_connections"] == 2


@pytest.mark.usefixtures("hurried")
async def test_an_envelope_goes_to_one_socket_and_comes_again_unacked(
    server: SlackServer, ada: str, general: str
) -> None:
    async with RawSocket(server) as one, RawSocket(server) as two:
        await one.receive()
        await two.receive()
        sent = server.people.send_text(general, ada, "hi")
        first = await one.receive()
        again = await two.receive()
        assert first["payload"]["event"]["ts"] == sent["ts"]
        assert (first["type"], first["accepts_response_payload"]) == ("events_api", False)
        assert (first["retry_attempt"], first["retry_reason"]) == (0, "")
        assert (again["retry_attempt"], again["retry_reason"]) == (1, "timeout")
        assert again["payload"] == first["payload"]
        assert again["envelope_id"] != first["envelope_id"]
        await two.ack(again)
        await server.wait_for(lambda: server.sockets.unacked == 0)
    assert lost(server) == []


@pytest.mark.usefixtures("hurried")
async def test_what_nobody_acks_comes_four_times_and_is_lost(server: SlackServer, ada: str, general: str) -> None:
    async with RawSocket(server) as socket:
        await socket.receive()
        server.people.send_text(general, ada, "hi")
        attempts = [(await socket.receive())["retry_attempt"] for _ in range(4)]
        await server.wait_for(lambda: lost(server) == ["message"])
        assert attempts == [0, 1, 2, 3]
        assert server.sockets.unacked == 0


@pytest.mark.usefixtures("hurried")
async def test_what_is_said_without_a_socket_is_lost_but_stays_in_the_history(
    server: SlackServer, client: AsyncWebClient, ada: str, general: str
) -> None:
    server.people.send_text(general, ada, "anyone?")
    await server.wait_for(lambda: lost(server) == ["message"])
    async with RawSocket(server) as socket:
        await socket.receive()
        server.people.send_text(general, ada, "hello?")
        assert (await socket.receive())["payload"]["event"]["text"] == "hello?"
    texts = [message["text"] for message in (await client.conversations_history(channel=general))["messages"]]
    assert texts == ["hello?", "anyone?"]


async def test_a_socket_that_opens_in_time_gets_the_retry(server: SlackServer, ada: str, general: str) -> None:
    server.sockets.retry_seconds = (0.3, 0.3, 0.3)
    server.people.send_text(general, ada, "hi")
    async with RawSocket(server) as socket:
        await socket.receive()
        assert (await socket.receive())["retry_attempt"] == 1


async def test_tickets_are_good_once(server: SlackServer, client: AsyncWebClient) -> None:
    async with aiohttp.ClientSession() as http:
        url = (await client.apps_connections_open(app_token=server.app_token))["url"]
        async with http.ws_connect(url):
            pass
        for refused in (url, f"ws://127.0.0.1:{server.port}/link"):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await http.ws_connect(refused)


async def test_the_eleventh_socket_is_sent_away(server: SlackServer) -> None:
    server.sockets.most_open = 1
    async with RawSocket(server) as first, RawSocket(server) as second:
        assert (await first.receive())["type"] == "hello"
        goodbye = await second.receive()
        assert (goodbye["type"], goodbye["reason"]) == ("disconnect", "too_many_websockets")
        assert await second.end() == aiohttp.WSMsgType.CLOSE


async def test_a_client_that_answers_no_ping_is_cut(server: SlackServer) -> None:
    server.sockets.ping_seconds = 0.05
    async with RawSocket(server) as good, RawSocket(server, pongs=False) as deaf:
        reading = asyncio.create_task(good.end())
        await deaf.end()
        await server.wait_for(lambda: ended(server) == ["no pong"])
        assert not reading.done()
        reading.cancel()


async def test_only_a_warning_lets_a_socket_live(server: SlackServer, ada: str, general: str) -> None:
    server.sockets.grace_seconds = 0.05
    async with RawSocket(server) as socket:
        await socket.receive()
        server.sockets.disconnect("warning")
        assert (await socket.receive())["reason"] == "warning"
        server.people.send_text(general, ada, "still here")
        await socket.ack(await socket.receive())
        server.sockets.disconnect("link_disabled")
        assert (await socket.receive())["reason"] == "link_disabled"
        await socket.end()
    assert ended(server) == ["link_disabled"]


@pytest.fixture
def pinging(server: SlackServer) -> None:
    """The server notices soon that a client is gone."""
    server.sockets.ping_seconds = 0.3


# How Bolt behaves on top of that: what the adapter builds on.


async def test_bolt_acks_after_a_listener_that_comes_first(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.sockets.retry_seconds = (0.3, 3.0)
    bot.trouble.append(RuntimeError("no room"))
    server.people.send_text(general, ada, "hi")
    await bot.wait()  # the retry, since a listener that fails is not acked
    assert [e["attempt"] for e in server.events.after(0) if e["kind"] == "envelope"] == [0, 1]
    await server.wait_for(lambda: server.sockets.unacked == 0)


async def test_bolt_acks_before_a_listener_otherwise(server: SlackServer, ada: str, general: str) -> None:
    eager = await Listener(server).start()
    eager.trouble.append(RuntimeError("no room"))
    server.people.send_text(general, ada, "hi")
    await server.wait_for(lambda: not eager.trouble and not server.sockets.unacked)
    await eager.close()
    assert eager.bodies == []


@pytest.mark.usefixtures("hurried")
async def test_bolt_never_acks_what_nobody_listens_to(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.people.command(general, ada, "/unheard")
    await server.wait_for(lambda: lost(server) == ["slash_commands"])


async def test_bolt_reconnects_when_told_to_go(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    for reason in ("refresh_requested", "warning", "link_disabled"):
        (old,) = [socket.number for socket in server.sockets.open]
        server.sockets.disconnect(reason)
        await server.wait_for(lambda seen=old: [s.number for s in server.sockets.open] == [seen + 1])  # type: ignore[misc]
    server.people.send_text(general, ada, "hi")
    assert (await bot.wait())[0]["text"] == "hi"


@pytest.mark.usefixtures("pinging")
@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_bolt_reconnects_when_its_socket_breaks(
    server: SlackServer, bot: Listener, ada: str, general: str, how: str
) -> None:
    (old,) = server.sockets.open
    getattr(server.sockets, how)()
    await server.wait_for(lambda: server.sockets.open and old not in server.sockets.open)
    server.people.send_text(general, ada, "hi")
    assert (await bot.wait())[0]["text"] == "hi"


@pytest.mark.usefixtures("hurried")
async def test_bolt_comes_back_after_an_outage(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    await server.pause()
    server.people.send_text(general, ada, "lost")
    await server.wait_for(lambda: lost(server) == ["message"])
    await server.resume()
    await server.wait_for_socket()
    server.people.send_text(general, ada, "hi")
    assert (await bot.wait())[0]["text"] == "hi"


async def test_bolt_never_says_that_its_app_token_is_wrong(server: SlackServer) -> None:
    listener = Listener(server, ping_interval=0.01)
    server.app_token = "xapp-another"
    connecting = asyncio.create_task(listener.connect())
    await server.wait_for(lambda: len(server.called("apps.connections.open")) >= 3)
    assert not connecting.done()
    await listener.close()
    await connecting


async def test_bolt_acks_and_drops_an_event_when_its_own_auth_test_is_refused(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.faults.add("fail", "auth.test", description="internal_error")
    server.people.send_text(general, ada, "dropped")
    await server.wait_for(lambda: [event["kind"] for event in server.events.after(0)].count("ack") == 1)
    server.people.send_text(general, ada, "heard")
    await bot.wait()
    assert [event["text"] for event in bot.events] == ["heard"]


async def test_bolt_asks_for_no_auth_test_when_told_who_it_is(server: SlackServer, ada: str, general: str) -> None:
    async def who() -> AuthorizeResult:
        bot = server.world.bot
        return AuthorizeResult(
            enterprise_id=None,
            team_id=server.world.team_id,
            bot_token=server.bot_token,
            bot_id=bot.bot_id,
            bot_user_id=bot.id,
        )

    listener = await Listener(server, process_before_response=True, authorize=who).start()
    server.people.send_text(general, ada, "hi")
    await listener.wait()
    await listener.close()
    assert server.called("auth.test") == []
