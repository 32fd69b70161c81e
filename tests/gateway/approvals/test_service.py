"""Calls of a turn that wait for a human: who is told, what a yes lets through, and what keeps no slot meanwhile."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pytest

from agent_core.conversation import tool_result
from agent_core.events import Event, ToolFinished, ToolWaiting, ignore
from gateway.approvals import decisions
from gateway.approvals import service as approvals_module
from gateway.approvals.decisions import DecidingPerson
from gateway.approvals.service import Approvals
from gateway.approvals.wording import Verdict
from gateway.errors import StoreUnavailable
from gateway.messages import Address, Sender
from gateway.stopwatch import Stopwatch
from gateway.store import approvals as stored
from gateway.store import chats, turns
from gateway.store.approvals import Approval
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from gateway.turns.lanes import Lanes
from tests.agent_core.scripted import ScriptedModel, answering, asks, call, plain_tool
from tests.gateway.scene import make_responder, rows, soon
from tests.gateway.store.rows import a_question, an_asker, inbound, take
from tools.approval.gate import CHANGED_MEANWHILE, Gate, NotApproved, Question
from tools.approval.wrapper import needs_approval
from tools.base import ToolContext

OWNER = DecidingPerson(account="telegram", id="42", name="Olga", role="owner")
RULE = "recursive-delete /srv/a/b"


@dataclass
class Scene:
    """A turn of the owner's, and whoever looks after its questions."""

    db: Database
    approvals: Approvals
    turn: Turn
    watch: Stopwatch
    events: list[Event]
    news: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    spoken_to: list[str] = field(default_factory=list)  # accounts on which something is to be said
    changes: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    gate: Gate = field(init=False)

    def __post_init__(self) -> None:
        changes = self.approvals.changes
        for account in ("discord", "telegram"):
            changes.subscribe("outbox", partial(self.spoken_to.append, account), account=account)
        changes.subscribe("approvals", lambda: self.news.put_nowait(None))
        changes.subscribe("inbox", lambda: self.changes.put_nowait(None))
        self.gate = self.approvals.gate(self.turn, self.watch)

    async def asked(self, count: int = 1) -> list[Approval]:
        """The questions that wait, once there are so many."""
        async with asyncio.timeout(10):
            while len(found := await self.db.read(stored.waiting)) != count:
                await asyncio.sleep(0)  # as often as the store is asked
        return found

    async def decide(self, verdict: Verdict, approval: Approval) -> None:
        await self.db.write(lambda tx: decisions.decide(tx, approval, verdict, OWNER))
        self.approvals.wake()

    async def write(self, unit: Callable[[Transaction], Any]) -> None:
        await self.db.write(unit)
        self.approvals.wake()


def said_by_an_owner(tx: Transaction) -> None:
    take(tx, inbound("tidy up"))
    tx.execute("UPDATE inbox SET role = 'owner'")


async def a_turn(db: Database, role: str = "owner") -> Turn:
    def unit(tx: Transaction) -> Turn | None:
        said_by_an_owner(tx)
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
    events: list[Event] = []
    scene = Scene(db=approvals.db, approvals=approvals, turn=turn, watch=Stopwatch(events.append), events=events)
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
    assert scene.events == [ToolWaiting(waits=True), ToolWaiting(waits=False)]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda tx, one: stored.deny(tx, one, by="x"), "A human said no"),
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
    assert "Do not try to do the same in another way." in str(refused.value)


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
    await scene.decide("deny", approval)
    with pytest.raises(NotApproved):  # it was waited for
        await soon(again)


async def test_what_was_decided_while_no_process_ran_is_not_waited_for(scene: Scene) -> None:
    first = begin(scene, a_question())
    [approval] = await scene.asked()
    first.cancel()
    await asyncio.wait([first])
    scene.events.clear()
    await scene.db.write(lambda tx: decisions.decide(tx, approval, "once", OWNER))
    await soon(scene.gate.ask(a_question(), "c1"))
    assert scene.events == []


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


