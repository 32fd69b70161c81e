"""Commands about the conversation itself, as a chat sees them."""

from dataclasses import replace
from functools import partial

import pytest

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.store import inbox, processes, sessions, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import BusyMode
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import PacedModel, inbound, make_small, rows, running, soon
from tests.gateway.store.rows import a_process

KEY = "pigeon:dm:home"


@pytest.mark.parametrize("text", ["/new", "/reset"])
async def test_new_ends_the_conversation_and_the_next_message_begins_another(db: Database, text: str) -> None:
    model = PacedModel()
    model.let("hello", "hello again")
    async with running(make_small(db, model)) as small:
        await small.say(inbound("hello"))
        await small.answer()
        await small.say(inbound(text, message_id="2"))
        assert await small.answer() == (
            "A new conversation begins with your next message. The old one can still be read and searched."
        )
        await small.say(inbound("hello again", message_id="3"))
        await small.answer()
    assert await rows(db, "SELECT end_reason FROM sessions ORDER BY created_ms, id") == [("new",), (None,)]
    [(first, second)] = await rows(db, "SELECT MIN(session_id), MAX(session_id) FROM messages WHERE role = 'user'")
    assert first != second


async def test_new_without_a_conversation_says_only_what_is_true(db: Database) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(inbound("/new"))
        assert await small.answer() == "A new conversation begins with your next message."


