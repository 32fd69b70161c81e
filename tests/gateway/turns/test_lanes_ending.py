"""How a running turn is ended early: by its user, or by an orderly stop of the gateway."""

import asyncio
from dataclasses import dataclass, field

import pytest

from agent_core.conversation import Message, assistant
from agent_core.history import arrange
from gateway.commands.catalog import make_commands
from gateway.commands.runner import CommandRunner
from gateway.policies.resets import Resets
from gateway.store import chats, compactions, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import OpenedTurn, Turn
from gateway.turns import lanes as lanes_module
from gateway.turns.lanes import Lanes
from tests.agent_core.scripted import ScriptedModel, asks, call, plain_tool
from tests.gateway.scene import ACCOUNT, PacedModel, inbound, locked, make_small, rows, running, soon
from tools.base import ToolOutput

OUTCOMES = "SELECT outcome FROM turns ORDER BY started_ms, id"


async def test_stop_ends_the_turn_and_the_next_message_is_answered(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(inbound("stop", message_id="2"))
        assert await small.answer() == "Stopped."
        model.let("hello")
        await small.say(inbound("hello", message_id="3"))
        assert await small.answer() == "re: hello"
    assert await rows(db, OUTCOMES) == [("stopped",), ("answered",)]
    assert small.platform.texts == ["Stopped.", "re: hello"]


async def test_history_is_valid_after_a_stop_in_the_middle_of_a_tool(db: Database) -> None:
    at_work, cancelled = asyncio.Event(), asyncio.Event()

    async def dig() -> ToolOutput:
        at_work.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    quick = plain_tool("look", _found)
    model = ScriptedModel([asks(call("dig"), call("look")), assistant("hello too")])
    async with running(make_small(db, model, tools=[plain_tool("dig", dig), quick])) as small:
        await small.say(inbound("dig"))
        await soon(at_work.wait())
        await small.say(inbound("/stop", message_id="2"))
        assert await small.answer() == "Stopped."
        await soon(cancelled.wait())
        await small.say(inbound("hello", message_id="3"))
        assert await small.answer() == "hello too"
    history = list(model.asked[-1])
    assert history == arrange(history)
    assert [(message.role, message.tool_call_id) for message in history] == [
        ("user", ""),
        ("assistant", ""),
        ("tool", "call_dig"),
        ("tool", "call_look"),
        ("assistant", ""),
        ("user", ""),
    ]
    assert history[4].text == "(Stopped by the user.)"
    assert "The user stopped this call of dig" in history[2].text
    assert history[3].text == "found it"


async def _found() -> ToolOutput:
    return "found it"


async def test_a_stop_just_before_the_commit_point_wins(db: Database) -> None:
    """The chat has been told that it was stopped: no answer may follow."""
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())

        stopping = asyncio.ensure_future(db.write(lambda tx: turns.request_stop(tx, "pigeon:dm:home")))
        await asyncio.sleep(0)  # its unit is in the queue; the answer's comes behind it
        model.let("dig")
        assert await soon(stopping)
        model.let("hello")
        await small.say(inbound("hello", message_id="2"))
        assert await small.answer() == "re: hello"
    assert await rows(db, OUTCOMES) == [("stopped",), ("answered",)]