def also_asked(turn: Turn, sender: Sender) -> Callable[[Transaction], None]:
    """Another message became part of the turn meanwhile."""

    def unit(tx: Transaction) -> None:
        joined = take(tx, inbound("and this", sender=sender))
        tx.execute("UPDATE inbox SET role = 'member', state = 'running', turn_id = ? WHERE id = ?", turn.id, joined)

    return unit


async def test_a_question_is_asked_for_whoever_asks_under_their_newest_name(db: Database) -> None:
    async with running(Approvals(db=db), await a_turn(db, "member")) as scene:
        await db.write(also_asked(scene.turn, Sender(id="42", name="Ann Now")))
        asking = begin(scene, a_question(decider="asker"))
        [approval] = await scene.asked()
        asker = approval.asker
        assert (asker.account, asker.sender_id, asker.sender_name) == ("telegram", "42", "Ann Now")
        assert asker.person_id == scene.turn.asked[0].person_id is not None
        asking.cancel()


async def test_what_several_asked_together_is_asked_for_nobody_and_put_to_an_owner(db: Database) -> None:
    async with running(Approvals(db=db, owner_accounts=("discord",)), await a_turn(db, "member")) as scene:
        await db.write(also_asked(scene.turn, Sender(id="43", name="Bob")))
        await db.write(lambda tx: chats.set_home(tx, "discord", "9"))
        asking = begin(scene, a_question(decider="asker"))
        [approval] = await scene.asked()
        assert (approval.asker.person_id, approval.asker.sender_id, approval.asker.sender_name) == (None, "", "")
        assert (approval.asked_at.account, approval.asked_at.chat) == ("discord", "9")
        asking.cancel()


@pytest.mark.parametrize("mode", ["deny", "off"])
async def test_the_operator_may_want_nobody_to_be_asked(db: Database, mode: Literal["deny", "off"]) -> None:
    gate = Approvals(db=db, mode=mode).gate(await a_turn(db), Stopwatch(ignore))
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


async def test_whoever_sends_is_told_that_there_is_something_to_say(db: Database) -> None:
    approvals = Approvals(db=db, owner_accounts=("discord", "telegram"))
    async with running(approvals, await a_turn(db, "member")) as scene:
        await db.write(lambda tx: chats.set_home(tx, "discord", "9"))
        asking = begin(scene, a_question())
        await soon(scene.news.get())
        assert scene.spoken_to == ["discord", "telegram"]  # where it is asked, and where it is told that it was
        scene.approvals.wake()
        await scene.asked()
        assert scene.spoken_to == ["discord", "telegram"]
        await scene.write(lambda tx: tx.execute("UPDATE approvals SET expires_ms = 1"))
        with pytest.raises(NotApproved, match="Nobody has decided"):
            await soon(asking)
        assert scene.spoken_to == ["discord", "telegram"] * 2


NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("due_ms", "seconds", "waits"),
    [
        (NOW_MS + 5_000, 5.01, True),
        (NOW_MS + 29_000, 29.01, True),
        (NOW_MS + 3_600_000, 30.0, True),  # a clock may be set, and a machine may sleep
        (NOW_MS + 1, 0.011, True),
        (NOW_MS, 10.01, False),  # over, so it is the next one that counts
        (NOW_MS - 1, 10.009, False),
    ],
)
async def test_it_is_looked_again_when_the_next_question_is_due(
    db: Database, monkeypatch: pytest.MonkeyPatch, due_ms: int, seconds: float, waits: bool
) -> None:
    monkeypatch.setattr(approvals_module, "now_ms", lambda: NOW_MS)
    told: list[None] = []
    approvals = Approvals(db=db)
    approvals.changes.subscribe("approvals", lambda: told.append(None))
    at = Address(account="telegram", chat="42")

    def two(tx: Transaction) -> None:
        stored.create(tx, an_asker(), "c1", a_question(), at, expires_ms=due_ms)
        stored.create(tx, an_asker(), "c2", a_question(), at, expires_ms=due_ms + 10_000)

    await db.write(two)
    assert await approvals._look() == pytest.approx(seconds)
    assert len(await db.read(stored.waiting)) == 1 + waits
    await approvals._look()
    assert len(told) == 1  # nothing is new the second time


