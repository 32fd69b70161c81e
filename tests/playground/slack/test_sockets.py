"""Socket Mode: acks, what comes again, and sockets that end."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
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


async def test_tickets_are_good_once(server: SlackServer, client: AsyncWebClient) -> None:
    async with aiohttp.ClientSession() as http:
        url = (await client.apps_connections_open(app_token=server.app_token))["url"]
        async with http.ws_connect(url):
            pass
        for refused in (url, f"ws://127.0.0.1:{server.port}/link"):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await http.ws_connect(refused)


async def test_a_client_that_answers_no_ping_is_cut(server: SlackServer) -> None:
    server.sockets.ping_seconds = 1.0  # room for a pong on a busy machine
    async with RawSocket(server) as good, RawSocket(server, pongs=False) as deaf:
        reading = asyncio.create_task(good.end())
        await deaf.end()
        await server.wait_for(lambda: ended(server) == ["no pong"])
        assert not reading.done()
        reading.cancel()


async def test_an_event_may_come_twice_in_two_envelopes(
    server: SlackServer, bot: Listener, ada: str, general: str
) -> None:
    server.faults.add("duplicate_new_id", "message", chat_id=general)
    server.people.send_text(general, ada, "hi")
    await bot.wait(2)
    sent = [event["envelope_id"] for event in server.events.after(0) if event["kind"] == "envelope"]
    assert len(set(sent)) == 2
    assert len({body["event_id"] for body in bot.bodies}) == 1


async def test_an_envelope_may_be_missed(server: SlackServer, bot: Listener, ada: str, general: str) -> None:
    server.sockets.retry_seconds = (0.05, 0.05, 3.0)
    server.faults.add("missed", "message", count=2)
    server.people.send_text(general, ada, "hi")
    await bot.wait()
    (sent,) = [event for event in server.events.after(0) if event["kind"] == "envelope"]
    assert sent["attempt"] == 2
