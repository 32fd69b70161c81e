"""`hermes chat`: one question, or a conversation through a pipe."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_core.prompt import PERSONALITIES
from hermes_cli.piped import NoEnd, read_piped
from playground.model_script import ModelAnswer
from playground.model_server import ModelServer
from tests.hermes_cli.running import ROOT, hermes


@pytest.mark.parametrize(
    ("arguments", "typed", "answer"),
    [
        (("-q", "what is 17 * 23?"), "", "17 * 23 = 391\n"),
        (("-q", "what is 17 * 23?"), " \n\n", "17 * 23 = 391\n"),
        (("what", "is", "2 + 2?"), "", "2 + 2 = 4\n"),
        ((), "/quit\nwhat is 17 * 23?\n", ""),
        ((), "", ""),
    ],
)
def test_the_answer_is_printed_and_nothing_else(arguments: tuple[str, ...], typed: str, answer: str) -> None:
    run = hermes("chat", *arguments, typed=typed)
    assert (run.returncode, run.stdout, run.stderr) == (0, answer, "")


def test_a_question_that_needs_a_tool_still_prints_only_the_answer() -> None:
    run = hermes("chat", "-q", "add milk to my todo list")
    assert (run.returncode, run.stderr) == (0, "")
    assert "1. milk" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "hint"), [(("-q", "  "), "Ask something"), (("-q", "what is 2 + 2?", "what is 3 + 3?"), "not both")]
)
def test_a_question_that_is_none_or_two_is_refused(arguments: tuple[str, ...], hint: str) -> None:
    run = hermes("chat", *arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert hint in run.stderr


def test_a_conversation_through_a_pipe() -> None:
    typed = "what is 17 * 23?\n\n/status\nadd milk to my todo list\n/nwe\n/new\n/status\nwhat is 2 + 2?"
    run = hermes(typed=typed)
    assert run.returncode == 0
    answers = run.stdout.splitlines()
    assert answers[0] == "17 * 23 = 391"
    assert answers[1] == "Model: demo"
    assert "There is no command /nwe. Did you mean /new?" in answers
    assert "No conversation yet: it begins with your next message." in answers
    assert answers[-1] == "2 + 2 = 4"
    assert run.stderr == "  … todo\n"


def transcript() -> str:
    [session, *_] = hermes("sessions", "list").stdout.split()
    return hermes("sessions", "show", session).stdout


def test_what_is_piped_in_goes_with_the_question() -> None:
    run = hermes("chat", "summarise", typed="the lighthouse is närrow\n")
    assert (run.returncode, run.stderr) == (0, "")
    told = transcript()
    assert "summarise" in told
    assert "the lighthouse is närrow" in told


def test_a_command_does_not_take_what_is_piped_in() -> None:
    run = hermes("chat", "-q", "/status", typed="the lighthouse")
    assert (run.returncode, run.stdout.splitlines()[0]) == (0, "Model: demo")


def test_more_than_fits_is_refused_before_anything_is_asked(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("media: {max_turn_text_chars: 100}\n")
    run = hermes("chat", "-q", "summarise", typed="x" * 101)
    assert (run.returncode, run.stdout) == (1, "")
    assert "Standard input is longer than 100 characters" in run.stderr
    assert "media.max_turn_text_chars" in run.stderr
    assert hermes("chat", "-q", "summarise", typed="x" * 100).returncode == 0


def test_what_is_no_text_is_refused(home: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "hermes_cli", "chat", "-q", "summarise"],
        input=b"\x89PNG\0\xff",
        capture_output=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, b"")
    assert b"Standard input is not UTF-8 text" in run.stderr


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "/dev/null"])
def test_a_question_without_a_standard_input(closed: bool) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "hermes_cli", "chat", "-q", "what is 17 * 23?"],
        stdin=subprocess.DEVNULL,
        preexec_fn=(lambda: os.close(0)) if closed else None,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "17 * 23 = 391\n", "")


def test_a_pipe_in_which_nothing_comes_is_not_waited_for_without_end(capfd: pytest.CaptureFixture[str]) -> None:
    """As a service's child inherits it: nobody writes to it, and nobody closes it."""
    silent, held_open = os.pipe()
    try:
        with os.fdopen(silent) as lines, pytest.raises(NoEnd, match="</dev/null"):
            read_piped(lines, max_chars=100, hint_seconds=0, wait_seconds=0)
    finally:
        os.close(held_open)
    assert "Waiting for standard input" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/nwe", "There is no command /nwe. Did you mean /new?"),
        ("/why", "/why works in chats, not in the terminal. /help lists what works here."),
    ],
)
def test_a_command_that_is_refused_is_a_failure(command: str, reason: str) -> None:
    run = hermes("chat", "-q", command)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"Error: {reason}\n"


def test_a_broken_tool_file_is_one_line_and_the_rest_is_in_the_log(home: Path) -> None:
    (home / "tools").mkdir(parents=True, mode=0o700)
    (home / "tools" / "mine.py").write_text("import nothing_of_that_name")
    run = hermes("chat", "-q", "what is 17 * 23?")
    assert (run.returncode, run.stdout) == (0, "17 * 23 = 391\n")
    log = home / "logs" / "hermes.log"
    assert run.stderr == (
        "Tool file mine.py could not be loaded: ModuleNotFoundError: No module named 'nothing_of_that_name'. "
        f"Fix or remove it; details: {log}\n"
    )
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert log.parent.stat().st_mode & 0o077 == 0


async def test_the_owners_preferences_come_before_the_settings_and_after_a_choice(home: Path) -> None:
    async with ModelServer(models=("usual", "mine"), otherwise=ModelAnswer(text=("Hello.",))) as server:

        def talk() -> None:
            given = {"model.name": "usual", "model.base_url": server.url, "OPENAI_API_KEY": server.api_key}
            given |= {"user.preferences.model": "mine", "user.preferences.personality": "concise"}
            for key, value in given.items():
                assert hermes("config", "set", key, value).returncode == 0
            done = hermes("chat", typed="hello\n/status\n/model usual\nhello again\n/model default\nand again\n")
            assert done.returncode == 0, done.stderr
            assert "Model: mine" in done.stdout

        await asyncio.to_thread(talk)
        asked = [request.body for request in server.requests if request.body]
        assert [body["model"] for body in asked] == ["mine", "usual", "mine"]
        assert PERSONALITIES["concise"] in json.dumps(asked[0]["messages"][0], ensure_ascii=False)
