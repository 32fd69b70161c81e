"""The gateway as discord.py knows it: sessions, heartbeats, resuming, and being turned away."""

import aiohttp
import discord
import pytest

from playground.discord import intents
from playground.discord.gateway import KEPT_EVENTS, GatewaySession
from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Bot, Scene, point_discord_at


async def test_a_bot_becomes_ready_and_knows_its_guilds(scene: Scene) -> None:
    assert scene.bot.user
    assert scene.bot.user.id == scene.server.world.bot.id
    (guild,) = scene.bot.guilds
    assert (guild.name, guild.unavailable, guild.member_count) == ("Lab", False, 3)
    assert scene.channel.name == "general"
    assert scene.channel.permissions_for(guild.me).send_messages


async def test_messages_arrive_in_order_and_as_themselves(scene: Scene) -> None:
    scene.say("one")
    scene.say("two")
    scene.people.send_text(scene.dm, scene.ada, "three")
    last = await scene.bot.until("message", 3)
    assert scene.bot.texts() == ["one", "two", "three"]
    assert isinstance(last.channel, discord.DMChannel)
    assert last.channel.id == scene.dm
    first = scene.bot.all("message")[0]
    assert (first.author.id, first.author.display_name, first.guild.id) == (scene.ada, "Ada", scene.guild)
    assert first.id < last.id


async def test_a_bot_hears_itself(scene: Scene) -> None:
    await scene.channel.send("hello")
    assert (await scene.bot.until("message")).author == scene.bot.user


async def test_heartbeats_are_acknowledged() -> None:
    async with DiscordServer(heartbeat_seconds=0.05) as server:
        with pytest.MonkeyPatch.context() as patch:
            point_discord_at(server, patch)
            async with Scene(server) as scene:
                await server.wait_for(lambda: server.gateway.heartbeats >= 4)
                await scene.bot.log.wait_for(lambda: scene.bot.latency < 1.0)


async def test_a_cut_connection_is_resumed_and_nothing_is_missed(scene: Scene) -> None:
    scene.server.gateway.cut()
    await scene.bot.until("disconnect")
    await scene.bot.until("resumed")
    scene.server.faults.add("cut_gateway", "MESSAGE_CREATE")
    for text in ("one", "two", "three"):
        scene.say(text)
    await scene.bot.until("resumed", 2)
    await scene.bot.until("message", 3)
    assert scene.bot.texts() == ["one", "two", "three"]
    assert (scene.server.gateway.identifies, scene.server.gateway.resumes) == (1, 2)


async def test_a_session_that_is_forgotten_begins_anew_and_history_remembers(scene: Scene) -> None:
    before = scene.say("before")
    await scene.bot.until("message")
    await scene.server.pause()
    await scene.server.wait_for(lambda: not scene.server.gateway.connected)
    scene.server.gateway.forget_sessions()
    scene.say("meanwhile")
    await scene.server.resume()
    await scene.bot.until("ready", 2)
    assert scene.bot.texts() == ["before"]
    missed = [message.content async for message in scene.channel.history(after=discord.Object(before))]
    assert missed == ["meanwhile"]


@pytest.mark.parametrize("resumable", [True, False])
async def test_an_invalid_session(scene: Scene, resumable: bool) -> None:
    scene.server.gateway.invalidate(resumable=resumable)
    await scene.bot.until(*(("resumed", 1) if resumable else ("ready", 2)))
    assert scene.server.gateway.identifies == (1 if resumable else 2)


async def test_asked_to_reconnect_the_bot_resumes(scene: Scene) -> None:
    scene.server.gateway.ask_reconnect()
    await scene.bot.until("resumed")


async def test_closed_with_a_code_that_allows_it_the_bot_comes_back(scene: Scene) -> None:
    for count, code in enumerate((1001, 4000, 4009), 1):
        scene.server.gateway.close(code)
        await scene.bot.until("resumed", count)


@pytest.mark.parametrize("code", [4004, 4010, 4013])
async def test_closed_with_a_code_that_forbids_it_the_bot_gives_up(scene: Scene, code: int) -> None:
    scene.server.gateway.close(code)
    assert scene.run
    with pytest.raises(discord.ConnectionClosed) as caught:
        await scene.run
    assert caught.value.code == code


async def test_a_wrong_token_is_refused(server: DiscordServer) -> None:
    bot = Bot()
    with pytest.raises(discord.LoginFailure):
        await bot.start("wrong")
    await bot.close()


async def test_a_token_that_is_wrong_at_the_gateway_alone_is_closed_with_4004(server: DiscordServer) -> None:
    bot = Bot()
    await bot.login(server.token)
    bot.http.token = "another"
    with pytest.raises(discord.ConnectionClosed) as caught:
        await bot.connect()
    assert caught.value.code == 4004


async def test_a_privileged_intent_that_is_not_switched_on_is_4014(server: DiscordServer) -> None:
    server.world.privileged = intents.MEMBERS
    bot = Bot()
    with pytest.raises(discord.PrivilegedIntentsRequired):
        await bot.start(server.token)
    await bot.close()


async def test_without_an_intent_its_events_do_not_come(server: DiscordServer) -> None:
    async with Scene(server, Bot(discord.Intents(guilds=True, dm_messages=True))) as scene:
        scene.say("unheard")
        scene.people.send_text(scene.dm, scene.ada, "heard")
        await scene.bot.until("message")
        assert scene.bot.texts() == ["heard"]


async def test_a_frozen_connection_is_given_up_by_the_bot() -> None:
    async with DiscordServer(heartbeat_seconds=0.05) as server:
        with pytest.MonkeyPatch.context() as patch:
            point_discord_at(server, patch)
            async with Scene(server, Bot(heartbeat_timeout=0.5)) as scene:
                server.gateway.freeze()
                scene.say("late")
                await scene.bot.until("resumed")
                await scene.bot.until("message")
                assert scene.bot.texts() == ["late"]


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


async def test_the_first_connection_that_fails_ends_discord_py(server: DiscordServer) -> None:
    """A fact about discord.py that an adapter must cope with: it retries only after a first success."""
    server.faults.add("fail", "gateway", status=503)
    bot = Bot()
    with pytest.raises(AttributeError):
        await bot.start(server.token)
    await bot.close()


@pytest.mark.parametrize(("code", "left"), [(1000, 0), (4000, 1)])
async def test_only_a_bot_that_takes_its_leave_ends_its_session(server: DiscordServer, code: int, left: int) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.gateway_url}?v=10&encoding=json") as socket:
        await socket.receive()
        await socket.send_json({"op": 2, "d": {"token": server.token, "intents": 0, "properties": {}}})
        assert (await socket.receive_json())["t"] == "READY"
        await socket.close(code=code)
    await server.wait_for(lambda: not server.gateway.connected)
    assert len(server.gateway.sessions) == left


async def test_discord_py_closes_with_4000_and_leaves_its_session_behind(server: DiscordServer) -> None:
    """It means 1000, but its reader is woken first and closes in its own way."""
    async with Scene(server):
        assert server.gateway.connected
    await server.wait_for(lambda: not server.gateway.connected)
    assert len(server.gateway.sessions) == 1


def test_what_is_too_long_ago_cannot_be_sent_again() -> None:
    session = GatewaySession(id="s", intents=0, line=None)
    assert session.events_after(0) == []
    for _ in range(KEPT_EVENTS + 2):
        session.push("MESSAGE_CREATE", b"{}")
    assert session.events_after(1) is None
    assert len(session.events_after(2) or ()) == KEPT_EVENTS
    assert session.events_after(session.seq) == []
