"""The commit point takes the turn's draft over: as the place of the answer, or as what makes room for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from agent_core.conversation import assistant
from agent_core.events import Emit, ignore
from agent_core.model import Model
from gateway.messages import Sender
from gateway.store import drafts, inbox, people, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from gateway.turns.responder import Responder
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import begin, inbound, make_responder, rows, unhappy

PLACES = [(True, ("7", "")), (False, ("", "7"))]


@dataclass(frozen=True)
class Seen:
    emit: Emit
    finishes_in_place: bool


def responder(db: Database, model: Model, *, in_place: bool) -> Responder:
    @asynccontextmanager
    async def watch(turn: Turn, verbosity: str) -> AsyncIterator[Seen]:
        yield Seen(ignore, in_place)

    return replace(make_responder(db, model), watch=watch)


async def drafted(db: Database, message_id: str = "7") -> Turn:
    turn = await begin(db, inbound("hello"))

    def unit(tx: Transaction) -> None:
        drafts.begin(tx, drafts.new(turn.id, turn.address))
        if message_id:
            drafts.mark_shown(tx, turn.id, message_id)

    await db.write(unit)
    return turn


async def places(db: Database) -> list[tuple[object, ...]]:
    return await rows(db, "SELECT edits, replaces FROM outbox")


@pytest.mark.parametrize(("in_place", "expected"), PLACES)
async def test_an_answer_takes_its_drafts_place_or_replaces_it(
    db: Database, in_place: bool, expected: tuple[str, str]
) -> None:
    turn = await drafted(db)
    await responder(db, ScriptedModel([assistant("hi")]), in_place=in_place).respond(turn)
    assert await places(db) == [expected]
    assert await rows(db, "SELECT * FROM drafts") == []


@pytest.mark.parametrize(("in_place", "expected"), PLACES)
async def test_so_does_the_news_that_it_failed(db: Database, in_place: bool, expected: tuple[str, str]) -> None:
    turn = await drafted(db)

    await responder(db, unhappy(), in_place=in_place).respond(turn)
    assert await places(db) == [expected]


async def test_a_draft_whose_id_is_not_known_is_left_to_be_found(db: Database) -> None:
    turn = await drafted(db, "")
    await responder(db, ScriptedModel([assistant("hi")]), in_place=True).respond(turn)
    assert await places(db) == [("", "")]
    assert len(await rows(db, "SELECT * FROM drafts")) == 1


@pytest.mark.parametrize("how", ["stopped", "superseded"])
async def test_a_turn_that_ended_early_leaves_its_draft_to_be_taken_away(db: Database, how: str) -> None:
    turn = await drafted(db)

    def request(tx: Transaction) -> None:
        if how == "stopped":
            turns.request_stop(tx, turn.session_key)
            return
        person = people.recognise(tx, turn.address.account, Sender(id="42"), role="member")
        newer = inbox.insert(tx, inbound("newer", message_id="2"), person_id=person)
        assert newer is not None
        turns.request_interrupt(tx, newer)

    await db.write(request)
    await responder(db, ScriptedModel([]), in_place=True).respond(turn)
    assert await rows(db, "SELECT outcome FROM turns") == [(how,)]
    assert await places(db) == []
    left = await db.read(lambda tx: drafts.list_orphans(tx, [turn.address.account]))
    assert [draft.message_id for draft in left] == ["7"]


async def test_a_paused_turn_keeps_its_draft_for_when_it_goes_on(db: Database) -> None:
    turn = await drafted(db)
    await make_responder(db, ScriptedModel([])).pause(turn)
    assert await db.read(lambda tx: drafts.list_orphans(tx, [turn.address.account])) == []
    assert (await db.read(lambda tx: drafts.find(tx, turn.id))) is not None