async def test_where_nobody_waits_any_more_the_store_is_left_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = begin(scene, a_question())
    [approval] = await scene.asked()
    await scene.decide("once", approval)
    await soon(asking)
    await soon(scene.news.get())
    await soon(scene.news.get())

    async def fails(db: Database, query: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Database, "read", fails)
    for _ in range(5):
        scene.approvals.wake()
        await asyncio.sleep(0)  # whoever looks would do so now, and fail


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


# What keeps a slot meanwhile


def finished(call_id: str) -> ToolFinished:
    ended = call("terminal", call_id=call_id)
    return ToolFinished(call=ended, result=tool_result(ended, "done"), seconds=1)


async def test_a_turn_waits_only_while_no_other_call_of_it_runs(scene: Scene) -> None:
    turn_id, is_waiting = scene.turn.id, scene.approvals.is_waiting
    asking = begin(scene, a_question())
    [approval] = await scene.asked()
    await soon(scene.changes.get())
    assert is_waiting(turn_id)
    assert not is_waiting("another")
    scene.watch.tool_started("c2")
    scene.watch.tool_started("c3")
    assert not is_waiting(turn_id)
    scene.watch(finished("c2"))
    assert not is_waiting(turn_id)
    assert scene.changes.empty()
    scene.watch(finished("c3"))
    assert is_waiting(turn_id)
    scene.changes.get_nowait()  # its slot is free now: whoever gives them is told
    scene.watch(finished("refused"))  # one that never began
    assert scene.changes.empty()
    await scene.decide("once", approval)
    await soon(asking)
    assert not is_waiting(turn_id)


async def test_a_turn_waits_until_the_last_of_its_questions_is_decided(scene: Scene) -> None:
    asking = [begin(scene, a_question(f"rm {call}"), call) for call in ("c1", "c2")]
    first, second = await scene.asked(2)
    await scene.decide("deny", first)
    await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert scene.approvals.is_waiting(scene.turn.id)
    await scene.decide("deny", second)
    await asyncio.wait(asking)
    assert not scene.approvals.is_waiting(scene.turn.id)
    assert [one.exception() is not None for one in asking] == [True, True]


async def test_a_stop_lets_the_command_beside_a_question_finish(db: Database) -> None:
    """What only waits is paused at once; what works is given its time, and paused when it only waits."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return "slept"

    async def about(arguments: dict[str, object], context: ToolContext) -> Question:
        return a_question()

    tools = [needs_approval(answering("risky"), about), plain_tool("slow", slow)]
    approvals = Approvals(db=db)
    model = ScriptedModel([asks(call("risky"), call("slow"))])
    responder = make_responder(db, model, tools=tools, gate=approvals.gate)
    lanes = Lanes(db, responder, lambda tx: False, max_turns=1, is_waiting=approvals.is_waiting)
    approvals.changes.subscribe("inbox", lanes.wake)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lanes.run()), group.create_task(approvals.run())]
        await db.write(said_by_an_owner)
        lanes.wake()
        await soon(begun.wait())
        draining = group.create_task(lanes.drain(600))
        await asyncio.wait([draining], timeout=0.05)  # long enough to pause what only waits
        may_end.set()
        await soon(draining)
        for task in tasks:
            task.cancel()
    assert await rows(db, "SELECT state FROM turns") == [("paused",)]
    assert await rows(db, "SELECT tool_call_id, parts LIKE '%slept%' FROM messages WHERE role = 'tool'") == [
        ("call_slow", 1)
    ]
