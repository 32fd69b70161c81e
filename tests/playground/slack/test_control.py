"""Another process can do over HTTP all that a test does in Python, and watch."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from playground.slack.server import SlackServer
from tests.playground.remote import Remote
from tests.playground.slack.conftest import Listener


@pytest.fixture
async def remote(server: SlackServer) -> AsyncGenerator[Remote]:
    async with aiohttp.ClientSession() as http:
        yield Remote(server.url, http)


async def test_a_conversation_can_be_played_from_outside(
    server: SlackServer, remote: Remote, bot: Listener, client: AsyncWebClient
) -> None:
    user = (await remote.do("make_user", name="ada"))["id"]
    channel = (await remote.do("make_channel", name="general", members=[user]))["id"]
    sent = await remote.do("send_text", channel=channel, user=user, text="hi")
    assert (await bot.wait())[0]["ts"] == sent["ts"]
    await client.chat_postMessage(channel=channel, text="hello", thread_ts=sent["ts"])
    shown = await remote.get(f"/channels/{channel}", thread=sent["ts"])
    assert [(one["text"], one["by_bot"]) for one in shown["messages"]] == [("hi", False), ("hello", True)]
    assert [one["id"] for one in (await remote.get("/channels"))["channels"]] == [channel]
    (call,) = (await remote.get("/calls", method="chat.postMessage"))["calls"]
    assert (call["status"], call["params"]["text"]) == (200, "hello")


async def test_files_travel_as_base64(server: SlackServer, remote: Remote, ada: str, general: str) -> None:
    content = base64.b64encode(b"bytes!").decode()
    sent = await remote.do("send_file", channel=general, user=ada, content_base64=content)
    several = [{"content_base64": content, "name": "a.png"}]
    await remote.do("send_files", channel=general, user=ada, files=several)
    assert server.world.files[sent["files"][0]["id"]].content == b"bytes!"


async def test_every_action_is_listed_and_mistakes_are_told(server: SlackServer, remote: Remote) -> None:
    overview = await remote.get("")
    assert {"make_user", "send_text", "command", "press_and_wait", "archive", "open_home"} <= {*overview["actions"]}
    assert overview["api_url"] == server.api_url
    for action, body in (("fly", {}), ("send_text", {"channel": "C0"}), ("_post", {}), ("deactivate", {"user": "U0"})):
        assert "error" in await remote.post(f"/do/{action}", 400, **body)


async def test_settings(server: SlackServer, remote: Remote) -> None:
    given: dict[str, Any] = {
        "subscriptions": ["message.im"],
        "scopes": ["chat:write"],
        "limits": True,
        "retry_seconds": [0.1, 0.2],
    }
    given |= {"token_state": "token_revoked", "edit_window_seconds": 5.0, "ping_seconds": 1.0}
    answer = await remote.post("/settings", **given)
    assert {name: answer[name] for name in given} == given
    assert server.sockets.retry_seconds == (0.1, 0.2)
    await remote.post("/settings", 400, subscriptions=["nonsense"])
    await remote.post("/settings", 400, token_state="nonsense")


async def test_sockets_are_under_control(server: SlackServer, remote: Remote, bot: Listener) -> None:
    assert await remote.get("/sockets") == {"open": [1], "unacked": 0}
    for number, change in enumerate(("disconnect", "cut", "half_open", "no_pong"), start=2):
        await remote.post(f"/sockets/{change}")
        await server.wait_for(lambda seen=number: [s.number for s in server.sockets.open][-1:] == [seen])  # type: ignore[misc]
    await remote.post("/sockets/mend")
    await remote.post("/sockets/fly", 400)


async def test_faults_and_the_line_are_under_control(
    server: SlackServer, remote: Remote, client: AsyncWebClient
) -> None:
    await remote.post("/faults", kind="late", method="message")
    assert (await remote.get("/faults"))["faults"][0]["kind"] == "late"
    await remote.post("/faults", 400, kind="explode")
    seen = server.events.last
    await remote.post("/line/down", seconds=0.05)

    def states() -> list[str]:
        return [event["state"] for event in server.events.after(seen) if event["kind"] == "server"]

    await server.wait_for(lambda: states() == ["down", "up"])
    assert await client.auth_test()


async def test_it_runs_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "playground.slack.server", "--bot-token", "xoxb-7"]
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        async with asyncio.timeout(20):
            told = json.loads(await process.stdout.readline())
            assert told["app_token"].startswith("xapp-")
            assert (await AsyncWebClient(token="xoxb-7", base_url=told["api_url"]).auth_test())["ok"]
    finally:
        process.terminate()
        await process.wait()
