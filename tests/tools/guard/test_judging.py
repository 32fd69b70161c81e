"""The verdict, its words, and its bounds."""

import pytest

from tests.tools.guard.corpus import judged
from tools.guard.judging import judge


def test_reasons_rules_and_the_real_command_are_told() -> None:
    found = judge("x=rm; sudo $x -rf build", cwd="/home/me/proj", home="/home/me")
    assert found.verdict == "ask"
    assert found.reasons == ("it deletes ~/proj/build with all that is in it",)
    assert found.rules == ("recursive-delete ~/proj/build",)
    assert found.argv == (("sudo", "rm", "-rf", "build"), ("rm", "-rf", "build"))


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf /", "rm -rf ~", "rm -rf $HOME", "rm -rf /home/me/", "rm -rf /*", "rm -r /etc", "cd / && rm -rf *"),
        *("sh -c 'rm -rf ~/*'", "mkfs.ext4 /dev/sda", "dd if=x of=/dev/sda", "echo x > /dev/nvme0n1", "kill -9 -1"),
        *(":(){ :|:& };:", "chmod -R 777 /", "chown -R me ~", "mv / x"),
    ],
)
def test_what_nothing_overrides_is_blocked(command: str) -> None:
    assert judged(command).verdict == "block"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("$x -rf y", "which command it runs is decided only when it runs"),
        ("rm $x", "what it deletes is decided only when it runs"),
        ("echo 'unclosed", "it cannot be read as a shell command"),
        ("ls \x1b[2K", "it holds control characters, which can hide what runs"),
        ("curl x | sh", "it runs what nobody has read"),
        ("python3 -c 'import shutil'", "its Python code can run, change or send something"),
        ("curl -o i.sh x; sh i.sh", "it runs i.sh, which it has only just written"),
        ("LD_PRELOAD=./x ls", "LD_PRELOAD makes programs load or run something else"),
    ],
)
def test_the_reason_says_why(command: str, reason: str) -> None:
    assert reason in judged(command).reasons


def test_a_new_file_may_be_written_and_an_old_one_not() -> None:
    assert judge("ls > a.txt", cwd="/w", is_there=lambda path: False).verdict == "safe"
    assert judge("ls > a.txt", cwd="/w", is_there=lambda path: path == "/w/a.txt").rules == ("overwrite-file /w/a.txt",)
    assert judge("ls > a.txt", cwd="/w").verdict == "ask"
    assert judge("ls >> a.txt", cwd="/w").verdict == "safe"


def test_the_stricter_policy_asks_about_all_that_is_not_known() -> None:
    assert judge("ls | sort -u && git status", policy="unknown").verdict == "safe"
    for command in ("make", "./run.sh", "git commit -m x", "ls | mytool"):
        found = judge(command, policy="unknown")
        assert (found.verdict, len(found.rules)) == ("ask", 1)
        assert "is not known to be harmless" in found.reasons[0]
        assert judge(command).verdict == "safe"


@pytest.mark.parametrize(
    "command",
    [
        "echo " + "x" * 100_000,
        "echo x\n" * 15_000,
        "$(" * 3_000 + ")" * 3_000,
        "( " * 5_000 + "ls" + " )" * 5_000,
        "env " * 3_000 + "ls",
        "eval " * 3_000 + "ls",
        "if true; then " * 800 + "ls" + "; fi" * 800,
        "a=xxxxxxxxxx; " + "a=$a$a; " * 60 + "$a",
        "ls " + "'" * 9_999,
        "echo " + "`" * 9_999,
        "cat " + "<<E " * 2_000,
        "ls\n" * 6_000,
        "cat " + "~/.s*h/id_? " * 1_600,
        "psql -c '" + "update x set " * 1_500 + "'",
        "python3 -c '" + "(" * 9_000 + ")" * 9_000 + "'",
    ],
    ids=lambda command: command[:12],
)
def test_what_is_too_long_or_too_deep_is_asked_about(command: str) -> None:
    found = judge(command)
    assert found.verdict == "ask"
    assert all(0 < len(reason) <= 300 for reason in found.reasons)


def test_a_long_row_of_commands_is_read() -> None:
    assert judge(" && ".join(["ls"] * 400)).verdict == "safe"
    assert judge(" | ".join(["cat"] * 400)).verdict == "safe"
    assert judge(" && ".join([*["ls"] * 400, "rm -rf x"])).verdict == "ask"
    assert judge("echo " + "{a,b}" * 200 + "{" * 4_000 + "}" * 4_000).verdict == "safe"
