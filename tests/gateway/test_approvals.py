"""Calls of a turn that wait for a human: who is told, what a yes lets through, and what keeps no slot meanwhile."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from agent_core.events import Event, Waiting
from gateway import approvals as approvals_module
from gateway import decisions
from gateway.approvals import Approvals
from gateway.decisions import Person
from gateway.errors import StoreUnavailable
from gateway.question_words import Verdict
from gateway.store import approvals as stored
from gateway.store import turns
from gateway.store.approvals import Approval
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.turns import Turn
from tests.gateway.scene import soon
from tests.gateway.store.rows import a_question, inbound, take
from tools.gate import CHANGED_MEANWHILE, Gate, NotApproved, Question

OWNER = Person(account="telegram", id="42", name="Olga", role="owner")
RULE = "recursive-delete /srv/a/b"


@dataclass
class Scene:
    """A turn of the owner's, and whoever looks after its questions."""

    db: Database
    approvals: Approvals
    turn: Turn
    events: list[Event] = field(default_factory=list)
    news: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    changes: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    @property
    def gate(self) -> Gate:
        return self.approvals.gate(self.turn, self.events.append)

    async def asked(self, count: int = 1) -> list[Approval]:
        """The questions that wait, once there are so many."""
        async with asyncio.timeout(10):
            while len(found := await self.db.read(stored.waiting)) != count:
                await asyncio.sleep(0)  # as often as the store is asked
        return found

    async def decide(self, verdict: Verdict, approval: Approval) -> None:
        await self.db.write(lambda tx: decisions.decide(tx, approval, verdict, OWNER))
        self.approvals.look_again()

    async def write(self, unit: Callable[[Transaction], Any]) -> None:
        await self.db.write(unit)
        self.approvals.look_again()


async def a_turn(db: Database, role: str = "owner") -> Turn:
    def unit(tx: Transaction) -> Turn | None:
        take(tx, inbound("tidy up"))
        tx.execute("UPDATE inbox SET role = ?", role)
        return turns.begin(tx)

    turn = await db.write(unit)
    assert turn is not None
    return turn


@pytest.fixture
async def scene(db: Database) -> AsyncIterator[Scene]:
    async with running(Approvals(db=db, owner_accounts=("telegram",)), await a_turn(db)) as scene:
        yield scene


@asynccontextmanager
async def running(approvals: Approvals, turn: Turn) -> AsyncIterator[Scene]:
    scene = Scene(db=approvals.db, approvals=approvals, turn=turn)
    approvals.news = lambda: scene.news.put_nowait(None)
    approvals.changed = lambda: scene.changes.put_nowait(None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(approvals.run())
        yield scene
        task.cancel()


def begin(scene: Scene, question: Question, call_id: str = "c1") -> asyncio.Task[None]:
    return asyncio.create_task(scene.gate.ask(question, call_id))


# What is asked


@pytest.mark.parametrize("verdict", ["once", "session", "always"])
async def test_a_yes_lets_the_call_begin_once(scene: Scene, verdict: Verdict) -> None:
    question = a_question(rules=(RULE,))
    asking = begin(scene, question)
    [approval] = await scene.asked()
    assert not asking.done()
    await scene.decide(verdict, approval)
    await soon(asking)
    await scene.gate.use(question, "c1")
    if verdict == "once":
        with pytest.raises(NotApproved):
            await scene.gate.use(question, "c1")
    else:
        await scene.gate.ask(question, "c2")  # nobody is asked again
        await scene.gate.use(question, "c2")
    assert scene.events == [Waiting(waits=True), Waiting(waits=False)]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda tx, one: stored.deny(tx, one, by="x"), "A human has said no"),
        (lambda tx, one: stored.deny(tx, one, by="wrote instead"), "the user has said something else"),
        (lambda tx, one: stored.expire(tx, one), "Nobody has decided within 1 h"),
        (lambda tx, one: stored.withdraw(tx, one), "no longer needed"),
    ],
)
async def test_the_model_is_told_why_it_was_not_done(scene: Scene, end: Any, words: str) -> None:
    asking = begin(scene, a_question())
    [approval] = await scene.asked()
    await scene.write(lambda tx: end(tx, approval))
    with pytest.raises(NotApproved, match=words) as refused:
        await soon(asking)
    assert "Do not try to reach the same in another way." in str(refused.value)


