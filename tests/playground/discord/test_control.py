"""Another process can do over HTTP all that a test does in Python, and watch."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import pytest

from playground.discord.server import DiscordServer
from tests.playground.discord.scene import Scene
from tests.playground.remote import Remote


@pytest.fixture
async def remote(server: DiscordServer) -> AsyncGenerator[Remote]:
    async with aiohttp.ClientSession() as http:
        yield Remote(server.url, http)


async def test_a_conversation_can_be_played_from_outside(scene: Scene, remote: Remote) -> None:
    eve = (await remote.do("make_user", username="eve"))["id"]
    await remote.do("join", guild_id=str(scene.guild), user_id=eve)
    content = base64.b64encode(b"bytes").decode()
    files = [{"name": "a.txt", "content_base64": content}]
    await remote.do("send_text", channel_id=str(scene.room), user_id=eve, text="hello", files=files)
    heard = await scene.bot.until("message")
    assert (heard.content, await heard.attachments[0].read()) == ("hello", b"bytes")
    await heard.reply("hello eve")
    shown = (await remote.get(f"/channels/{scene.room}"))["messages"]
    assert [(one["by_bot"], one["text"]) for one in shown] == [(False, "hello"), (True, "hello eve")]


async def test_every_action_is_listed_and_mistakes_are_told(remote: Remote) -> None:
    overview = await remote.get("")
    assert {"make_user", "make_guild", "send_text", "press_and_wait", "use_command", "age"} <= {*overview["actions"]}
    assert overview["api_url"].endswith("/api/v10")
    for action, body in (("fly", {}), ("send_text", {"channel_id": 1}), ("_post", {}), ("leave", {"guild_id": "x"})):
        assert "error" in await remote.post(f"/do/{action}", 400, **body)
    assert "error" in await remote.post("/gateway/dance", 400)


async def test_the_gateway_can_be_disturbed_from_outside(scene: Scene, remote: Remote) -> None:
    assert (await remote.get("/gateway"))["connected"]
    for count, (what, body) in enumerate((("cut", {}), ("reconnect", {}), ("close", {"code": 4000})), 1):
        await remote.post(f"/gateway/{what}", **body)
        await scene.bot.until("resumed", count)
    await remote.post("/gateway/invalidate", resumable=False)
    await scene.bot.until("ready", 2)
    assert not (await remote.post("/gateway/acks", on=False))["acks"]
    await remote.post("/gateway/beat")
    state = await remote.get("/gateway")
    assert (state["identifies"], state["resumes"]) == (2, 3)


async def test_faults_settings_and_calls(scene: Scene, remote: Remote) -> None:
    await remote.post("/faults", kind="slow", method="createMessage", seconds=0.01)
    await scene.channel.send("hi")
    (call,) = (await remote.get("/calls", method="createMessage"))["calls"]
    assert (call["status"], call["params"]["content"]) == (200, "hi")
    settings = await remote.post("/settings", content_intent=False, limits=True, heartbeat_seconds=10, identify_total=5)
    assert settings == {"limits": True, "content_intent": False}
    assert scene.server.gateway.identify_total == 5
    assert (await remote.get("/commands"))["commands"] == []
    assert len((await remote.get("/channels"))["guilds"]) == 1


async def test_it_runs_as_a_process_of_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "playground.discord.server", "--token", "T", stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    try:
        assert process.stdout
        line = json.loads(await process.stdout.readline())
        headers = {"Authorization": "Bot T"}
        async with aiohttp.ClientSession() as http, http.get(f"{line['api_url']}/gateway/bot", headers=headers) as got:
            assert (await got.json())["url"] == line["gateway_url"]
    finally:
        process.terminate()
        await process.wait()
