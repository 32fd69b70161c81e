"""No request, however odd, is answered with a server error or ends the connection of a page."""

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.gateway.web.conftest import CHAT, Site

DEEP = b"[" * 20_000 + b"]" * 20_000
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "not UTF-8": b'{"title": "\xff"}',
    "deep": DEEP,
    "deep inside": b'{"title": %b, "verdict": %b}' % (DEEP, DEEP),
    "deep enough to be read": b'{"title": %b, "verdict": %b}' % (b"[" * 300 + b"]" * 300, b"[" * 300 + b"]" * 300),
    "lists": b'{"title": [], "verdict": []}',
    "objects": b'{"title": {}, "verdict": {}}',
    "half a character": b'{"title": "\\ud800", "verdict": "\\ud800"}',
    "a large number": b'{"title": 1%b, "verdict": 1}' % (b"0" * 10_000),
    "not a number": b'{"title": NaN, "verdict": -Infinity}',
}
TYPES = ["application/json", "application/json; charset=nonsense", "text/plain; charset=utf-16", "nonsense"]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_no_body_is_answered_with_a_server_error(site: Site, body: bytes) -> None:
    await site.log_in()
    for method, path in (("PATCH", f"/api/chats/{CHAT}"), ("POST", "/api/questions/1"), ("POST", "/api/files")):
        for content_type in TYPES:
            headers = {"Content-Type": content_type, "X-File-Name": "%00%ff"}
            async with site.client.request(method, site.url + path, data=body, headers=headers) as response:
                assert response.status < 500, (path, content_type, await response.text())


def _reference(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode()


TEXTS: list[Any] = ["\ud800", None, [], 1e999]
LINES: list[str] = [
    DEEP.decode(),
    "null",
    '"text"',
    *(json.dumps({"type": "send", "chat": CHAT, "id": "1", "text": text}) for text in TEXTS),
    *(
        json.dumps({"type": "send", "chat": CHAT, "id": "1", "text": "hi", "files": files})
        for files in (
            "x",
            [1],
            ["x"],
            [_reference(DEEP)],
            [_reference(b'["\\ud800", "\\ud800"]')],
            [_reference(b'["%b", "\\ud800"]' % (b"0" * 64))],
        )
    ),
    json.dumps({"type": "press", "chat": CHAT, "id": "1", "about": "\ud800", "action": "x"}),
    json.dumps({"type": "press", "chat": [], "id": {}, "about": 1, "action": None}),
]


async def test_a_page_that_sends_nonsense_is_told_so_and_stays_connected(site: Site) -> None:
    await site.log_in()
    async with site.client.ws_connect(f"{site.url}/ws") as page, asyncio.timeout(30):
        for line in LINES:
            await page.send_str(line)
            assert (await page.receive_json())["type"] == "error", line[:200]
        await page.send_json({"type": "send", "chat": CHAT, "id": "2", "text": "hello"})
        while (await page.receive_json())["type"] != "ack":
            pass
