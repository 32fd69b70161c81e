"""The terminal tool, as a model calls it."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from tests.thorough import a_few_of
from tests.tools.places import KINDS, Ask, asking, place_in
from tools.approval.gate import Gate, NobodyNeedsToBeAsked, NobodyToAsk
from tools.backends.base import Workplace
from tools.backends.environment import child_environment
from tools.base import BadArguments, ToolFailed
from tools.builtin.processes import process_tools
from tools.builtin.terminal import TerminalRules
from tools.loading import load_builtin
from tools.process_book import ProcessesInMemory

CANARY = "canary-9f3b"
FILE_READ = next(tool for tool in load_builtin() if tool.name == "file_read")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return place_in(tmp_path)


@pytest.fixture
def ask(place: Workplace) -> Ask:
    return terminal(place, gate=NobodyNeedsToBeAsked())


def terminal(place: Workplace | None, gate: Gate | None = None, **rules: Any) -> Ask:
    tool, _ = process_tools(ProcessesInMemory(), TerminalRules(**rules))
    return asking(tool, place, gate=gate or NobodyToAsk())


async def refusal(ask: Ask, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as refused:
        await ask(**arguments)
    return str(refused.value)


# What comes of a command.


async def test_a_command_gives_output_error_and_exit_code(ask: Ask) -> None:
    assert await ask(command="echo one; echo two >&2; exit 3") == {
        "output": "one\ntwo\n",
        "error": None,
        "exit_code": 3,
    }


PLAIN = [
    *("true", "false", "exit 7", "(exit 5)", "set -e; false; echo not here", "f() { return 4; }; f"),
    "f() { exit 6; }; f",
    *("echo $?; false; echo $?", "set -x; echo traced; x=1", "set -ex; false", "set -euo pipefail; false | true"),
    *("set -u; echo $nothing", "if", "echo 'open", "echo )", "for i in 1 2; do echo $i; done", "no-such-command-here"),
    *("cat <<X\nhere $((1+1))\nX\necho end", "cat <<'X'\n$not\nX", "cat <<< word", "echo 'a'\\''b' \"c d\" $'e\\tf'"),
    *("echo a; # a comment", "echo last # comment", "echo one \\\n  two", "  \n echo white space \n\n"),
    "echo a &\nwait",
    *("echo $0 $# $-", "echo ${BASH_SOURCE[0]} $LINENO\necho $LINENO", "set -- a b; echo $2", "read x; echo got:$x:$?"),
    *("exec echo replaced", "exec >&- 2>&-; echo nobody hears", "kill -TERM $$", "kill -9 $$; echo no"),
    "trap 'echo bye' EXIT",
    *("trap 'echo bye; exit 9' EXIT; exit 3", "trap 'echo dbg' DEBUG; true", "trap 'echo err' ERR; false"),
    "set -o noclobber; true",
    *("unset PATH; ls", "PATH=; cd /; echo $PWD"),
    "pwd() { echo fake; }; printf() { echo fake; }; env() { echo fake; }",
    *("cd nowhere", "cd /; pwd; cd -", "alias x=y; shopt -s expand_aliases", "printf 'no newline'"),
    "printf 'caf\\303\\251\\n'",
    *("declare -p BASH_ENV", "env | grep -c BASH", "set -f; echo *", "IFS=x; a=1x2; echo $a", "ulimit -f 0; echo hi"),
    "set -n; echo",
    *("set -o posix; echo $POSIXLY_CORRECT", "return 3", "break", "sleep 0 & echo; jobs -p | wc -l"),
    "echo ${x?needed}; echo no",
]


@pytest.mark.parametrize("command", a_few_of(PLAIN, 10))
async def test_a_command_does_what_it_does_in_a_plain_shell(ask: Ask, place: Workplace, command: str) -> None:
    plain = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=place.workspace,
        env=child_environment() | {"PWD": place.workspace},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    told = await ask(command=command)
    code = plain.returncode
    assert (told["output"], told["exit_code"]) == (plain.stdout.decode(), code if code >= 0 else 128 - code)


async def test_colours_and_progress_bars_are_left_out(ask: Ask) -> None:
    told = await ask(command=r"printf '\033[31mred\033[0m\n 1%%\r99%%\n'")
    assert told["output"] == "red\n99%\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_too_long_can_be_read_from_a_file(tmp_path: Path, kind: str) -> None:
    place = place_in(tmp_path, kind)
    told = await terminal(place)(command="seq 100000")
    assert (told["output"][:4], told["output"][-7:]) == ("1\n2\n", "100000\n")
    assert "full_output" in told["note"]
    assert {file.name.partition(".")[0] for file in Path(told["full_output"]).parent.iterdir()} == {"output", "ended"}
    line = await asking(FILE_READ, place)(path=told["full_output"], offset=50_000, limit=1)
    assert line["content"] == " 50000|50000"


async def test_a_program_that_wants_a_terminal_gets_one(ask: Ask) -> None:
    told = await ask(command="test -t 0 && test -t 1 && stty size; echo $TERM", pty=True)
    assert (told["output"], told["exit_code"]) == ("24 80\nxterm-256color\n", 0)


async def test_when_its_time_is_up_what_came_so_far_is_given(ask: Ask, place: Workplace) -> None:
    told = await ask(command="cd /; export LATE=1; echo so far; exec 3>&1; sleep 100", timeout=1.5)
    assert (told["output"], told["exit_code"]) == ("so far\n", 124)
    assert told["error"] == "Timed out after 1.5 s; partial output follows."
    assert "background=true" in told["note"]
    assert (place.current_folder, place.environment) == (place.workspace, {})


async def test_a_timeout_that_is_too_long_is_shortened_and_told(place: Workplace) -> None:
    told = await terminal(place, timeout_seconds=0.1, max_timeout_seconds=0.3)(command="sleep 100", timeout=9999)
    assert told["exit_code"] == 124
    assert told["note"].startswith("The timeout was reduced to 0.3 s, the longest allowed.")
    assert (await terminal(place, timeout_seconds=0.2)(command="sleep 100"))["error"].startswith("Timed out after 0.2")


async def test_what_it_leaves_running_is_ended_and_told(ask: Ask) -> None:
    assert "start such processes with background=true" in (await ask(command="sleep 1000 & echo $!"))["note"]


@pytest.mark.parametrize("arguments", [{}, {"command": "ls", "timeout": 0}, {"command": "ls", "check_interval": -1}])
async def test_arguments_that_make_no_sense_are_refused(ask: Ask, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        await ask(**arguments)


async def test_an_empty_command_and_a_missing_place_are_said(ask: Ask) -> None:
    assert "no command to run" in await refusal(ask, command=" ")
    assert "no workplace" in await refusal(terminal(None), command="ls")


# What stays for the next one.

STAYS = [
    (["cd a", "pwd"], "{folder}/a\n"),
    (["cd a/b && cd ..", "cd -"], "{folder}/a/b\n"),
    (["cd link", "pwd; pwd -P"], "{folder}/link\n{folder}/a\n"),
    (["(cd a); bash -c 'cd a'", "pwd"], "{folder}\n"),
    (["cd a; exit 3", "pwd"], "{folder}/a\n"),
    (["set -e; cd a; false", "pwd"], "{folder}/a\n"),
    (["cd a; if", "pwd"], "{folder}\n"),
    (["cd a; exec true", "pwd"], "{folder}\n"),
    (["cd a; kill -9 $$", "pwd"], "{folder}\n"),
    (["cd a; trap 'true' EXIT", "pwd"], "{folder}\n"),
    (["cd a; pwd() { echo /; }; PWD=/usr", "pwd"], "{folder}/a\n"),
    (["export A='x  \"y\" $z\n'", 'echo "[$A]"'], '[x  "y" $z\n]\n'),
    (["export A=$'caf\\xc3\\xa9 \\xff'", 'printf %s "$A" | od -An -tx1'], " 63 61 66 c3 a9 20 ff\n"),
    (["export A=1", "A=2", "echo $A"], "2\n"),
    (["export A=1", "unset A", "echo ${A-gone}"], "gone\n"),
    (["A=1", "echo ${A-not exported}"], "not exported\n"),
    (["unset HOME", "unset X", "echo ${HOME-gone}"], "gone\n"),
    (["unset HOME", "export HOME=/x", "echo $HOME"], "/x\n"),
    (["export PATH=/nowhere", "ls 2>/dev/null || echo $PATH"], "/nowhere\n"),
    (["unset PATH", "export B=1", "echo $B ${PATH-gone}"], "1 gone\n"),
    (["f() { :; }; export -f f", "type f >/dev/null 2>&1 || echo none"], "none\n"),
    (["set -u -o noclobber; set -x; export A=1", "echo $A $-"], "1 hBc\n"),
    (["export UID=5 SHLVL=7 A=1", "echo $A"], "1\n"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("commands", "output"), a_few_of(STAYS, 6))
async def test_the_shell_goes_on_where_it_was(tmp_path: Path, kind: str, commands: list[str], output: str) -> None:
    place = place_in(tmp_path, kind)
    (Path(place.workspace) / "a" / "b").mkdir(parents=True)
    (Path(place.workspace) / "link").symlink_to("a")
    ask = terminal(place, gate=NobodyNeedsToBeAsked())
    told: dict[str, Any] = {}
    for command in commands:
        told = await ask(command=command)
    assert told["output"] == output.format(folder=place.workspace)
    assert not list((tmp_path / "private" / "tmp").glob(".shell*"))


async def test_commands_at_the_same_time_do_not_undo_each_other(ask: Ask, place: Workplace) -> None:
    await ask(command="mkdir a; export OLD=1 GONE=1")
    await asyncio.gather(ask(command="cd a"), ask(command="export A=1"), ask(command="unset GONE; export B=1"))
    told = await ask(command="pwd; echo $OLD ${GONE-gone} $A $B")
    assert told["output"] == f"{place.workspace}/a\n1 gone 1 1\n"


async def test_a_shell_that_does_not_tell_is_told(ask: Ask) -> None:
    assert "those from before" in (await ask(command="cd /; exec true"))["note"]
    assert "note" not in await ask(command="exec true")


async def test_more_variables_than_can_be_kept_are_not(ask: Ask, place: Workplace) -> None:
    told = await ask(command="cd /; export BIG=$(head -c 70000 /dev/zero | tr '\\0' x)")
    assert "exceed 64 KB" in told["note"]
    assert (place.current_folder, place.environment) == ("/", {})


async def test_a_folder_for_one_command_does_not_move_the_shell(ask: Ask, place: Workplace) -> None:
    await ask(command="mkdir -p a/b")
    told = await ask(command="pwd; cd b; export KEPT=1", workdir="a")
    assert told["output"] == f"{place.workspace}/a\n"
    assert (await ask(command="pwd; echo $KEPT"))["output"] == f"{place.workspace}\n1\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_folder_that_is_missing_is_said_and_nothing_is_run(tmp_path: Path, kind: str) -> None:
    place = place_in(tmp_path, kind)
    ask = terminal(place)
    assert "there is no folder" in await refusal(ask, command="touch x", workdir="nowhere")
    await ask(command="mkdir a; cd a; rmdir ../a")
    for background in (True, False):
        place.current_folder = f"{place.workspace}/a"
        said = await refusal(ask, command="touch x", background=background)
        assert "is gone" in said
        assert place.current_folder == place.workspace
    assert list(Path(place.workspace).iterdir()) == []


# What it gets to know.


@pytest.mark.parametrize("kind", KINDS)
async def test_no_secret_of_ours_reaches_a_command(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "SUDO_PASSWORD", "TELEGRAM_BOT_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, CANARY)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".env").write_text(f"FAL_KEY={CANARY}\nMINE={CANARY}\n")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    ask = terminal(place_in(tmp_path, kind), gate=NobodyNeedsToBeAsked(), sudo_password=CANARY)
    for pty in (True, False):
        command = "env; set; export -p; cat /proc/self/environ /proc/$PPID/environ /dev/fd/199"
        told = await ask(command=command, pty=pty)
        assert {"PATH", "HOME", "LC_ALL"} <= {line.partition("=")[0] for line in told["output"].splitlines()}
        assert CANARY not in str(told)


# A sudo that reads the password from its input, as the real one does with -S, and gives the rest to its command.
SUDO = """#!/bin/bash
echo "$@" >> {log}; env >> {log}
[ "$1" = -S ] || {{ echo "sudo: a terminal is required to read the password" >&2; exit 1; }}
shift 3
IFS= read -r given
[ "$given" = {password} ] || {{ echo "sudo: 1 incorrect password attempt" >&2; exit 1; }}
exec "$@"
"""
NO_PASSWORD_NEEDED = """#!/bin/bash
while [ "${1:0:1}" = - ]; do
  case "$1" in -v) exit 0;; -p) shift;; esac
  shift
