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

from playground.telegram.server import TelegramServer
from tests.playground.remote import Remote as AnyRemote


class Remote(AnyRemote):
    async def bot(self, token: str, method: str, **params: Any) -> Any:
        async with self.http.post(f"{self.url}/bot{token}/{method}", json=params) as answer:
            return (await answer.json()).get("result")


@pytest.fixture
async def server() -> AsyncGenerator[TelegramServer]:
    async with TelegramServer() as running:
        yield running


@pytest.fixture
async def remote(server: TelegramServer) -> AsyncGenerator[Remote]:
    async with aiohttp.ClientSession() as http:
        yield Remote(server.url, http)


async def test_a_conversation_can_be_played_from_outside(server: TelegramServer, remote: Remote) -> None:
    user = await remote.do("make_user", first_name="Ada", username="ada")
    sent = await remote.do("send_text", chat_id=user["id"], user_id=user["id"], text="/start")
    (update,) = await remote.bot(server.token, "getUpdates")
    assert update["message"] == sent
    keyboard = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}
    await remote.bot(server.token, "sendMessage", chat_id=user["id"], text="Sure?", reply_markup=keyboard)
    chat = await remote.get(f"/chats/{user['id']}")
    assert [(shown["text"], shown.get("buttons")) for shown in chat["messages"]] == [
        ("/start", None),
        ("Sure?", [["Yes"]]),
    ]


async def test_a_press_can_wait_for_its_answer(server: TelegramServer, remote: Remote) -> None:
    user = (await remote.do("make_user"))["id"]
    keyboard = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}
    asked = await remote.bot(server.token, "sendMessage", chat_id=user, text="Sure?", reply_markup=keyboard)
    where = {"chat_id": user, "user_id": user, "message_id": asked["message_id"], "text": "Yes"}
    pressed = asyncio.create_task(remote.do("press_and_wait", **where))
    (update,) = await remote.bot(server.token, "getUpdates", timeout=5)
    await remote.bot(server.token, "answerCallbackQuery", callback_query_id=update["callback_query"]["id"], text="ok")
    assert (await pressed)["text"] == "ok"
    too_late = await remote.post("/do/press_and_wait", 408, **where, seconds=0.05)
    assert too_late["error"] == "it did not happen in time"


async def test_files_travel_as_base64(server: TelegramServer, remote: Remote) -> None:
    user = (await remote.do("make_user"))["id"]
    content = base64.b64encode(b"bytes").decode()
    item = {"kind": "photo", "content_base64": content}
    await remote.do("send_media", chat_id=user, user_id=user, kind="voice", content_base64=content)
    await remote.do("send_album", chat_id=user, user_id=user, items=[dict(item), dict(item)])
    updates = await remote.bot(server.token, "getUpdates")
    file_id = updates[0]["message"]["voice"]["file_id"]
    path = (await remote.bot(server.token, "getFile", file_id=file_id))["file_path"]
    async with remote.http.get(f"{server.url}/file/bot{server.token}/{path}") as answer:
        assert await answer.read() == b"bytes"


async def test_every_action_is_listed_and_mistakes_are_told(remote: Remote) -> None:
    overview = await remote.get("")
    assert {"make_user", "make_group", "send_text", "press_and_wait", "upgrade", "block"} <= {*overview["actions"]}
    assert not any(name.startswith("_") for name in overview["actions"])
    for action, body in (("fly", {}), ("send_text", {"chat_id": 1}), ("_send", {}), ("block", {"user_id": 5})):
        assert "error" in await remote.post(f"/do/{action}", 400, **body)


async def test_chats_can_be_looked_over(remote: Remote) -> None:
    ada = (await remote.do("make_user"))["id"]
    forum = (await remote.do("make_supergroup", title="Forum", forum=True, members=[ada]))["id"]
    thread = await remote.do("make_topic", chat_id=forum, user_id=ada, name="Plans")
    chats = {chat["id"]: chat for chat in (await remote.get("/chats"))["chats"]}
    assert chats[forum]["topics"][str(thread)]["name"] == "Plans"
    assert chats[ada]["type"] == "private"


async def test_calls_are_logged(server: TelegramServer, remote: Remote) -> None:
    await remote.bot(server.token, "getMe")
    await remote.bot(server.token, "sendMessage", chat_id=1, text="hi")
    (call,) = (await remote.get("/calls", method="sendMessage"))["calls"]
    assert (call["status"], call["description"]) == (400, "Bad Request: chat not found")
    assert call["params"] == {"chat_id": 1, "text": "hi"}


async def test_events_can_be_waited_for(server: TelegramServer, remote: Remote) -> None:
    last = (await remote.get("/events"))["last"]
    waiting = asyncio.create_task(remote.get("/events", after=last, seconds=5))
    user = server.people.make_user("Ada")["id"]
    server.people.send_text(user, user, "hi")
    answer = await waiting
    assert [event["kind"] for event in answer["events"]][-1] == "message"
    assert (await remote.get("/events", after=answer["last"], seconds=0.05))["events"] == []


async def test_events_stream_to_a_page(server: TelegramServer, remote: Remote) -> None:
    user = server.people.make_user("Ada")["id"]
    server.people.send_text(user, user, "one")
    headers = {"Accept": "text/event-stream"}
    async with remote.http.get(f"{server.url}/control/events", headers=headers) as stream:
        server.people.send_text(user, user, "two")
        texts: list[str] = []
        async for line in stream.content:
            if line.startswith(b"data: ") and (event := json.loads(line[6:]))["kind"] == "message":
                texts.append(event["message"]["text"])
            if len(texts) == 2:
                break
    assert texts == ["one", "two"]


async def test_faults_settings_and_updates_are_under_control(server: TelegramServer, remote: Remote) -> None:
    await remote.post("/faults", kind="fail", method="getMe", status=500)
    assert (await remote.get("/faults"))["faults"][0]["method"] == "getme"
    assert await remote.bot(server.token, "getMe") is None
    assert (await remote.get("/faults"))["faults"] == []
    await remote.post("/faults", kind="hang", count=None)
    async with remote.http.delete(f"{server.url}/control/faults") as answer:
        assert answer.status == 200
    assert await remote.post("/settings", privacy=False, limits=True) == {"privacy": False, "limits": True}
    assert server.world.reads_all
    user = server.people.make_user("Ada")["id"]
    server.people.send_text(user, user, "hi")
    assert (await remote.get("/updates"))["pending"] == 1
    assert (await remote.post("/updates/age", seconds=90_000))["pending"] == 0
    assert (await remote.post("/updates/restart_ids", at=17))["next_id"] == 17
    assert (await remote.post("/updates/drop"))["pending"] == 0


async def test_the_line_can_be_broken_from_outside(server: TelegramServer, remote: Remote) -> None:
    await remote.post("/line/half_open")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await remote.bot(server.token, "getMe")
    await remote.post("/line/up")
    assert await remote.bot(server.token, "getMe")
    seen = server.world.events.last
    await remote.post("/line/down", seconds=0.05)

    def states() -> list[str]:
        return [event["state"] for event in server.world.events.after(seen) if event["kind"] == "server"]

    await server.wait_for(lambda: states() == ["down", "up"])
    assert await remote.bot(server.token, "getMe")


async def test_it_runs_as_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "playground.telegram.server", "--token", "7:of-a-process"]
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        async with asyncio.timeout(20), aiohttp.ClientSession() as http:
            told = json.loads(await process.stdout.readline())
            remote = Remote(told["url"], http)
            assert (await remote.bot("7:of-a-process", "getMe"))["id"] == 7
    finally:
        process.terminate()
        await process.wait()
