"""The gateway as discord.py knows it: sessions, heartbeats, resuming, and being turned away."""

import aiohttp
import discord
import pytest

from playground.discord.gateway import KEPT_EVENTS, GatewaySession
from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Bot, Scene


async def test_a_bot_becomes_ready_and_knows_its_guilds(scene: Scene) -> None:
    assert scene.bot.user
    assert scene.bot.user.id == scene.server.world.bot.id
    (guild,) = scene.bot.guilds
    assert (guild.name, guild.unavailable, guild.member_count) == ("Lab", False, 3)
    assert scene.channel.name == "general"
    assert scene.channel.permissions_for(guild.me).send_messages


@pytest.mark.parametrize("resumable", [True, False])
async def test_an_invalid_session(scene: Scene, resumable: bool) -> None:
    scene.server.gateway.invalidate(resumable=resumable)
    await scene.bot.until(*(("resumed", 1) if resumable else ("ready", 2)))
    assert scene.server.gateway.identifies == (1 if resumable else 2)


async def test_without_an_intent_its_events_do_not_come(server: DiscordServer) -> None:
    async with Scene(server, Bot(discord.Intents(guilds=True, dm_messages=True))) as scene:
        scene.say("unheard")
        scene.people.send_text(scene.dm, scene.ada, "heard")
        await scene.bot.until("message")
        assert scene.bot.texts() == ["heard"]


async def test_what_no_client_says_is_closed(server: DiscordServer) -> None:
    async with aiohttp.ClientSession() as http:
        for said, code in (("{}", 4002), ('{"op":99}', 4001), ("x" * 5000, 4002)):
            async with http.ws_connect(f"{server.gateway_url}?v=10&encoding=json") as socket:
                assert (await socket.receive_json())["op"] == 10
                await socket.send_str(said)
                await socket.receive()
                assert socket.close_code == code


async def test_a_session_is_begun_once_and_resumed_from_what_was_sent(server: DiscordServer) -> None:
    hello = {"token": server.token, "intents": 0, "properties": {}}
    async with aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{server.gateway_url}?v=10&encoding=json") as socket:
            await socket.receive()
            await socket.send_json({"op": 2, "d": hello})
            session = (await socket.receive_json())["d"]["session_id"]
            await socket.send_json({"op": 2, "d": hello})
            await socket.receive()
            assert socket.close_code == 4005
        async with http.ws_connect(f"{server.gateway_url}?v=10&encoding=json") as socket:
            await socket.receive()
            await socket.send_json({"op": 6, "d": {"token": server.token, "session_id": session, "seq": 99}})
            await socket.receive()
            assert socket.close_code == 4007


async def test_other_versions_are_not_spoken(server: DiscordServer) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.gateway_url}?v=9&encoding=json") as socket:
        await socket.receive()
        assert socket.close_code == 4012


@pytest.mark.parametrize(("code", "left"), [(1000, 0), (4000, 1)])
async def test_only_a_bot_that_takes_its_leave_ends_its_session(server: DiscordServer, code: int, left: int) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.gateway_url}?v=10&encoding=json") as socket:
        await socket.receive()
        await socket.send_json({"op": 2, "d": {"token": server.token, "intents": 0, "properties": {}}})
        assert (await socket.receive_json())["t"] == "READY"
        await socket.close(code=code)
    await server.wait_for(lambda: not server.gateway.connected)
    assert len(server.gateway.sessions) == left


def test_what_is_too_long_ago_cannot_be_sent_again() -> None:
    session = GatewaySession(id="s", intents=0, line=None)
    assert session.events_after(0) == []
    for _ in range(KEPT_EVENTS + 2):
        session.push("MESSAGE_CREATE", b"{}")
    assert session.events_after(1) is None
    assert len(session.events_after(2) or ()) == KEPT_EVENTS
    assert session.events_after(session.seq) == []


async def test_an_event_may_come_twice_or_not_at_all(scene: Scene) -> None:
    scene.server.faults.add("duplicate", "MESSAGE_CREATE")
    scene.server.faults.add("drop", "MESSAGE_CREATE", chat_id=scene.dm)
    scene.say("twice")
    scene.people.send_text(scene.dm, scene.ada, "never")
    scene.say("once")
    await scene.bot.until("message", 3)
    assert scene.bot.texts() == ["twice", "twice", "once"]
    assert len({message.id for message in scene.bot.all("message")}) == 2


async def test_a_reply_carries_what_it_answers_and_mentions_the_bot_if_it_pings(scene: Scene) -> None:
    mine = await scene.channel.send("mine")
    scene.say("loud", reply_to=mine.id)
    scene.say("quiet", reply_to=mine.id, ping=False)
    await scene.bot.until("message", 3)
    _, loud, quiet = scene.bot.all("message")
    assert loud.reference.resolved.content == "mine"
    assert scene.bot.user in loud.mentions
    assert quiet.mentions == []