async def test_new_stops_what_is_running_in_the_old_conversation(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(inbound("/new", message_id="2"))
        assert await small.answer() == (
            "Stopped what I was doing. A new conversation begins with your next message. "
            "The old one can still be read and searched."
        )
        model.let("hello")
        await small.say(inbound("hello", message_id="3"))
        assert await small.answer() == "re: hello"
    assert await rows(db, "SELECT outcome FROM turns ORDER BY started_ms, id") == [("stopped",), ("answered",)]


@pytest.mark.parametrize("busy_mode", ["steer", "queue", "collect", "interrupt"])
@pytest.mark.parametrize("waiting", [["two"], ["two", "three"]], ids=["one", "several"])
async def test_new_answers_what_waits_in_the_new_conversation(
    db: Database, busy_mode: BusyMode, waiting: list[str]
) -> None:
    model = PacedModel()
    small = make_small(db, model, busy_mode=busy_mode)
    small.intake.changes = Changes()  # all of it is there before the lanes look
    async with running(small):
        await small.say(inbound("dig"))
        small.lanes.wake()
        await soon(model.asked.get())
        for number, text in enumerate(waiting, 2):
            await small.say(inbound(text, message_id=str(number), sent_ms=number))
        await small.say(inbound("/new", message_id="9", sent_ms=9))
        model.let(*waiting)
        small.lanes.wake()
        what = "the waiting message" if len(waiting) == 1 else "the 2 waiting messages"
        assert await small.answer() == (
            f"Stopped what I was doing. A new conversation begins with {what}. "
            "The old one can still be read and searched."
        )
        while await small.answer() != f"re: {waiting[-1]}":
            pass
    assert await rows(db, "SELECT outcome FROM inbox WHERE kind = 'message' ORDER BY id") == [
        ("stopped",),
        *[("answered",)] * len(waiting),
    ]
    said = (
        "SELECT end_reason, COUNT(*) FROM messages JOIN sessions s ON s.id = session_id WHERE role = 'user' GROUP BY 1"
    )
    assert await rows(db, said) == [(None, len(waiting)), ("new", 1)]


async def test_new_names_a_turn_that_was_interrupted_for_a_message_not_begun_yet(db: Database) -> None:
    model = PacedModel()
    model.let("two")
    small = make_small(db, model, busy_mode="interrupt")
    async with running(small):
        await small.say(inbound("dig"))
        await soon(model.asked.get())
    [(turn_id,)] = await rows(db, "SELECT id FROM turns")
    await small.say(inbound("two", message_id="2", sent_ms=2))

    def end(tx: Transaction) -> None:
        turns.finish(tx, turn_id, inbox.read_turn(tx, turn_id), turns.Outcome.SUPERSEDED)

    await db.write(end)
    await small.say(inbound("/new", message_id="3", sent_ms=3))
    async with running(small):
        assert (await small.answer()).startswith(
            "Stopped what I was doing. A new conversation begins with the waiting message."
        )
        assert await small.answer() == "re: two"


async def test_resume_says_that_it_stops_what_is_running(db: Database) -> None:
    model = PacedModel()
    model.let("first")
    async with running(make_small(db, model, busy_mode="queue")) as small:
        await small.say(inbound("first"))
        await small.answer()
        await small.say(inbound("/new", message_id="2"))
        await small.answer()
        await small.say(inbound("dig", message_id="3", sent_ms=3))
        while await soon(model.asked.get()) != "dig":
            pass
        await small.say(inbound("/resume first", message_id="4", sent_ms=4))
        assert (await small.answer()).startswith("Stopped what I was doing. You are back in “first”")


async def test_stop_with_nothing_running(db: Database) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(inbound("stop"))
        assert await small.answer() == "Nothing is running."


@pytest.mark.parametrize(
    ("waiting", "answer"), [(0, "Stopped."), (1, "Stopped. 1 waiting message comes next."), (2, "Stopped. 2 waiting m")]
)
async def test_stop_says_what_comes_next(db: Database, waiting: int, answer: str) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        await small.say(*(inbound("next", message_id=f"n{n}") for n in range(waiting)))
        await small.say(inbound("/stop", message_id="2"))
        assert (await small.answer()).startswith(answer)


async def test_stop_in_one_session_leaves_the_others_alone(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig", chat="office"))
        await soon(model.asked.get())
        await small.say(inbound("/stop", message_id="2"))
        assert await small.answer() == "Nothing is running."
        model.let("dig")
        assert await small.answer() == "re: dig"


async def test_status_at_each_stage_of_a_conversation(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("/status"))
        assert await small.answer() == "Model: paced\nNo conversation yet: it begins with your next message."
        model.let("hello")
        await small.say(inbound("hello", message_id="2"))
        await small.answer()
        await small.say(inbound("dig", message_id="3"))
        assert [await soon(model.asked.get()) for _ in range(2)] == ["hello", "dig"]
        await small.say(inbound("next", message_id="4"), inbound("/status", message_id="5"))
        session = await db.read(lambda tx: sessions.find_current(tx, KEY))
        assert session is not None
        assert (await small.answer()).splitlines() == [
            "Model: paced",
            f"Session: {session.id}, hello",
            "Tokens: 10 in, 1 out",
            "A turn is running; /stop ends it.",
            "Waiting: 1",
        ]


async def test_stop_all_asks_for_the_end_of_background_processes_too(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        await small.say(inbound("dig"))
        await soon(model.asked.get())
        [(session,)] = await rows(db, "SELECT session_id FROM turns")
        started_ms = now_ms() - 200 * 60_000 - 30_000  # the half minute: a slow test still says the same
        for name in ("a", "b"):
            process = replace(a_process(session, name), started_ms=started_ms)
            await db.write(partial(processes.add, process=process))
        await small.say(inbound("/status", message_id="2"))
        listed = (await small.answer()).splitlines()[-3:]
        assert listed == [
            "In the background (/stop all ends them):",
            "- `make` (proc_a), for 3 h 20 min",
            "- `make` (proc_b), for 3 h 20 min",
        ]
        await small.say(inbound("/stop", message_id="3"))
        assert await small.answer() == "Stopped."
        await small.say(inbound("stop", message_id="4"))
        assert await small.answer() == "Nothing is running but 2 background processes; /stop all ends them."
        assert await rows(db, "SELECT SUM(end_requested) FROM processes") == [(0,)]
        await small.say(inbound("/stop all", message_id="5"))
        assert await small.answer() == "Ending 2 background processes."
    assert await rows(db, "SELECT SUM(end_requested) FROM processes") == [(2,)]


async def test_stop_all_without_any(db: Database) -> None:
    async with running(make_small(db, PacedModel())) as small:
        await small.say(inbound("/stop all"))
        assert await small.answer() == "Nothing is running."


async def test_a_command_costs_no_model_call(db: Database) -> None:
    model = ScriptedModel([])
    async with running(make_small(db, model)) as small:
        await small.say(*(inbound(text, message_id=text) for text in ("/help", "/status", "/nwe", "stop")))
        for _ in range(4):
            await small.answer()
    assert model.asked == []
