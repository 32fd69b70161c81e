"""Whoever sits at the terminal is asked before a call does harm: over a real one, and without any."""

import asyncio
import os
import pty
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent_core.conversation import ToolCall
from agent_core.events import ToolStarted
from gateway.store import approvals
from gateway.store.db.connection import Transaction, connect
from hermes_cli.prompting import Screen
from tests.gateway.store.rows import a_question
from tests.hermes_cli.at_a_terminal import AtATerminal
from tests.hermes_cli.running import hermes

ASKED = "[d]eny (deny after 60 s): "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERMINAL_ENV", "local")  # in a sandbox nothing would ask
    for name in ("build", "build/old", "kept"):
        (tmp_path / "proj" / name).mkdir(parents=True)
    return tmp_path / "proj"


def test_a_conversation_in_which_things_are_asked(tmp_path: Path, folder: Path) -> None:
    build = folder / "build"
    with AtATerminal("chat", cwd=folder, columns=160, term="dumb") as seat:
        seat.until("> ")
        # The second line is typed before there is anything to answer.
        seat.press("run `rm -r build/old`\na\n")
        question = seat.until(ASKED)
        assert f"May I do this?\n    rm -r build/old\nWhere: on this machine, in {folder}\n" in question
        assert f"Reason: it deletes {build}/old and everything in it.\n" in question
        assert f"need no question: recursive-delete {build}/old\n[o]nce, [s]ession, [a]lways, [d]eny" in question
        seat.press("maybe\n")
        seat.until(ASKED)
        assert (build / "old").exists()
        seat.press("s\n")
        seat.until("> ")
        assert not (build / "old").exists()

        (build / "old").mkdir()
        seat.press("run `rm -r build/old`\n")
        assert "May I" not in seat.until("> ")
        assert not (build / "old").exists()

        seat.press("run `rm -r kept`\n")
        seat.until(ASKED)
        seat.press("\x03")
        seat.until("Stopped.\n> ")
        seat.press("what is 17 * 23?\n")
        assert "May I" not in seat.until("391")  # what was stopped is not taken up again
        seat.until("> ")
        seat.press("\x04")
        assert seat.leave() == 0
    assert (folder / "kept").exists()
    with closing(connect(tmp_path / "home" / "state.db", busy_timeout_seconds=1)) as connection:
        [rule] = approvals.rules(Transaction(connection))
    assert (rule.holder, rule.rule, bool(rule.session_id)) == ("owner", f"recursive-delete {build}/old", True)


def test_silence_is_a_no(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_APPROVALS__TERMINAL_WAIT_SECONDS", "0.1")
    with AtATerminal("chat", "-q", "run `rm -r $(cat list)`", cwd=folder) as seat:
        assert "[s]ession" not in seat.until("[o]nce, [d]eny (deny after 0.1 s): ")  # it has no rule to grant
        seat.until("No answer within 0.1 s, so it was not done.\n")
        assert seat.leave() == 0


def test_ctrl_c_at_a_single_question_leaves(folder: Path) -> None:
    with AtATerminal("chat", "-q", "run `rm -r build`", cwd=folder) as seat:
        seat.until(ASKED)
        seat.press("\x03")
        assert seat.leave() == 130
        assert "Traceback" not in seat.shown
    assert (folder / "build").exists()


def test_without_a_terminal_nobody_is_asked(folder: Path) -> None:
    for run in (
        hermes("chat", "-q", f"run `rm -r {folder}/build`"),
        hermes("chat", typed=f"run `rm -r {folder}/build`\n"),
    ):
        assert run.returncode == 0
        assert "approval needs a terminal: terminal: rm -r" in run.stderr
        assert "This was not done" in run.stdout
    assert (folder / "build").exists()


@contextmanager
def a_seat(patch: pytest.MonkeyPatch) -> Iterator[tuple[int, Screen]]:
    """A terminal within this process: its other end, and the screen on it."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r", closefd=False) as lines, os.fdopen(theirs, "w") as written:
        patch.setattr("sys.stderr", written)
        yield ours, Screen(lines=lines, wait_seconds=30)
        patch.undo()
    os.close(ours)


async def until(ours: int, text: str) -> str:
    seen = ""
    async with asyncio.timeout(30):
        while text not in seen:
            there = asyncio.Event()
            asyncio.get_running_loop().add_reader(ours, there.set)
            await there.wait()
            asyncio.get_running_loop().remove_reader(ours)
            seen += os.read(ours, 65_536).decode().replace("\r\n", "\n")
    return seen


async def test_nothing_is_written_over_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_seat(monkeypatch) as (ours, screen):
        asking = asyncio.create_task(screen.ask(a_question("rm -r build", rules=("git-discard",))))
        await until(ours, "): ")
        screen.show(ToolStarted(call=ToolCall(id="2", name="clock", arguments="{}")))
        os.write(ours, b"s\n")
        assert await asking == "session"
        assert await until(ours, "clock\n") == "s\n  … clock\n"


@pytest.mark.parametrize(
    ("keys", "has_rules", "answer"),
    [
        ("o\n", True, "once"),
        ("S\n", True, "session"),
        ("always\n", True, "always"),
        ("yes\n", False, "once"),
        ("a\ns\nalways\no\n", False, "once"),  # what is not offered is not taken
        ("d\n", True, "deny"),
        ("no\n", True, "deny"),
        ("\n", True, "deny"),
        ("\x04", True, "deny"),
    ],
)
async def test_answers(monkeypatch: pytest.MonkeyPatch, keys: str, has_rules: bool, answer: str) -> None:
    with a_seat(monkeypatch) as (ours, screen):
        rules = ("git-discard",) if has_rules else ()
        asking = asyncio.create_task(screen.ask(a_question("rm -r build", rules=rules)))
        await until(ours, "): ")
        os.write(ours, keys.encode())
        async with asyncio.timeout(30):
            assert await asking == answer


async def test_a_command_cannot_pass_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "rm -r ~ #\x1b[2K\rls\u202e\nReason: it is harmless."
    with a_seat(monkeypatch) as (ours, screen):
        asking = asyncio.create_task(screen.ask(a_question(hostile, where="on\nthis machine")))
        seen = await until(ours, "): ")
        os.write(ours, b"d\n")
        await asking
    assert "    rm -r ~ #\\u001b[2K\\u000dls\\u202e\n    Reason: it is harmless.\n" in seen
    assert "Where: on this machine\n" in seen
