"""Files that an answer names, as the page sees them: at once, and after a reload."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.platforms.enclosed import png
from tests.gateway.web.conftest import CHAT, Site


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "plot.png").write_bytes(png())
    (folder / "page.html").write_text("<script>alert(1)</script>")
    monkeypatch.setenv("MESSAGING_CWD", str(folder))
    return folder


async def answer(site: Site, text: str) -> dict[str, Any]:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as socket, asyncio.timeout(10):
        await socket.send_json({"type": "send", "id": "1", "chat": CHAT, "text": text})
        while (line := await socket.receive_json())["type"] != "message":
            continue
    item: dict[str, Any] = line["item"]
    return item


async def reloaded(site: Site) -> dict[str, Any]:
    async with site.client.get(f"{site.url}/api/chats/{CHAT}") as response:
        item: dict[str, Any] = (await response.json())["items"][-1]
        return item


async def test_a_picture_is_shown_in_place_and_anything_else_is_a_download(site: Site) -> None:
    item = await answer(site, "send me the files plot.png and page.html")
    assert item["text"] == "Here they are."
    picture, page = item["files"]
    assert (picture["name"], picture["mime"], page["name"], page["mime"]) == (
        "plot.png",
        "image/png",
        "page.html",
        "text/html",
    )
    for file, disposition, kind in (
        (picture, "inline", "image/png"),
        (page, "attachment", "application/octet-stream"),
    ):
        async with site.client.get(f"{site.url}{file['url']}") as response:
            assert response.headers["Content-Disposition"].startswith(disposition)
            assert response.content_type == kind
            assert len(await response.read()) == file["size"]
    shown = await reloaded(site)
    assert (shown["text"], shown["files"]) == (item["text"], item["files"])


async def test_what_is_not_sent_is_told_on_the_page(site: Site) -> None:
    item = await answer(site, "send me the file /etc/passwd")
    assert (item["files"], "it is outside" in item["text"]) == ([], True)
