"""The verdict, its words, and its bounds."""

from typing import Any

import pytest

from tests.tools.shell_guard.corpus import judged
from tools.shell_guard.granting import Rule
from tools.shell_guard.guard import judge


def test_reasons_rules_and_the_real_command_are_told() -> None:
    found = judge("x=rm; sudo $x -rf build", cwd="/home/me/proj", home="/home/me")
    assert found.verdict == "ask"
    assert found.reasons == ("it deletes ~/proj/build and everything in it",)
    assert found.rules == (Rule("recursive-delete", "/home/me/proj/build"),)
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
        ("python3 -c 'import shutil'", "python3 runs code of the command line, which nobody reads here"),
        ("curl -o i.sh x; sh i.sh", "it runs ~/proj/i.sh, which it has only just written"),
        ("bash /dev/./stdin <<< ls", "it runs its input, which nobody has read"),
        ("LD_PRELOAD=./x ls", "LD_PRELOAD makes programs load or run something else"),
    ],
)
def test_the_reason_says_why(command: str, reason: str) -> None:
    assert reason in judged(command).reasons


def test_a_new_file_may_be_written_and_an_old_one_not() -> None:
    assert judge("ls > a.txt", cwd="/w", is_there=lambda path: False).verdict == "safe"
    assert judge("ls > a.txt", cwd="/w", is_there=lambda path: path == "/w/a.txt").rules == (
        Rule("overwrite-file", "/w/a.txt"),
    )
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


_WRITTEN = {
    "/home/me/proj/bad.py": "import shutil\nshutil.rmtree('/srv/data')\n",
    "/home/me/proj/good.py": "print(1)\n",
    "/home/me/proj/bad.sh": "#!/bin/sh\nset -e\nrm -rf /srv/data/x\n",
    "/home/me/proj/good.sh": "echo hello\nls -la\n",
    "/home/me/proj/python-inside": "#!/usr/bin/env python3 -u\nprint(1)\n",
    "/home/me/proj/itself.sh": "ls\nsh itself.sh\n. ./itself.sh\n",
    "/home/me/proj/other.sh": "sh bad.sh\n",
    "/home/me/proj/cut.sh": "echo 'unclosed\n",
    "/home/me/proj/long.sh": "echo x\n" * 20_000,
    "/home/me/proj/a.out": "\x7fELF\0",
    "/home/me/bin/bad": "rm -rf /srv/data/x\n",
}


@pytest.mark.parametrize(
    "command",
    [
        *("python3 bad.py", "python3 ./good.py arg", "python3 /home/me/proj/bad.py", "cd /tmp; python ~/proj/bad.py"),
        *("sh bad.sh", "bash -x bad.sh", "./bad.sh", "~/proj/bad.sh", ". bad.sh", "source ./bad.sh"),
        *("bash < bad.sh", "sudo ./bad.sh", "env A=1 ./bad.sh", "timeout 5 sh bad.sh", "eval ./bad.sh"),
        *("x=./bad.sh; $x", "cd ..; proj/bad.sh", "find . -exec ./bad.sh {} +", "sh other.sh", "../bin/bad"),
        *("./python-inside", "sh cut.sh", "sh long.sh", "./a.out", "node bad.py", "awk -f bad.py"),
    ],
)  # fmt: skip
def test_a_file_that_was_written_before_is_read_as_shell_or_asked_about_when_it_is_run(command: str) -> None:
    assert judged(command).verdict == "safe"
    assert judged(command, written=_WRITTEN).verdict == "ask"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sh good.sh",
            "./good.sh",
            "source good.sh",
            "cat bad.sh",
            "ls -l bad.py",
            "grep rm bad.sh",
            "git add bad.sh",
        ),
        *("sh itself.sh", "wc -l bad.py", "sh /other/bad.sh", "chmod +x bad.sh", "cp bad.sh copy.sh", "pytest -q"),
    ],
)
def test_a_harmless_script_and_a_file_that_is_not_run_are_not(command: str) -> None:
    found = judged(command, written=_WRITTEN)
    assert (found.verdict, found.reasons) == ("safe", ())


def test_the_rules_of_a_file_that_is_run_are_told() -> None:
    assert judged("./bad.sh", written=_WRITTEN).rules == (Rule("recursive-delete", "/srv/data/x"),)
    assert judged("python3 good.py", written=_WRITTEN).rules == (Rule("run-written", "/home/me/proj"),)


def test_what_a_file_runs_is_never_run_if_nothing_overrides_it() -> None:
    assert judged("./x", written={"/home/me/proj/x": "rm -rf ~\n"}).verdict == "block"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat /srv/hermes/state.db",
            "cp /srv/hermes/keys x",
            "echo x > /srv/hermes/config.yaml",
            "rm /srv/hermes/state.db",
        ),
        *("cat /srv/her*/keys", "cd /srv/hermes; cat keys", "cat < /srv/hermes/keys", "tee -a /srv/hermes/SOUL.md < x"),
        *(
            "sqlite3 /srv/hermes/state.db .dump",
            "cat /srv/hermes/image_cache/../keys",
            "frob --db=/srv/hermes/state.db",
        ),
    ],
)
def test_the_real_home_of_hermes_is_protected_wherever_it_is(command: str) -> None:
    elsewhere: dict[str, Any] = {"cwd": "/w", "home": "/home/me", "is_there": lambda path: False}
    assert judge(command, **elsewhere).verdict == "safe"
    assert (
        judge(command, **elsewhere, guarded=["/srv/hermes"], open_folders=["/srv/hermes/image_cache"]).verdict == "ask"
    )


def test_reading_the_home_of_hermes_is_never_granted_for_good() -> None:
    found = judge("cat /srv/hermes/approvals.key", cwd="/w", guarded=["/srv/hermes"])
    assert [(rule.name, rule.is_grantable) for rule in found.rules] == [("read-own-home", False)]


def test_folders_of_the_home_that_are_for_anybody_are_not_protected() -> None:
    guarded: dict[str, Any] = {"guarded": ["/srv/hermes"], "open_folders": ["/srv/hermes/image_cache"]}
    assert (
        judge("file /srv/hermes/image_cache/a.png; cat /srv/hermes/image_cache/a", cwd="/w", **guarded).verdict
        == "safe"
    )


def test_what_is_never_run_is_told_first() -> None:
    assert judged("rm -rf build; rm -rf /").reasons[0].startswith("it deletes /,")
