"""`hermes chat`: one question, or a conversation through a pipe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_cli.piped import NoEnd, read_piped
from tests.hermes_cli.running import ROOT, hermes


def test_one_question_prints_the_answer_and_nothing_else() -> None:
    run = hermes("chat", "-q", "what is 17 * 23?")
    assert run.returncode == 0
    assert run.stdout == "17 * 23 = 391\n"
    assert run.stderr == ""


def test_a_question_that_needs_a_tool_still_prints_only_the_answer() -> None:
    run = hermes("chat", "-q", "add milk to my todo list")
    assert (run.returncode, run.stderr) == (0, "")
    assert "1. milk" in run.stdout


def test_nothing_is_no_question() -> None:
    run = hermes("chat", "-q", "  ")
    assert run.returncode == 2
    assert run.stdout == ""
    assert "Ask something" in run.stderr


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


def test_quit_leaves_what_comes_after_it() -> None:
    run = hermes("chat", typed="/quit\nwhat is 17 * 23?\n")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_an_empty_pipe_is_a_short_conversation() -> None:
    run = hermes("chat", typed="")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def transcript() -> str:
    [session, *_] = hermes("sessions", "list").stdout.split()
    return hermes("sessions", "show", session).stdout


def test_a_question_can_be_an_argument() -> None:
    run = hermes("chat", "what is 17 * 23?")
    assert (run.returncode, run.stdout, run.stderr) == (0, "17 * 23 = 391\n", "")
    run = hermes("chat", "what", "is", "2 + 2?")
    assert (run.returncode, run.stdout) == (0, "2 + 2 = 4\n")


def test_a_question_given_twice_is_refused() -> None:
    run = hermes("chat", "-q", "what is 2 + 2?", "what is 3 + 3?")
    assert (run.returncode, run.stdout) == (2, "")
    assert "not both" in run.stderr


@pytest.mark.parametrize("question", [("-q", "summarise"), ("summarise",)])
def test_what_is_piped_in_goes_with_the_question(question: tuple[str, ...]) -> None:
    run = hermes("chat", *question, typed="the lighthouse is närrow\n")
    assert (run.returncode, run.stderr) == (0, "")
    told = transcript()
    assert "summarise" in told
    assert "the lighthouse is närrow" in told


def test_an_empty_pipe_adds_nothing_to_the_question() -> None:
    run = hermes("chat", "-q", "what is 17 * 23?", typed=" \n\n")
    assert (run.returncode, run.stdout) == (0, "17 * 23 = 391\n")


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
