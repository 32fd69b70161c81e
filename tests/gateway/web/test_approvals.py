"""The page's list of waiting approval requests."""

from typing import Any

import pytest

from gateway.messages import Address, SessionKey
from gateway.store import approvals, sessions
from gateway.store.approvals import Asker
from gateway.store.db.connection import Transaction
from tests.gateway.web.conftest import Site
from tools.approval.gate import Question

QUESTION = Question(
    tool="terminal",
    action="rm -r ~/old",
    where="on this machine, in ~",
    reasons=("it deletes ~/old",),
    rules=(),
    binding="b",
    decider="asker",
)


async def _list(site: Site) -> list[dict[str, Any]]:
    async with site.client.get(f"{site.url}/api/questions") as response:
        listed: list[dict[str, Any]] = (await response.json())["questions"]
        return listed


async def _ask(site: Site, key: SessionKey, name: str) -> None:
    def put(tx: Transaction) -> None:
        session = sessions.open_current(tx, key, display_name=name)
        asker = Asker(
            turn_id="t",
            session_id=session.id,
            session_key=str(key),
            holder="p",
            person_id=None,
            account=key.account_name,
            sender_id="42",
            sender_name=name,
        )
        asked_at = Address(account=key.account_name, chat=key.chat, thread=key.thread)
        approvals.create(tx, asker, "c", QUESTION, asked_at, expires_ms=10**15)

    await site.gateway.db.write(put)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (SessionKey(platform="telegram", kind="dm", chat="42"), "Telegram, direct message with Ada"),
        (SessionKey(platform="telegram", kind="group", chat="-100"), "Telegram, group -100"),
        (
            SessionKey(platform="slack", account="work", kind="thread", chat="C1", thread="1.2"),
            "Slack (work), thread in C1",
        ),
        (SessionKey(platform="socket", chat="main"), "Socket, chat main"),
    ],
)
async def test_a_request_from_another_platform_names_platform_and_chat(site: Site, key: SessionKey, place: str) -> None:
    await site.log_in()
    await _ask(site, key, "Ada")
    (listed,) = await _list(site)
    assert listed["place"] == place
    assert str(key) not in str(listed)


async def test_a_name_cannot_hide_characters_in_the_place(site: Site) -> None:
    await site.log_in()
    await _ask(site, SessionKey(platform="telegram", kind="dm", chat="42"), "Ada\u202enimda")
    (listed,) = await _list(site)
    assert listed["place"] == "Telegram, direct message with Ada\\u202enimda"


async def test_a_request_from_a_chat_of_the_page_has_its_title(site: Site) -> None:
    await site.log_in()
    key = SessionKey(platform="web", chat="abcdef0123456789")
    await _ask(site, key, "")
    await site.gateway.db.write(lambda tx: sessions.rename(tx, str(key), "Spring cleaning"))
    (listed,) = await _list(site)
    assert (listed["account"], listed["chat"], listed["place"]) == ("web", key.chat, "Spring cleaning")