done
exec "$@"
"""


@pytest.fixture
def with_sudo(place: Workplace, tmp_path: Path) -> Path:
    """Puts a sudo of ours on the PATH, and gives what it has written down."""
    install(place, SUDO.format(log=tmp_path / "sudo.log", password=CANARY))
    return tmp_path / "sudo.log"


def install(place: Workplace, sudo: str) -> None:
    file = Path(place.workspace) / "bin" / "sudo"
    file.parent.mkdir()
    file.write_text(sudo)
    file.chmod(0o755)
    place.environment["PATH"] = f"{file.parent}:{child_environment()['PATH']}"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("sudo echo done", "done\n"),
        ("echo data | sudo cat; echo $?", "data\n0\n"),
        ("set -e; sudo echo one && sudo echo two | sudo cat", "one\ntwo\n"),
        ("sudo bash -c 'exit 4' || echo $?", "4\n"),
        ("set -x; sudo true; set +x; declare -f sudo; set | grep -c canary", None),
    ],
)
async def test_sudo_gets_the_password_and_nobody_else_does(
    place: Workplace, with_sudo: Path, command: str, output: str | None
) -> None:
    told = await terminal(place, sudo_password=CANARY)(command=command)
    assert output is None or told["output"] == output
    assert CANARY not in str(told) + with_sudo.read_text() + str(place.environment)
    assert CANARY not in repr(TerminalRules(sudo_password=CANARY))


async def test_a_command_that_needs_no_password_does_not_find_it_in_its_input(place: Workplace) -> None:
    install(place, NO_PASSWORD_NEEDED)
    told = await terminal(place, sudo_password=CANARY)(command="echo data | sudo cat; sudo cat")
    assert told["output"] == "data\n"


async def test_without_a_password_a_failing_sudo_gets_a_tip(place: Workplace, with_sudo: Path) -> None:
    told = await terminal(place)(command="sudo echo done")
    assert "hermes config set SUDO_PASSWORD" in told["note"]
    assert "note" not in await terminal(place, sudo_password=CANARY)(command="sudo false")


async def test_a_wrong_password_is_seen_as_sudo_says_it(place: Workplace, with_sudo: Path) -> None:
    told = await terminal(place, sudo_password="wrong")(command="sudo echo done")
    assert (told["output"], told["exit_code"]) == ("sudo: 1 incorrect password attempt\n", 1)


# What is not run.


async def test_a_risky_command_is_refused_where_nothing_isolates(place: Workplace) -> None:
    (Path(place.workspace) / "precious").mkdir()
    for background in (True, False):
        said = await refusal(terminal(place), command="rm -rf precious", background=background)
        assert said.startswith("This was not done: it deletes ")
        assert "another way" in said
    assert (Path(place.workspace) / "precious").exists()
    assert (await terminal(place, gate=NobodyNeedsToBeAsked())(command="rm -rf precious"))["exit_code"] == 0
    assert not (Path(place.workspace) / "precious").exists()


@needs("bubblewrap")
async def test_in_a_sandbox_risky_commands_run(tmp_path: Path) -> None:
    told = await terminal(place_in(tmp_path, "bubblewrap"), sudo_password=CANARY)(
        command="mkdir x; rm -rf x; ls; sudo true; cat /dev/fd/199"
    )
    assert "sudo: " in told["output"]
    assert CANARY not in str(told)
