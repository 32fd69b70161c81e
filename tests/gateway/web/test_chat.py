"""The page's API and socket: messages, chats, files."""

import asyncio
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from gateway.store.db.connection import Transaction
from tests.gateway.media.samples import png
from tests.gateway.web.conftest import CHAT, Site


async def _until(socket: aiohttp.ClientWebSocketResponse, kind: str) -> list[dict[str, Any]]:
    """Return the lines up to and including the first of that type."""
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(10):
        while not told or told[-1]["type"] != kind:
            told.append(await socket.receive_json())
    return told


async def _timeline(site: Site) -> dict[str, Any]:
    async with site.client.get(f"{site.url}/api/chats/{CHAT}") as response:
        shown: dict[str, Any] = await response.json()
        return shown


async def test_a_message_is_acked_streamed_and_answered(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        await socket.send_json({"type": "send", "id": "1", "chat": CHAT, "text": "what time is it in Asia/Tokyo?"})
        told = await _until(socket, "message")
    kinds = [line["type"] for line in told]
    assert {"user", "ack", "started", "tool", "text", "ended"} <= set(kinds)
    assert kinds.index("started") < kinds.index("tool") < kinds.index("text") < kinds.index("ended")
    item = told[-1]["item"]
    assert "Asia/Tokyo" in item["text"]
    assert item["answers"] == ["1"]
    assert [tool["name"] for tool in item["tools"]] == ["clock"]
    assert "".join(line["text"] for line in told if line["type"] == "text") == item["text"]


async def test_a_reload_shows_the_same_as_was_seen(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        for number, text in enumerate(["todo: water the plants", "/status", "/nonsense"]):
            await socket.send_json({"type": "send", "id": str(number), "chat": CHAT, "text": text})
            await _until(socket, "message")
    shown = await _timeline(site)
    assert shown["title"] == "todo: water the plants"
    assert shown["draft"] is None
    assert [item["kind"] for item in shown["items"]] == ["user", "answer"] * 3
    assert [item["state"] for item in shown["items"][::2]] == ["done"] * 3
    assert shown["items"][1]["tools"][0]["name"] == "todo"
    assert "There is no command /nonsense" in shown["items"][-1]["text"]


async def test_two_pages_see_the_same(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as one, site.client.ws_connect(f"{site.url}/ws") as two:
        await one.send_json({"type": "send", "id": "1", "chat": CHAT, "text": "hello"})
        said = await asyncio.gather(_until(one, "message"), _until(two, "message"))
    assert said[0][-1] == said[1][-1]
    assert any(line["type"] == "user" for line in said[1])
    assert not any(line["type"] == "ack" for line in said[1])


async def test_a_message_sent_twice_is_answered_once(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        for _ in range(2):
            await socket.send_json({"type": "send", "id": "same", "chat": CHAT, "text": "hello"})
        await _until(socket, "message")
        await socket.send_json({"type": "send", "id": "other", "chat": CHAT, "text": "thanks"})
        await _until(socket, "message")
    items = (await _timeline(site))["items"]
    assert [item["answers"] for item in items if item["kind"] == "answer"] == [["same"], ["other"]]


async def test_chats_are_listed_and_found(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        await socket.send_json({"type": "send", "id": "1", "chat": CHAT, "text": "hello giraffe"})
        await _until(socket, "message")
    for query, found in (("", 1), ("giraffe", 1), ("elephant", 0), ('"broken (', 0)):
        async with site.client.get(f"{site.url}/api/chats", params={"query": query}) as response:
            assert len((await response.json())["chats"]) == found, query


async def _say(site: Site, text: str, files: list[str] | None = None) -> None:
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        message_id = str(len((await _timeline(site))["items"]))
        await socket.send_json({"type": "send", "id": message_id, "chat": CHAT, "text": text, "files": files or []})
        await _until(socket, "message")


async def _listed(site: Site) -> list[str]:
    async with site.client.get(f"{site.url}/api/chats") as response:
        return [chat["title"] for chat in (await response.json())["chats"]]


async def test_a_chat_is_renamed(site: Site) -> None:
    await site.log_in()
    await _say(site, "hello giraffe")
    async with site.client.patch(f"{site.url}/api/chats/{CHAT}", json={"title": "  The tall\none "}) as response:
        assert await response.json() == {"title": "The tall one"}
    assert await _listed(site) == ["The tall one"]
    await _say(site, "and a zebra")
    assert await _listed(site) == ["The tall one"]


@pytest.mark.parametrize(
    ("chat", "given", "status"),
    [(CHAT, {"title": " "}, 400), (CHAT, {"title": 7}, 400), (CHAT, [], 400), (CHAT[::-1], {"title": "x"}, 404)],
)
async def test_an_invalid_title_is_explained(site: Site, chat: str, given: object, status: int) -> None:
    await site.log_in()
    await _say(site, "hello giraffe")
    async with site.client.patch(f"{site.url}/api/chats/{chat}", json=given) as response:
        assert response.status == status
        assert (await response.json())["problem"].endswith(".")


async def test_a_chat_is_exported_as_markdown(site: Site) -> None:
    await site.log_in()
    headers = {"X-File-Name": "plan.txt", "Content-Type": "text/plain"}
    async with site.client.post(f"{site.url}/api/files", data=b"water the plants", headers=headers) as response:
        uploaded = await response.json()
    await _say(site, "what is 17 * 23?", [uploaded["file"]])
    async with site.client.get(f"{site.url}/api/chats/{CHAT}/export") as response:
        assert response.content_type == "text/markdown"
        assert "attachment" in response.headers["Content-Disposition"]
        assert "17%20%2A%2023" in response.headers["Content-Disposition"]
        lines = [line for line in (await response.text()).splitlines() if line]
    assert lines[0] == "# what is 17 * 23?"
    assert lines[1].startswith("**You** (20")
    assert lines[2:4] == ["what is 17 * 23?", "- Attached: plan.txt"]
    assert lines[4].startswith("**Hermes** (20")
    assert "I got plan.txt" in lines[5]
    async with site.client.get(f"{site.url}/api/chats/{CHAT[::-1]}/export") as response:
        assert response.status == 404


async def test_a_deleted_chat_leaves_nothing(site: Site) -> None:
    await site.log_in()
    headers = {"X-File-Name": "giraffe.png", "Content-Type": "image/png"}
    async with site.client.post(f"{site.url}/api/files", data=png(), headers=headers) as response:
        uploaded = await response.json()
    await _say(site, "todo: feed the giraffe", [uploaded["file"]])
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        async with site.client.delete(f"{site.url}/api/chats/{CHAT}") as response:
            assert response.status == 200
        assert (await _until(socket, "deleted"))[-1]["chat"] == CHAT
    assert await _listed(site) == []
    assert (await _timeline(site))["items"] == []

    def left(tx: Transaction) -> list[str]:
        tables = [row["name"] for row in tx.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: str([tuple(row) for row in tx.all(f"SELECT * FROM {name}")]) for name in tables}
        return [name for name, text in rows.items() if "giraffe" in text or CHAT in text]

    assert await site.gateway.db.read(left) == []
    assert await site.gateway.db.read(lambda tx: tx.count("SELECT COUNT(*) FROM media")) == 0
    await _say(site, "hello again")  # the page may go on with it
    assert await _listed(site) == ["hello again"]


async def test_a_chat_in_which_something_runs_is_not_deleted(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        await socket.send_json({"type": "send", "id": "1", "chat": CHAT, "text": "run sleep 30"})
        await _until(socket, "tool")
        async with site.client.delete(f"{site.url}/api/chats/{CHAT}") as response:
            assert response.status == 409
            assert "Stop it first" in (await response.json())["problem"]
        assert await _listed(site) == ["run sleep 30"]
        await socket.send_json({"type": "send", "id": "2", "chat": CHAT, "text": "/stop"})
        await _until(socket, "message")


async def test_files_go_both_ways(site: Site) -> None:
    await site.log_in()
    picture = png()
    name = quote("../<b>pic</b>.png", safe="")
    headers = {"X-File-Name": name, "Content-Type": "image/png"}
    async with site.client.post(f"{site.url}/api/files", data=picture, headers=headers) as response:
        uploaded = await response.json()
    assert uploaded["name"] == "b>.png"
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        await socket.send_json({"type": "send", "id": "1", "chat": CHAT, "text": "", "files": [uploaded["file"]]})
        told = await _until(socket, "message")
    (back,) = told[-1]["item"]["files"]
    async with site.client.get(site.url + back["url"]) as response:
        assert await response.read() == picture
        assert response.content_type == "image/png"
        assert "sandbox" in response.headers["Content-Security-Policy"]


async def test_a_page_sent_as_a_file_comes_back_as_a_download(site: Site) -> None:
    await site.log_in()
    headers = {"X-File-Name": "x.html", "Content-Type": "text/html"}
    async with site.client.post(f"{site.url}/api/files", data=b"<script>1</script>", headers=headers) as response:
        assert response.status == 200
    rows = await site.gateway.db.read(lambda tx: tx.all("SELECT sha256 FROM media"))
    async with site.client.get(f"{site.url}/media/{rows[0]['sha256']}?name=x.html") as response:
        assert response.content_type == "application/octet-stream"
        assert response.headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize(("content", "status"), [(b"", 400), (bytes(100_001), 413)])
async def test_a_refused_file_is_explained(site: Site, content: bytes, status: int) -> None:
    await site.log_in()
    async with site.client.post(f"{site.url}/api/files", data=content) as response:
        assert response.status == status
        assert (await response.json())["problem"].endswith(".")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "not JSON"),
        ("[]", "send"),
        ('{"type": "send", "id": "1", "chat": "../x", "text": "hi"}', "chat"),
        ('{"type": "send", "id": 1, "chat": "abcdef0123456789", "text": "hi"}', "id"),
        ('{"type": "send", "id": "1", "chat": "abcdef0123456789", "text": " "}', "empty"),
        ('{"type": "send", "id": "1", "chat": "abcdef0123456789", "text": 7}', "text"),
        ('{"type": "send", "id": "1", "chat": "abcdef0123456789", "text": "\\ud800"}', "text"),
        ('{"type": "send", "id": "1", "chat": "abcdef0123456789", "files": ["zzz"]}', "uploaded"),
        ('{"type": "send", "id": "1", "chat": "abcdef0123456789", "files": [1]}', "uploaded"),
        ('{"type": "send", "id": "1", "chat": "abcdef0123456789", "files": 7}', "files"),
    ],
)
async def test_an_invalid_line_is_explained(site: Site, line: str, problem: str) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        await socket.send_str(line)
        told = await _until(socket, "error")
    assert problem in told[-1]["problem"]


async def test_a_message_that_cannot_be_stored_is_not_acked(site: Site) -> None:
    await site.log_in()
    site.gateway.intake.closed = True
    async with site.client.ws_connect(f"{site.url}/ws") as socket:
        await socket.send_json({"type": "send", "id": "1", "chat": CHAT, "text": "hello"})
        told = await _until(socket, "retry")
    assert [line["type"] for line in told] == ["retry"]
    async with site.client.get(f"{site.url}/ready") as response:
        assert response.status == 503


@pytest.mark.parametrize(
    "path", ["/static/../access.py", "/static/nothing.js", "/static/__init__.py", "/nothing", "/media/x"]
)
async def test_unknown_paths_are_not_found(site: Site, path: str) -> None:
    await site.log_in()
    async with site.client.get(f"{site.url}{path}") as response:
        assert response.status == 404
