"""A chat that the page fetches while an answer is being written."""

import json
from typing import Any

import pytest

from tests.programs import needs
from tests.web.browser import Page

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs("chromium")]

Event = dict[str, Any]


def text(piece: str, at: int | None = None) -> Event:
    return {"type": "text", "turn": "t", "text": piece} | ({} if at is None else {"at": at})


RESTART: Event = {"type": "restart", "turn": "t"}


@pytest.mark.parametrize(
    ("fetched", "meanwhile", "shown"),
    [
        ("ha ha ", [text("ha ", 6), text("ha", 9)], "ha ha ha ha"),  # looks known, but is new
        ("ha ha ", [text("ha ", 3), text("ha", 6)], "ha ha ha"),
        ("one two", [text("one ", 0), text("two three", 4)], "one two three"),
        ("\U0001f426\U0001f426 b", [text("\U0001f426 b", 1), text("irds", 4)], "\U0001f426\U0001f426 birds"),
        ("anew", [text("old", 40), RESTART, text("an", 0), text("ew!", 2)], "anew!"),
        ("old", [text("er", 3), RESTART, text("new", 0)], "new"),
        ("one two", [text("two"), text(" three")], "one two three"),  # a gateway that does not say where
    ],
)
async def test_what_came_meanwhile_is_added_once(page: Page, fetched: str, meanwhile: list[Event], shown: str) -> None:
    chat: Event = {"title": "", "items": [], "draft": {"turn": "t", "text": fetched, "tools": []}}
    got = await page.run(
        "import('/static/conversation.js').then(({Conversation}) => { const chat = new Conversation('c', () => {});"
        f"chat.invalidate(); for (const event of {json.dumps(meanwhile)}) chat.handle(event);"
        f"chat.load({json.dumps(chat)}); return chat.draft.text }})"
    )
    assert got == shown


async def test_the_gateway_counts_as_the_page_does(page: Page) -> None:
    await page.run(
        "new Promise((ready) => { const line = new WebSocket(`ws://${location.host}/ws`); window.pieces = [];"
        "line.onmessage = ({data}) => { const told = JSON.parse(data);"
        "if (told.type === 'text' && location.hash === `#${told.chat}`) window.pieces.push(told) };"
        "line.onopen = ready })"
    )
    await page.type("say \U0001f426 two birds \U0001f426, and a tail that takes some pieces", into="#message")
    await page.press("Enter")
    await page.wait_for("document.querySelector('.answer:not(.draft)') && window.pieces.length")
    at = 0
    for piece in await page.run("window.pieces"):
        assert piece["at"] == at
        at += len(piece["text"])