async def test_a_command_that_changed_since_its_yes_is_not_run(scene: Scene) -> None:
    asking = begin(scene, a_question("rm -r build"))
    [approval] = await scene.asked()
    await scene.decide("once", approval)
    await soon(asking)
    with pytest.raises(NotApproved) as refused:
        await scene.gate.use(a_question("rm -r build ~"), "c1")
    assert str(refused.value) == CHANGED_MEANWHILE
    with pytest.raises(NotApproved):
        await scene.gate.use(a_question("rm -r build"), "c2")  # nor by another call
    await scene.gate.use(a_question("rm -r build"), "c1")


@pytest.mark.parametrize("how", [1, 2], ids=["/stop", "a newer message"])
@pytest.mark.parametrize("verdict", ["once", "always"])
async def test_a_yes_after_a_stop_begins_nothing(scene: Scene, verdict: Verdict, how: int) -> None:
    question = a_question(rules=(RULE,))
    asking = begin(scene, question)
    [approval] = await scene.asked()
    await scene.write(lambda tx: tx.execute("UPDATE turns SET stop_requested = ?", how))
    await scene.decide(verdict, approval)
    await soon(asking)
    with pytest.raises(NotApproved, match="has stopped what you are doing"):
        await scene.gate.use(question, "c1")


async def test_what_an_earlier_process_asked_is_not_asked_again(scene: Scene) -> None:
    first = begin(scene, a_question())
    [approval] = await scene.asked()
    first.cancel()
    again = begin(scene, a_question())
    await soon(asyncio.sleep(0))
    assert await scene.asked() == [approval]
    await scene.decide("once", approval)
    await soon(again)


async def test_nobody_reads_more_than_five_at_once(scene: Scene) -> None:
    asking = [begin(scene, a_question(f"rm {number}"), f"c{number}") for number in range(5)]
    await scene.asked(5)
    with pytest.raises(NotApproved, match="5 questions wait already"):
        await scene.gate.ask(a_question("rm 6"), "c6")
    for one in asking:
        one.cancel()


async def test_without_an_owner_to_be_found_nobody_is_asked(db: Database) -> None:
    async with running(Approvals(db=db), await a_turn(db, "member")) as scene:
        with pytest.raises(NotApproved, match="No owner can be reached"):
            await scene.gate.ask(a_question(), "c1")
        assert await db.read(stored.waiting) == []


async def test_what_they_may_decide_themselves_is_asked_where_they_are(db: Database) -> None:
    async with running(Approvals(db=db), await a_turn(db, "member")) as scene:
        asking = begin(scene, a_question(decider="asker"))
        [approval] = await scene.asked()
        assert (approval.asked_at.account, approval.asked_at.chat) == ("telegram", "42")
        asking.cancel()


@pytest.mark.parametrize("mode", ["deny", "off"])
async def test_the_operator_may_want_nobody_to_be_asked(db: Database, mode: Literal["deny", "off"]) -> None:
    gate = Approvals(db=db, mode=mode).gate(await a_turn(db), lambda event: None)
    if mode == "deny":
        with pytest.raises(NotApproved):
            await gate.ask(a_question(), "c1")
        with pytest.raises(NotApproved):
            await gate.use(a_question(), "c1")
    else:
        await gate.ask(a_question(), "c1")
        await gate.use(a_question(), "c1")
    assert await db.read(stored.waiting) == []


# Looking after them


async def test_a_question_whose_time_is_up_ends_by_itself(db: Database) -> None:
    async with running(Approvals(db=db, wait_ms=20), await a_turn(db)) as scene:
        with pytest.raises(NotApproved, match="Nobody has decided"):
            await soon(scene.gate.ask(a_question(), "c1"))


async def test_it_is_news_when_a_question_comes_and_when_the_last_one_goes(scene: Scene) -> None:
    asking = begin(scene, a_question())
    await soon(scene.news.get())
    [approval] = await scene.asked()
    asking.cancel()  # as /stop does, before the turn's end withdraws what waits
    await asyncio.wait([asking])
    await scene.write(lambda tx: decisions.withdraw(tx, scene.turn.id))
    await soon(scene.news.get())
    assert scene.news.empty()
    assert approval.is_waiting


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), sqlite3.OperationalError("away")])
async def test_a_store_that_is_away_for_a_moment_loses_no_decision(
    scene: Scene, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals_module, "_TRY_AGAIN_SECONDS", 0.01)
    asking = begin(scene, a_question())
    [approval] = await scene.asked()
    read, failures = Database.read, [problem, problem]

    async def fails(db: Database, query: Any) -> Any:
        if failures and query is stored.waiting:
            raise failures.pop()
        return await read(db, query)

    monkeypatch.setattr(Database, "read", fails)
    await scene.decide("once", approval)
    await soon(asking)
    assert failures == []