async def test_a_stop_just_after_the_commit_point_finds_nothing_running(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        model.let("dig")
        assert await small.answer() == "re: dig"
        await small.say(inbound("/stop", message_id="2"))
        assert await small.answer() == "Nothing is running."


async def test_many_stops_end_a_turn_once(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(*(inbound("/stop", message_id=f"s{n}") for n in range(5)))
        assert await small.answer() == "Stopped."
        model.let("hello")
        await small.say(inbound("hello", message_id="3"))
        assert await small.answer() == "re: hello"
    assert await rows(db, OUTCOMES) == [("stopped",), ("answered",)]


@pytest.mark.parametrize("max_turns", [1, 10])
async def test_a_stop_that_another_process_wrote_ends_the_turn_at_the_next_wake(db: Database, max_turns: int) -> None:
    """As `hermes pairing revoke` does: no model works on for somebody who no longer has access."""
    model = PacedModel()
    async with running(make_small(db, model, max_turns=max_turns)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await db.write(lambda tx: turns.stop_turns_of(tx, ACCOUNT, "42"))
        small.lanes.wake()
        model.let("hello")  # in a chat of its own where there is room for one turn only
        await small.say(inbound("hello", chat="office", sender="43"))
        assert await small.answer() == "re: hello"
        await soon(_until_idle(small.lanes))
    assert sorted(await rows(db, OUTCOMES)) == [("answered",), ("stopped",)]
    assert small.platform.texts == ["re: hello"]


async def _until_idle(lanes: Lanes) -> None:
    while lanes.running:
        await asyncio.sleep(0)


async def test_stop_ends_the_turn_of_a_group_that_was_given_another_id_meanwhile(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig", chat="-7", kind="group"))
        await soon(model.asked.get())
        await db.write(lambda tx: chats.move(tx, ACCOUNT, "-7", "-1007"))
        await small.say(inbound("/stop", message_id="2", chat="-1007", kind="group"))
        assert await small.answer() == "Stopped."
        await soon(_until_idle(small.lanes))
    assert await rows(db, OUTCOMES) == [("stopped",)]


@dataclass
class SlowToFail:
    """A worker whose turn breaks, and whose apology is interrupted."""

    db: Database
    apologising: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        return None

    async def respond(self, turn: Turn, opened: OpenedTurn | None, user_wrote: asyncio.Event) -> None:
        raise RuntimeError("a bug")

    async def fail(self, turn: Turn) -> None:
        self.apologising.set()
        await asyncio.Event().wait()

    async def stop(self, turn: Turn) -> None:
        await self.db.write(lambda tx: turns.finish(tx, turn.id, turn.messages, turns.Outcome.STOPPED))
        self.ended.put_nowait("stopped")

    async def pause(self, turn: Turn) -> None:
        await self.db.write(lambda tx: turns.pause(tx, turn.id))
        self.ended.put_nowait("paused")


async def test_a_stop_while_a_failure_is_written_down_still_ends_the_turn(db: Database) -> None:
    worker = SlowToFail(db)
    small = make_small(db, PacedModel())
    command_runner = CommandRunner(commands=make_commands(), model_name="m")
    lanes = Lanes(db, worker, command_runner.handle_next, max_turns=1)
    small.changes.subscribe("inbox", lanes.wake)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(lanes.run())
        await small.say(inbound("break"))
        await soon(worker.apologising.wait())
        await small.say(inbound("/stop", message_id="2"))
        assert await soon(worker.ended.get()) == "stopped"
        task.cancel()
    assert await rows(db, "SELECT state FROM turns") == [("done",)]


async def test_draining_lets_running_turns_finish_and_begins_no_other(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(inbound("next", message_id="2"), inbound("other", chat="office"))
        assert await soon(model.asked.get()) == "other"
        draining = asyncio.ensure_future(small.lanes.drain(30))
        await small.say(inbound("late", chat="late"))
        model.let("dig", "other")
        await soon(draining)
    assert sorted(await rows(db, OUTCOMES)) == [("answered",), ("answered",)]
    assert await rows(db, "SELECT chat FROM inbox WHERE state = 'ready' ORDER BY id") == [("home",), ("late",)]


async def test_draining_pauses_what_takes_longer_tells_the_chat_and_spends_no_resume(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await soon(small.lanes.drain(0))
        assert await small.answer() == "I am restarting and will continue with this when I am back."
        await soon(small.delivery.flush())
    assert await rows(db, "SELECT state, resumes FROM turns") == [("paused", 0)]
    assert await rows(db, "SELECT state FROM inbox") == [("running",)]

    model.let("dig")
    async with running(make_small(db, model)) as small:
        assert await small.answer() == "re: dig"
    assert await rows(db, "SELECT state, resumes, outcome FROM turns") == [("done", 0, "answered")]


async def test_a_turn_that_is_being_begun_is_drained_too(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row says running: left out, it would look like a crash and tell its chat nothing."""
    model = PacedModel()
    draining: list[asyncio.Future[None]] = []
    loop = asyncio.get_running_loop()
    really_begin = turns.begin
    begun = asyncio.Event()

    def begin(tx: Transaction, resets: Resets) -> Turn | None:
        turn = really_begin(tx, resets)
        if turn is not None:  # committed only after the loop has heard of the stop
            asyncio.run_coroutine_threadsafe(start_draining(), loop).result()
        return turn

    async def start_draining() -> None:
        draining.append(asyncio.ensure_future(small.lanes.drain(0)))
        await asyncio.sleep(0)
        begun.set()

    monkeypatch.setattr(turns, "begin", begin)
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(begun.wait())
        await soon(draining[0])
        assert await rows(db, "SELECT state FROM turns") == [("paused",)]


async def test_a_store_that_takes_nothing_does_not_keep_us_from_stopping(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "_COMMIT_SECONDS", 0.05)
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        with locked(db.path):
            await soon(small.lanes.drain(0))
    assert await rows(db, "SELECT state FROM turns") == [("running",)]


async def test_the_end_of_the_gateway_leaves_turns_to_the_next_start(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
    assert await rows(db, "SELECT state FROM turns") == [("running",)]
    model.let("dig")
    async with running(make_small(db, model)) as small:
        assert await small.answer() == "re: dig"
    history: list[Message] = await db.read(lambda tx: compactions.read_history(tx, _session(tx), limit=10).messages)
    assert [message.text for message in history] == ["dig", "re: dig"]


def _session(tx: Transaction) -> str:
    row = tx.one("SELECT id FROM sessions")
    assert row is not None
    return str(row["id"])
