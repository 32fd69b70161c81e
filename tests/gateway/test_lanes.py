"""One turn at a time per session, many sessions at once."""

import asyncio
from collections.abc import Sequence

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from gateway.errors import StoreCorrupt
from gateway.store import turns
from gateway.store.connection import Transaction
from gateway.store.database import Database
from tests.gateway.scene import PacedModel, inbound, locked, make_small, refused_twice, rows, running, soon
from tools.base import Tool


async def test_a_session_has_one_turn_at_a_time_in_the_platforms_order(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("first", message_id="1", sent_ms=10))
        assert await soon(model.asked.get()) == "first"
        await small.say(inbound("third", message_id="3", sent_ms=30), inbound("second", message_id="2", sent_ms=20))
        assert model.asked.empty()
        assert small.lanes.running == 1
        model.let("first")
        assert await soon(model.asked.get()) == "second"
        model.let("second", "third")
        assert [await small.answer() for _ in range(3)] == ["re: first", "re: second", "re: third"]


async def test_messages_that_waited_before_the_turn_are_answered_together(db: Database) -> None:
    model = PacedModel()
    model.let("two")
    async with running(make_small(db, model)) as small:
        await small.say(inbound("one", message_id="1"), inbound("two", message_id="2"))
        assert await small.answer() == "re: two"
    assert small.platform.sent[0].answers == ("1", "2")
    assert await rows(db, "SELECT role FROM messages ORDER BY id") == [("user",), ("user",), ("assistant",)]


async def test_sessions_do_not_wait_for_each_other(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(*(inbound(f"text {n}", chat=f"chat {n}") for n in range(5)))
        asked = {await soon(model.asked.get()) for _ in range(5)}
        assert asked == {f"text {n}" for n in range(5)}
        model.let("text 3")
        assert await small.answer() == "re: text 3"
        model.let(*asked)
        for _ in range(4):
            await small.answer()
    assert small.lanes.running == 0


async def test_no_more_turns_run_than_allowed_and_the_oldest_is_next(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, max_turns=2)) as small:
        for n in range(4):
            await small.say(inbound(f"text {n}", chat=f"chat {n}"))
        assert {await soon(model.asked.get()) for _ in range(2)} == {"text 0", "text 1"}
        assert model.asked.empty()
        assert await rows(db, "SELECT COUNT(*) FROM turns") == [(2,)]
        model.let("text 1")
        assert await soon(model.asked.get()) == "text 2"
        model.let("text 0", "text 2", "text 3")
        for _ in range(4):
            await small.answer()


async def test_a_command_is_answered_while_a_turn_runs(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, max_turns=1)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(inbound("/status", message_id="2"))
        assert "A turn is running" in await small.answer()
        model.let("dig")
        assert await small.answer() == "re: dig"


class Breaking:
    """A model with a bug of ours in it."""

    name = "breaking"

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        match messages[-1].text:
            case "break":
                raise RuntimeError("a bug")
            case "give up":
                raise asyncio.CancelledError  # as a library's broken cancel scope does
            case text:
                return assistant(f"re: {text}")


@pytest.mark.parametrize("how", ["break", "give up"])
async def test_a_turn_that_fails_is_answered_and_disturbs_nobody(db: Database, how: str) -> None:
    async with running(make_small(db, Breaking())) as small:
        await small.say(inbound(how))
        answer = await small.answer()
        [(turn_id, outcome)] = await rows(db, "SELECT id, outcome FROM turns")
        assert outcome == "failed"
        assert answer.startswith("Something went wrong inside Hermes")
        assert turn_id in answer
        await small.say(inbound("hello", message_id="2"), inbound("hello", chat="office"))
        assert [await small.answer() for _ in range(2)] == ["re: hello"] * 2
        assert small.lanes.running == 0


async def test_a_damaged_store_ends_the_gateway(db: Database) -> None:
    class Damaged(Breaking):
        async def reply(
            self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
        ) -> Message:
            raise StoreCorrupt("state.db is damaged")

    small = make_small(db, Damaged())
    await small.say(inbound("hello"))
    with pytest.raises(ExceptionGroup) as caught:
        await soon(small.lanes.run())
    assert caught.group_contains(StoreCorrupt)


async def test_what_an_earlier_process_left_goes_before_what_is_new(db: Database) -> None:
    small = make_small(db, PacedModel())
    await small.say(inbound("old"))
    await db.write(turns.begin)  # and that process died
    await small.say(inbound("new", message_id="2"), inbound("other", chat="office"))

    model = PacedModel()
    async with running(make_small(db, model)) as small:
        assert {await soon(model.asked.get()) for _ in range(2)} == {"old", "other"}
        model.let("old", "other")
        assert await soon(model.asked.get()) == "new"
    assert await rows(db, "SELECT resumes FROM turns ORDER BY started_ms, id LIMIT 1") == [(1,)]


async def test_a_stop_that_came_before_the_crash_is_obeyed_after_it(db: Database) -> None:
    small = make_small(db, PacedModel())
    await small.say(inbound("dig"))
    await db.write(turns.begin)
    await small.say(inbound("/stop", message_id="2"))

    model = PacedModel()
    async with running(make_small(db, model)) as small:
        assert await small.answer() == "Stopped."
        model.let("hello")
        await small.say(inbound("hello", message_id="3"))
        assert await small.answer() == "re: hello"
    assert model.asked.get_nowait() == "hello"
    assert await rows(db, "SELECT outcome FROM turns ORDER BY started_ms, id") == [("stopped",), ("answered",)]


async def test_accepted_work_waits_for_a_store_that_is_unavailable(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("hello"))
        await soon(model.asked.get())
        with locked(db.path):
            model.let("hello")
            await refused_twice(db)  # the answer was tried meanwhile
        assert await small.answer() == "re: hello"


async def test_a_wake_during_the_look_is_not_lost(db: Database) -> None:
    """A message that is written while the lanes are looking must be found by the next look."""
    model = PacedModel()
    small = make_small(db, model)
    async with running(small):

        def unit(tx: Transaction) -> None:
            small.lanes.wake()

        await asyncio.gather(*(db.write(unit) for _ in range(50)), small.say(inbound("hello")))
        model.let("hello")
        assert await small.answer() == "re: hello"
