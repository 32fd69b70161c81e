"""/background and /terminal: turns that a command begins."""

import json
from typing import Any

import pytest

from agent_core.conversation import assistant
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.turns.direct_call import render_result
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.commands.test_choices import use
from tests.gateway.commands.test_history import Talk
from tests.gateway.scene import PacedModel, make_small, rows, running
from tools.base import ToolContext
from tools.registry import build_tool


def shell(log: list[str]) -> Any:
    async def terminal(context: ToolContext, command: str, background: bool = False) -> dict[str, Any]:
        """Pretend to run a command."""
        log.append(command)
        if background:
            return {"session_id": "p1", "pid": 1}
        return {"output": f"ran {command}\n", "error": None, "exit_code": 0}

    return build_tool(terminal, toolset="terminal")


async def test_a_background_prompt_runs_beside_the_conversation_and_is_answered_here(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        talk = Talk(small)
        assert await talk.say("/background count the stars") == (
            "Working on it in the background; I will post the result here. /status shows it, /stop all ends it."
        )
        assert await model.asked.get() == "count the stars"
        await talk.send("hello")
        model.let("hello")
        assert await small.answer() == "re: hello"
        assert "- prompt “count the stars”" in await talk.say("/status")
        model.let("count the stars")
        assert await small.answer() == "**In the background:** count the stars\n\nre: count the stars"
        assert small.platform.sent[-1].address.reply_to == "1"
        assert "prompt" not in await talk.say("/status")
    assert await rows(db, "SELECT key LIKE 'pigeon:dm:home:b%', title FROM sessions ORDER BY created_ms, rowid") == [
        (1, "count the stars"),
        (0, "hello"),
    ]


async def test_stop_all_ends_background_prompts_and_stop_does_not(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model, max_turns=1)) as small:
        talk = Talk(small)
        await talk.say("/background first")
        await model.asked.get()
        await talk.say("/background second")  # waits for a slot
        assert await talk.say("/stop") == "Nothing is running but 2 background prompts; /stop all ends them."
        assert await talk.say("/stop all") == "Ending 2 background prompts."
        assert await talk.say("/stop all") == "Nothing is running."
    assert await rows(db, "SELECT outcome FROM inbox WHERE kind = 'message'") == [("stopped",), ("stopped",)]


async def test_background_takes_the_choices_of_its_chat_and_only_so_many(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        talk = Talk(small)
        await talk.say("/personality concise")
        assert await talk.say("/background") == "Say what to do: /background PROMPT"
        for number in range(5):
            await talk.say(f"/background {number}")
        assert await talk.say("/background one more") == (
            "5 of your prompts are already running in the background. /stop all ends them."
        )
        settings = await rows(db, "SELECT settings FROM sessions WHERE key LIKE '%:b%'")
        assert [json.loads(one)["personality"] for (one,) in settings] == ["concise"] * 5
        await talk.say("/stop all")


async def test_a_command_is_run_as_a_turn_without_asking_the_model(db: Database) -> None:
    ran: list[str] = []
    model = ScriptedModel([assistant("seen")])
    async with running(make_small(db, model, tools=[shell(ran)])) as small:
        talk = Talk(small)
        assert await talk.say("/terminal ls -la") == "```\nran ls -la\n```"
        assert await talk.say("/terminal sleep 5 --background") == (
            "Started in the background as p1. /status shows it, /stop all ends it."
        )
        assert await talk.say("/terminal --background sleep 6") == (
            "Started in the background as p1. /status shows it, /stop all ends it."
        )
        assert await talk.say("what did it say?") == "seen"
    assert ran == ["ls -la", "sleep 5", "sleep 6"]
    assert [message.role for message in model.asked[0][:4]] == ["user", "assistant", "tool", "assistant"]
    assert model.asked[0][0].text == "/terminal ls -la"


async def test_a_command_waits_for_the_turn_and_joins_none(db: Database) -> None:
    ran: list[str] = []
    model = PacedModel()
    async with running(make_small(db, model, tools=[shell(ran)])) as small:
        talk = Talk(small)
        await talk.send("slow")
        await model.asked.get()
        assert await talk.say("/terminal ls") == "This runs after the current turn. /stop ends that turn."
        await talk.send("and this")
        model.let("slow", "and this")
        assert [await small.answer() for _ in range(3)] == ["re: slow", "```\nran ls\n```", "re: and this"]
    assert ran == ["ls"]


@pytest.mark.parametrize(
    ("text", "role", "told"),
    [
        ("terminal", "owner", "Say what to run, such as /terminal ls -la. Add --background for what takes long."),
        (
            "terminal --background",
            "owner",
            "Say what to run, such as /terminal ls -la. Add --background for what takes long.",
        ),
        ("terminal ls", "member", "/terminal is not available to you here. /help lists what is."),
        ("restart", "member", "/restart is not available to you here. /help lists what is."),
        ("restart", "owner", "Restarting now. I will write here once I run again."),
    ],
)
def test_who_may_run_commands(tx: Transaction, text: str, role: Any, told: str) -> None:
    assert use(tx, text, role=role) == told


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"output": "a\nb\n", "error": None, "exit_code": 0}, "```\na\nb\n```"),
        ({"output": "has ``` inside", "exit_code": 2}, "````\nhas ``` inside\n````\nExit code 2."),
        ({"output": "", "error": None, "exit_code": 0}, "Done, without any output."),
        ({"output": "", "error": None, "exit_code": 1}, "Exit code 1, no output."),
        (
            {"output": "part", "error": "Timed out after 180 s; partial output follows.", "exit_code": 124},
            "Timed out after 180 s; partial output follows.\n```\npart\n```\nExit code 124.",
        ),
        ({"error": "The user denied this."}, "The user denied this."),
        (
            {"session_id": "p1", "pid": 1, "note": "Nothing watches it."},
            "Started in the background as p1. /status shows it, /stop all ends it. Nothing watches it.",
        ),
    ],
)
def test_results_are_rendered_for_people(result: dict[str, Any], shown: str) -> None:
    assert render_result(json.dumps(result)) == shown
    assert render_result("no json") == "no json"
