"""One turn at a time per session, many sessions at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from gateway import clock
from gateway.clock import ProcessClock, now_ms
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply, Commands, CommandSpec
from gateway.errors import StoreCorrupt
from gateway.inbound.intake import IntakePolicy
from gateway.messages import InboundMessage, Part
from gateway.policies.resets import Resets
from gateway.store import inbox, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.turns import Turn
from gateway.turns import lanes as lanes_module
from gateway.turns.transcript_text import render_for_model
from tests.gateway.scene import (
    ACCOUNT,
    PacedModel,
    Small,
    inbound,
    locked,
    make_small,
    refused_twice,
    rows,
    running,
    set_clock_back,
    soon,
)
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


def picture(text: str, message_id: str, *, chat: str = "home") -> InboundMessage:
    return replace(inbound(text, message_id=message_id, chat=chat, sent_ms=int(message_id)), more_follows=True)


AN_HOUR = IntakePolicy(rest_of_message_ms=3_600_000)


async def end_soon(small: Small) -> None:
    """The window is over in a moment: long enough for the lanes to look, and find that they must wait."""
    await small.db.write(lambda tx: tx.execute("UPDATE inbox SET not_before_ms = ?", now_ms() + 50))
    small.lanes.wake()


async def test_an_album_is_answered_as_one_after_its_window_without_a_further_wake(db: Database) -> None:
    model = PacedModel()
    small = make_small(db, model)
    small.intake.policy = AN_HOUR
    model.let("two")
    async with running(small):
        await small.say(picture("one", "1"))
        await small.say(picture("two", "2"))
        await end_soon(small)
        assert await small.answer() == "re: two"
    assert small.platform.sent[0].answers == ("1", "2")


async def test_a_message_whose_rest_does_not_come_is_answered_though_the_clock_is_set_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PacedModel()
    small = make_small(db, model)
    small.intake.policy = IntakePolicy(rest_of_message_ms=500)
    model.let("one")
    async with running(small):
        await small.say(picture("one", "1"))
        set_clock_back(monkeypatch)
        small.lanes.wake()
        assert await small.answer() == "re: one"


async def test_a_message_does_not_wait_longer_for_its_rest_after_a_start_with_the_clock_set_back(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make_small(db, PacedModel())
    small.intake.policy = IntakePolicy(rest_of_message_ms=500)
    await small.say(picture("one", "1"), inbound("two", message_id="2", chat="work"))
    set_clock_back(monkeypatch)
    monkeypatch.setattr(clock, "_process_clock", ProcessClock())  # as in a new process
    await db.write(inbox.after_crash)
    [(first,), (second,)] = await rows(db, "SELECT not_before_ms FROM inbox ORDER BY id")
    assert now_ms() < first <= now_ms() + 500
    assert second == 0


async def test_an_album_that_comes_during_a_turn_is_one_turn_too(db: Database) -> None:
    model = PacedModel()
    small = make_small(db, model)
    small.intake.policy = AN_HOUR
    model.let("three")
    async with running(small):
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(picture("two", "2"))
        await small.say(picture("three", "3"))
        await end_soon(small)
        model.let("dig")
        assert [await small.answer() for _ in range(2)] == ["re: dig", "re: three"]
    assert small.platform.sent[1].answers == ("2", "3")


async def test_nobody_waits_for_the_rest_of_another_chats_album(db: Database) -> None:
    model = PacedModel()
    small = make_small(db, model)
    small.intake.policy = AN_HOUR
    model.let("hello")
    async with running(small):
        await small.say(picture("one", "1"), inbound("hello", chat="office"))
        assert await small.answer() == "re: hello"
        await small.say(inbound("/status", message_id="9"))
        assert "Waiting: 1" in await small.answer()
    assert await rows(db, "SELECT state FROM inbox WHERE message_id = '1' AND chat = 'home'") == [("ready",)]


async def test_a_kill_while_waiting_for_the_rest_is_harmless(db: Database) -> None:
    small = make_small(db, PacedModel())
    small.intake.policy = IntakePolicy(rest_of_message_ms=50)
    await small.say(picture("one", "1"), picture("two", "2"))  # and that process died
    model = PacedModel()
    model.let("two")
    async with running(make_small(db, model)) as small:
        assert await small.answer() == "re: two"


async def test_a_turn_that_cannot_be_opened_at_once_fails_alone(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are begun and opened together, in one transaction."""

    def choke(message: Accepted, overheard: str = "") -> tuple[Part, ...]:
        if message.text == "poison":
            raise RuntimeError("a bug")
        return render_for_model(message, overheard)

    monkeypatch.setattr("gateway.turns.responder.render_for_model", choke)
    model = PacedModel()
    model.let("hello")
    small = make_small(db, model)
    await small.intake.accept(
        [inbound("poison", chat="a"), inbound("hello", chat="b")], None, account=ACCOUNT, local=True
    )
    async with running(small):
        answers = {await small.answer(), await small.answer()}
    assert "re: hello" in answers
    assert any("went wrong inside Hermes" in answer for answer in answers)


