"""`hermes chat`: one question, or a conversation through a pipe."""

from tests.hermes_cli.running import hermes


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
