"""A conversation that ended by itself: told with the first reply of the next one, with the way back."""

import json
from dataclasses import replace

import pytest

from agent_core.conversation import assistant
from gateway.policies.resets import Policy, Resets
from gateway.store import inbox, people, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import ACCOUNT, inbound, make_responder, rows
from tests.gateway.store.conftest import Clock, clock

__all__ = ["clock"]

RESETS = Resets(usual=Policy(idle_minutes=1_440), exceptions={(ACCOUNT, "group"): Policy(daily_hour=4)})


async def answer(db: Database, message_id: str, *, kind: str = "dm", breaks: bool = False) -> Turn:
    def unit(tx: Transaction) -> Turn | None:
        message = inbound("hello", message_id=message_id, kind=kind)
        person = people.recognise(tx, ACCOUNT, message.sender, role="member")
        inbox.insert(tx, message, person_id=person)
        return turns.begin(tx, RESETS)

    turn = await db.write(unit)
    assert turn is not None
    responder = replace(make_responder(db, ScriptedModel([assistant("hi")])), resets=RESETS)
    await (responder.fail(turn) if breaks else responder.respond(turn))
    return turn


async def said(db: Database) -> list[tuple[str, str]]:
    found = await rows(db, "SELECT kind, parts FROM outbox ORDER BY id")
    return [(kind, json.loads(parts)[0]["text"]) for kind, parts in found]


@pytest.mark.parametrize(
    ("kind", "why"),
    [("dm", "the last one ended after a day of silence"), ("group", "conversations end every day at 4:00")],
)
async def test_the_first_reply_is_followed_by_one_silent_notice(
    db: Database, clock: Clock, kind: str, why: str
) -> None:
    first = await answer(db, "1", kind=kind)
    clock.forward(hours=48)
    second = await answer(db, "2", kind=kind)
    await answer(db, "3", kind=kind)
    assert await said(db) == [
        ("answer", "hi"),
        ("answer", "hi"),
        ("notice", f"This is a new conversation: {why}. Use /resume to go back to an old one."),
        ("answer", "hi"),
    ]
    [(notify, choices, turn_id)] = await rows(db, "SELECT notify, choices, turn_id FROM outbox WHERE kind = 'notice'")
    assert (notify, turn_id) == (0, second.id)
    assert json.loads(choices) == [["Continue the old one", f"continue:{first.session_id}"]]


async def test_a_failed_first_turn_tells_it_too(db: Database, clock: Clock) -> None:
    await answer(db, "1")
    clock.forward(hours=48)
    await answer(db, "2", breaks=True)
    await answer(db, "3")
    assert [kind for kind, _ in await said(db)] == ["answer", "answer", "notice", "answer"]


async def test_a_message_that_waited_for_a_gateway_that_was_down_goes_on_with_its_session(
    db: Database, clock: Clock
) -> None:
    first = await answer(db, "1")

    def accept(tx: Transaction) -> None:
        message = inbound("hello", message_id="2")
        inbox.insert(tx, message, person_id=people.recognise(tx, ACCOUNT, message.sender, role="member"))

    await db.write(accept)
    clock.forward(hours=48)
    turn = await db.write(lambda tx: turns.begin(tx, RESETS))
    assert turn is not None
    assert turn.session_id == first.session_id