def _bug(tx: Transaction, call: CommandCall) -> CommandReply:
    tx.execute("INSERT INTO people (id, name, role, created_ms) VALUES ('x', 'x', 'guest', 0)")
    if call.arguments == "twice":  # as the store tells it
        tx.execute("INSERT INTO people (id, name, role, created_ms) VALUES ('x', 'x', 'guest', 0)")
    raise RuntimeError("a bug")


WITH_A_BUG = Commands([CommandSpec("break", "Help", "", _bug), *make_commands().specs])


@pytest.mark.parametrize("how", ["/break", "/break twice"])
async def test_what_came_with_a_command_that_breaks_is_answered_without_a_further_wake(db: Database, how: str) -> None:
    model = PacedModel()
    model.let("hello", "here too")
    async with running(make_small(db, model, commands=WITH_A_BUG)) as small:
        for _ in range(3):
            await db.write(lambda tx: None)  # the look that every start begins with is over
        await small.say(inbound(how), inbound("here too", message_id="2"), inbound("hello", chat="office"))
        answers = {await small.answer() for _ in range(3)}
    assert {"re: hello", "re: here too"} < answers
    assert any("went wrong inside Hermes" in answer for answer in answers)


@pytest.mark.parametrize("how", ["/break", "/break twice"])
async def test_of_many_commands_the_one_that_breaks_fails_alone(db: Database, how: str) -> None:
    small = make_small(db, PacedModel(), commands=WITH_A_BUG)
    await small.say(*(inbound(text, message_id=str(n)) for n, text in enumerate(["/help", "/new", how, "/status"])))
    async with running(small):
        for _ in range(4):
            await small.answer()
    assert [outcome for (outcome,) in await rows(db, "SELECT outcome FROM inbox ORDER BY id")] == [
        "answered",
        "answered",
        "failed",
        "answered",
    ]
    assert await rows(db, "SELECT COUNT(*) FROM people WHERE id = 'x'") == [(0,)]


async def test_a_flood_of_commands_in_one_chat_keeps_no_other_waiting(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "_COMMANDS_AT_ONCE", 2)
    model = PacedModel()
    model.let("hello")
    begun: list[int] = []
    really_begin = turns.begin

    def begin(tx: Transaction, resets: Resets) -> Turn | None:
        turn = really_begin(tx, resets)
        if turn is not None:
            begun.append(tx.count("SELECT COUNT(*) FROM inbox WHERE kind = 'command' AND state = 'ready'"))
        return turn

    monkeypatch.setattr(turns, "begin", begin)
    async with running(make_small(db, model)) as small:
        flood = (inbound("/help", message_id=f"c{n}") for n in range(9))
        await small.say(*flood, inbound("hello", chat="office"))
        while await small.answer() != "re: hello":
            pass
    assert begun == [7]  # with the first of them, not behind the last
