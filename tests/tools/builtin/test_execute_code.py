"""Scripts that call other tools, where commands run."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_core.conversation import ListJournal, assistant, user
from agent_core.events import Event, ToolStarted
from agent_core.turn import run_turn
from tests.agent_core.scripted import ScriptedModel, asks, call
from tests.tools.places import KINDS, place_in
from tools.approval.gate import AskCallback, Gate, NobodyNeedsToBeAsked, Question
from tools.approval.wrapper import asks_first
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext, ToolFailed
from tools.builtin.execute_code import NAME, code_tool
from tools.loading import load_builtin
from tools.registry import build_tool
from tools.terminal_rules import TerminalRules

FILES = tuple(tool for tool in load_builtin() if tool.toolset == "file")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Workplace:
    return place_in(tmp_path, request.param)


async def echo(text: str, times: int = 1) -> dict[str, str]:
    """Say it."""
    return {"text": text * times}


async def broken(text: str = "") -> str:
    """Fail."""
    raise ToolFailed(f"no {text}")


ECHO, BROKEN = build_tool(echo, toolset="test"), build_tool(broken, toolset="test")


async def run(
    place: Workplace,
    code: str,
    tools: Sequence[Tool] = (ECHO, BROKEN, *FILES),
    *,
    gate: Gate | None = None,
    seconds: float = 60.0,
    events: list[Event] | None = None,
) -> dict[str, Any]:
    """Return the result of a script that a model runs in a turn."""
    model = ScriptedModel([asks(call(NAME, json.dumps({"code": code}))), assistant("done")])
    async with asyncio.timeout(300):
        outcome = await run_turn(
            model=model,
            tools=[code_tool(TerminalRules(), seconds=seconds), *tools],
            messages=[user("go on")],
            journal=ListJournal(),
            context=ToolContext(task_id="one", workplace=place, gate=gate or NobodyNeedsToBeAsked()),
            emit=(events if events is not None else []).append,
        )
    result: dict[str, Any] = json.loads(outcome.messages[1].text)
    return result


@pytest.mark.timeout(300)  # on a busy machine: a sandbox runs with the lowest priority
async def test_a_script_calls_tools_and_only_what_it_prints_comes_back(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import hermes_tools, os, sys
file_write(path="a.txt", content="one\\ntwo\\n")
lines = file_read("a.txt")["content"]
print(len(lines.splitlines()), echo("ab", times=2)["text"], hermes_tools.echo is echo)
try:
    broken("luck")
except ToolFailed as error:
    print("failed:", error)
print("to stderr", file=sys.stderr)
print([value for value in os.environ.values() if "canary" in value])
"""
    monkeypatch.setenv("OPENAI_API_KEY", "canary-41")
    events: list[Event] = []
    result = await run(place, code, events=events)
    assert result == {
        "output": "2 abab True\nfailed: no luck\nto stderr\n[]\n",
        "error": None,
        "exit_code": 0,
        "tool_calls": 4,
    }
    named = [event.call.name for event in events if isinstance(event, ToolStarted)]
    assert sorted(named) == ["broken", "echo", "execute_code", "file_read", "file_write"]
    assert (await place.backend.files.read(place.locate("a.txt"), max_bytes=99)).content == b"one\ntwo\n"
    left = await place.backend.files.list_folder("/tmp", max_entries=10_000)
    assert not [one.name for one in left if one.name.startswith("hermes-code-") and not _is_alive(one.name)]


@pytest.mark.parametrize(
    ("code", "error", "output"),
    [
        ("print('so far'); 1 / 0", "The script failed", "ZeroDivisionError"),
        ("print('a", "The script failed", "SyntaxError"),
        ("import sys; sys.exit(3)", "The script failed", ""),
        ("execute_code('1')", "The script failed", "NameError"),
        ("hermes = __import__('hermes_tools'); echo(1, 2, 3)", "The script failed", "takes at most 2 arguments"),
        ("echo(wrong=1)", "The script failed", "'text' is missing"),
        ("for n in range(51): echo('x')\n", "The script failed", "A script may make 50 calls of tools"),
        ("print('so far')\nwhile True: pass", "The script was ended after", "so far"),
        ("print('so far'); import re; re.match('(a+)+$', 'a' * 64 + '!')  # a while", "The script was ended", "so far"),
        ("echo('x' * 2_000_000)", "The script failed", "The call could not be read"),
    ],
)
async def test_a_script_that_fails_says_why(tmp_path: Path, code: str, error: str, output: str) -> None:
    result = await run(place_in(tmp_path), code, seconds=3.0 if "while" in code else 60.0)
    assert result["error"].startswith(error)
    assert output in result["output"]
    assert result["exit_code"]


async def test_a_risky_call_of_a_script_asks_and_waiting_does_not_count(tmp_path: Path) -> None:
    asked: list[Question] = []

    async def approve(question: Question) -> bool:
        asked.append(question)
        return len(asked) < 3

    send = asks_first(replace(ECHO, name="send"), "it tells the world")
    code = "print(send('hello')['text'])\ntry:\n    send('again')\nexcept ToolFailed as error:\n    print(error)"
    result = await run(place_in(tmp_path), code, [send], gate=AskCallback(approve))
    assert [one.tool for one in asked] == [
        "execute_code",
        "send",
        "send",
    ]  # here nothing isolates: the script itself, too
    assert asked[0].action == code
    assert result["output"].startswith("hello\nThis was not done: it tells the world.")


def _is_alive(name: str) -> bool:
    """Another test may run beside this one."""
    return any(name in _arguments(pid) for pid in os.listdir("/proc") if pid.isdigit())


def _arguments(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


async def test_a_cancelled_script_ends(tmp_path: Path) -> None:
    is_called = asyncio.Event()

    async def hold() -> str:
        """Hold on."""
        is_called.set()
        await asyncio.Event().wait()
        return ""

    pid_file = tmp_path / "project" / "pid"
    code = f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid())); hold()"
    turn = asyncio.create_task(run(place_in(tmp_path), code, [build_tool(hold, toolset="test")]))
    async with asyncio.timeout(300):
        await is_called.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
    assert not Path(f"/proc/{pid_file.read_text()}").exists()
