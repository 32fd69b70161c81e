"""A conversation at the terminal: same store, same loop, nobody to deliver to."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Event, ToolStarted
from agent_core.model import Model, ModelError
from agent_core.provenance import read_provenance
from gateway.commands.catalog import make_commands
from gateway.errors import CommandRefused
from gateway.messages import SessionKey
from gateway.policies.budgets import Amount, Budgets
from gateway.stopwatch import Stopwatch
from gateway.store import trace, turns
from gateway.store.db.database import Database
from gateway.store.sessions import list_terminal_chats
from gateway.store.turns import Turn
from gateway.terminal_chat import LocalChat, new_key
from gateway.trace import GatewayState, verdict
from gateway.turns.metering import Meter
from gateway.turns.prompts import Prompts
from hermes_config.places import Home
from tests.agent_core.scripted import ScriptedModel, answering, asks, call
from tests.gateway.scene import make_runner, rows, unhappy
from tools.approval.gate import Gate, NobodyToAsk
from tools.base import ToolContext
from tools.loading import load_builtin
from tools.workplaces import local_workplace, process_backends


def chat(db: Database, model: Model, *, key: SessionKey | None = None, **parts: Any) -> LocalChat:
    """`parts` are those of `make_runner`."""
    folder = db.path.parent
    prompts = Prompts(db=db, soul=folder / "SOUL.md", project=folder, hints={})
    given: dict[str, Any] = {"tools": [answering("dig", "gold")], "prompts": prompts} | parts
    return LocalChat(
        runner=make_runner(db, model, **given),
        commands=make_commands(),
        key=key or new_key(),
        workplace=local_workplace(folder, home=Home(folder)),
        backends=process_backends(),
    )


async def test_a_conversation_remembers_and_shows_its_tools(db: Database) -> None:
    model = ScriptedModel([asks(call("dig")), assistant("found gold"), assistant("as I said")])
    talk = chat(db, model)
    events: list[Event] = []
    assert await talk.say("dig", events.append) == "found gold"
    assert await talk.say("what?") == "as I said"
    assert [event.call.name for event in events if isinstance(event, ToolStarted)] == ["dig"]
    assert [message.role for message in model.asked[-1]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert await rows(db, "SELECT platform, title, input_tokens FROM sessions") == [("cli", "dig", 30)]
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state <> 'done'") == [(0,)]
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_a_long_question_gives_a_short_title(db: Database) -> None:
    await chat(db, ScriptedModel([assistant("hi")])).say("first line\n" + "word " * 100)
    [(title,)] = await rows(db, "SELECT title FROM sessions")
    assert title.startswith("first line word")
    assert len(title) <= 60


async def test_a_folder_whose_name_is_no_text_is_not_remembered(db: Database) -> None:
    talk = replace(chat(db, ScriptedModel([assistant("hi")])), folder="/tmp/caf\udce9")
    assert await talk.say("hello") == "hi"
    assert await db.read(partial(list_terminal_chats, folder="", first=0, limit=9)) == []


async def test_commands_work_here_too(db: Database) -> None:
    talk = chat(db, ScriptedModel([assistant("hi"), assistant("hi again")]))
    await talk.say("hello")
    assert (await talk.say("/new")).startswith("A new conversation begins")
    await talk.say("hello")
    assert await talk.say("stop") == "Nothing is running."
    assert await rows(db, "SELECT COUNT(*) FROM sessions") == [(2,)]


async def test_a_model_that_cannot_answer_raises_and_the_conversation_goes_on(db: Database) -> None:
    talk = chat(db, unhappy())
    with pytest.raises(ModelError, match="key was refused"):
        await talk.say("hello")
    assert await rows(db, "SELECT role FROM messages") == [("user",)]


async def test_no_gateway_takes_up_a_turn_of_the_terminal(db: Database) -> None:
    found: list[object] = []

    class Looking(ScriptedModel):
        async def reply(self, *args: Any, **kwargs: Any) -> Message:
            found.append(await db.write(turns.begin))
            found.append(await db.write(turns.resume_all))
            return await super().reply(*args, **kwargs)

    assert await chat(db, Looking([assistant("hi")])).say("hello") == "hi"
    assert found == [None, []]


async def test_how_a_turn_of_the_terminal_ended_is_in_its_trail(db: Database) -> None:
    talk = chat(db, ScriptedModel([asks(call("dig")), assistant("found gold")]))
    await talk.say("dig")
    with pytest.raises(ModelError):
        await chat(db, unhappy(), key=talk.key).say("again")
    asked = asyncio.Event()

    class Endless(ScriptedModel):
        async def reply(self, *args: Any, **kwargs: Any) -> Message:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    stopped = asyncio.create_task(chat(db, Endless([]), key=talk.key).say("and again"))
    async with asyncio.timeout(30):
        await asked.wait()
        stopped.cancel()
        await asyncio.wait([stopped])
    traces = await db.read(lambda tx: [trace.read(tx, one) for one in (1, 2, 3)])
    assert [[step.event for step in found.steps] for found in traces] == [
        ["accepted", "claimed", "model_replied", "tool_started", "tool_finished", "model_replied", "answered"],
        ["accepted", "claimed", "failed"],
        ["accepted", "claimed", "stopped"],
    ]
    verdicts = [verdict(found, 0, GatewayState()) for found in traces]
    assert verdicts[0].endswith(" at the terminal.")
    assert verdicts[1].startswith("Not answered because the model")
    assert verdicts[2] == "Not answered because it was stopped at the terminal."


def test_each_terminal_has_a_session_of_its_own() -> None:
    assert new_key() != new_key()
    assert str(new_key()).startswith("cli:")


async def test_what_was_used_is_counted_also_of_an_answer_that_failed(db: Database) -> None:
    await chat(db, ScriptedModel([asks(call("dig")), assistant("found gold")])).say("dig")
    with pytest.raises(ModelError):
        await chat(db, unhappy()).say("hello")
    counted = await rows(db, "SELECT person_id, chat, input_tokens, settled FROM spending")
    assert counted == [("owner", "cli", 10, 1)] * 2


async def test_a_budget_warns_and_then_stops_at_the_terminal_too(db: Database) -> None:
    budgets = Budgets(limits={"user": Amount(tokens=4_000)}, warn_at=0.002)
    talk = chat(db, ScriptedModel([assistant("hi")]), meter=Meter(budgets=budgets))
    answer, warning = (await talk.say("hello")).split("\n\n")
    assert answer == "hi"
    assert warning.startswith("(Your budget for today is 0% used: 11 of 4,000 tokens.")
    await db.write(lambda tx: tx.execute("UPDATE spending SET input_tokens = 4000"))
    with pytest.raises(ModelError, match=r"used up \(4,001 of 4,000 tokens\).*hermes config set budgets.user_tokens"):
        await talk.say("and now?")


async def test_calls_that_were_stopped_are_not_made_by_the_next_message(db: Database) -> None:
    begun, runs = asyncio.Event(), 0

    async def dig(arguments: str, context: ToolContext) -> str:
        nonlocal runs
        runs += 1
        begun.set()
        await asyncio.Event().wait()
        return "gold"

    model = ScriptedModel([asks(call("dig")), assistant("as you like")])
    talk = chat(db, model, tools=[replace(answering("dig", "gold"), run=dig)])
    turn = asyncio.create_task(talk.say("dig"))
    async with asyncio.timeout(30):
        await begun.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert await talk.say("never mind") == "as you like"
    assert runs == 1
    assert "stopped this call" in next(message.text for message in model.asked[-1] if message.role == "tool")


async def test_the_gate_is_that_of_the_session(db: Database) -> None:
    seen: list[tuple[str, str]] = []

    def gate(turn: Turn, watch: Stopwatch) -> Gate:
        seen.append((turn.session_key, turn.session_id))
        return NobodyToAsk()

    talk = chat(db, ScriptedModel([assistant("hi")]), gate=gate)
    await talk.say("hello")
    assert seen == await rows(db, "SELECT key, id FROM sessions")


async def test_piped_text_comes_along_but_is_not_what_the_user_said(db: Database) -> None:
    model = ScriptedModel([assistant("read it")])
    assert await chat(db, model).say("summarise", piped="rm -rf /srv") == "read it"
    heard = read_provenance(model.asked[-1], [])
    assert heard.own_words == "summarise"
    assert [(passage.origin, "rm -rf /srv" in passage.text) for passage in heard.outside] == [("stdin", True)]


@pytest.mark.parametrize("command", ["/nwe", "/why"])
async def test_a_command_that_cannot_be_run_is_refused(db: Database, command: str) -> None:
    with pytest.raises(CommandRefused, match=command):
        await chat(db, ScriptedModel([])).say(command)


async def test_tasks_are_delegated_in_this_process_and_paid_by_the_owner(db: Database) -> None:
    given = asks(call("delegate_task", '{"goal": "dig"}'))
    model = ScriptedModel([given, asks(call("dig")), assistant("gold"), assistant("done")])
    delegating = [tool for tool in load_builtin() if tool.name == "delegate_task"]
    talk = chat(db, model, tools=[*delegating, answering("dig", "gold")])
    assert await talk.say("work") == "done"
    assert model.offered[1] == ("dig",)
    assert await rows(db, "SELECT title, parent_id <> '', total_tokens FROM sessions ORDER BY rowid") == [
        ("work", None, 22),
        ("dig", 1, 22),
    ]
    assert await rows(db, "SELECT DISTINCT person_id, SUM(input_tokens) FROM spending") == [("owner", 40)]
    assert await rows(db, "SELECT DISTINCT state FROM turns UNION SELECT state FROM inbox") == [("done",)]
