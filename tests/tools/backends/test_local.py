"""Commands on this machine: what they get to know, what is seen of them, and that nothing of them is left."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hermes_config.settings import TerminalSettings
from tests.programs import needs
from tests.thorough import a_few_of
from tests.tools.backends.watching import command_lines, is_there, nap, until
from tools.backends import background, supervised
from tools.backends.base import BackendFailed, Command, ProcessHandle, ProcessStatus
from tools.backends.local import LocalBackend
from tools.backends.supervisor_child import UNKEPT_BYTES_PER_SECOND

MEMORY_OF_A_KEEPER_KB = 60_000


@pytest.fixture
def backend(tmp_path: Path) -> LocalBackend:
    return LocalBackend(workspace=tmp_path, outputs=tmp_path / "outputs")


# What it gives back.


async def test_both_streams_come_in_their_order_with_the_exit_code(backend: LocalBackend) -> None:
    finished = await backend.run(Command(text="echo one; echo two >&2; echo three; exit 3"))
    assert (finished.output, finished.exit_code, finished.timed_out) == ("one\ntwo\nthree\n", 3, False)
    assert (finished.full_output, finished.note) == ("", "")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (Command(text="pwd -P", workdir="/"), "/\n"),
        (Command(argv=("printf", "%s", "$HOME; it's")), "$HOME; it's"),
        (Command(text="echo $GREETING", environment={"GREETING": "hello"}), "hello\n"),
        (Command(text="cat; echo end"), "end\n"),
        (Command(text="cat", stdin=b"given\n" * 50_000), "given\n" * 50_000),
        (Command(text="true", stdin=b"nobody reads this" * 50_000), ""),
        (Command(text=r"printf 'caf\303\251 \377\n'"), "café \ufffd\n"),
        (Command(text="tty || true"), "not a tty\n"),
        (Command(text="read x; echo got:$x", stdin=b"yes\n", pty=True), "yes\r\ngot:yes\r\n"),
        pytest.param(
            Command(text="ps -o pid=,sid= -p $$ | awk '{print $1 == $2}'"), "1\n", marks=needs("procps"), id="session"
        ),
    ],
)
async def test_a_command_is_run_as_it_is_said(backend: LocalBackend, command: Command, output: str) -> None:
    assert (await backend.run(replace(command, max_output_chars=1_000_000))).output == output


async def test_one_that_a_signal_ends_says_so_as_a_shell_does(backend: LocalBackend) -> None:
    assert (await backend.run(Command(text="kill -9 $$"))).exit_code == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Command(argv=("no-such-program",)), r"no such file or directory \(no-such-program\)"),
        (Command(text="true", workdir="/no/such/folder"), r"no such file or directory \(/no/such/folder\)"),
        (Command(text="  "), "no command to run"),
        (Command(text="echo " + "x" * 200_000), "longer than 131,000 bytes"),
        (Command(argv=("echo", "\0")), "contains a NUL"),
    ],
)
async def test_what_cannot_be_started_is_said_in_words(backend: LocalBackend, command: Command, words: str) -> None:
    with pytest.raises(BackendFailed, match=words):
        await backend.run(command)
    assert list(backend.outputs.glob("*")) == []


async def test_of_a_long_output_head_and_tail_are_shown_and_the_whole_is_in_a_file(backend: LocalBackend) -> None:
    finished = await backend.run(Command(text="seq 100000", max_output_chars=1_000))
    assert finished.output.startswith("1\n2\n")
    assert finished.output.endswith("99999\n100000\n")
    assert "of output omitted" in finished.output
    assert len(finished.output) < 1_100
    whole = await backend.files.read(finished.full_output, max_bytes=1_000_000)
    assert whole.content == b"".join(b"%d\n" % number for number in range(1, 100_001))


async def test_only_so_many_long_outputs_are_kept(backend: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "MAX_KEPT_OUTPUTS", 2)
    outputs = [await backend.run(Command(text="seq 1000", max_output_chars=10)) for _ in range(4)]
    assert [Path(one.full_output).exists() for one in outputs] == [False, False, True, True]


async def test_the_output_of_one_that_still_runs_makes_no_room(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(supervised, "MAX_KEPT_OUTPUTS", 1)
    text = "echo begun; until [ -e go ]; do sleep 0.01; done; echo done"
    running = asyncio.create_task(backend.run(Command(text=text)))
    await until(lambda: list(backend.outputs.glob("cmd_*/output.*")))
    for _ in range(3):
        await backend.run(Command(text="seq 1000", max_output_chars=10))
        await backend.keep("a long text")
    (tmp_path / "go").touch()
    assert (await running).output == "begun\ndone\n"
    assert len(list(backend.outputs.iterdir())) == 1


async def test_output_without_end_needs_neither_memory_nor_disk_without_end(backend: LocalBackend) -> None:
    largest, began = 0, time.monotonic()
    running = asyncio.create_task(backend.run(Command(text="yes", timeout_seconds=3, max_output_chars=1_000)))
    while not (await asyncio.wait({running}, timeout=0.05))[0]:
        largest = max(largest, *map(peak_memory_kb, keepers(backend)), 0)
    finished = running.result()
    assert finished.timed_out
    unkept = finished.output_bytes - supervised.MAX_KEPT_BYTES
    assert 0 < unkept < UNKEPT_BYTES_PER_SECOND * (time.monotonic() - began)  # it takes no processor for itself
    assert 0 < largest < MEMORY_OF_A_KEEPER_KB
    on_disk = sum(file.stat().st_size for file in Path(finished.full_output).parent.iterdir())
    assert on_disk < supervised.MAX_KEPT_BYTES + 3 * supervised.KEPT_TAIL_BYTES
    assert "the first 10.0 MB are kept" in finished.note


async def test_a_command_gives_way_to_us(backend: LocalBackend) -> None:
    finished = await backend.run(Command(text="nice"))
    assert int(finished.output) == min(os.nice(0) + 10, 19)


def keepers(backend: LocalBackend) -> list[int]:
    return [pid for pid, line in command_lines() if b"supervisor_child" in line and parent_of(pid) == os.getpid()]


def parent_of(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def peak_memory_kb(pid: int) -> int:
    with suppress(OSError):
        if found := re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
            return int(found[1])
    return 0


# What it gets to know.


async def test_variables_that_the_operator_names_are_passed_on_from_either_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".env").write_text("FAL_KEY=from-the-file\n")
    monkeypatch.setenv("GITHUB_TOKEN", "from-around-us")
    settings = TerminalSettings(env_passthrough=("FAL_KEY", "GITHUB_TOKEN", "NOT_SET"))
    backend = LocalBackend(workspace=tmp_path, settings=settings)
    told = (await backend.run(Command(text="echo $FAL_KEY $GITHUB_TOKEN ${NOT_SET-unset}"))).output
    assert told == "from-the-file from-around-us unset\n"


def test_our_memory_is_closed_to_commands_of_our_own_user(tmp_path: Path) -> None:
    """In a process of its own, since it is for good. What it keeps from whom is the kernel's business."""
    code = (
        "import asyncio, ctypes, pathlib\n"
        "from tools.backends.base import Command\n"
        "from tools.backends.local import LocalBackend\n"
        "before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)\n"
        f"asyncio.run(LocalBackend(workspace=pathlib.Path({str(tmp_path)!r})).run(Command(text='true')))\n"
        "print(before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1 0\n"


# That nothing is left of it. Each leaves a nap behind in a way of its own.

LEAVERS = {
    "as itself": "{nap}",
    "in the background": "{nap} &",
    "in a pipeline": "{nap} | cat | cat",
    "in a subshell's background": "({nap} &)",
    "deaf to hang-ups": "nohup {nap} >/dev/null 2>&1 &",
    "in a session of its own": "setsid {nap} &",
    "forked twice, into a session": "(setsid sh -c '({nap} &) ; exit 0' &)",
    "deaf to TERM": "(trap '' TERM; {nap}) &",
    "deaf to TERM, in a session of its own": "(setsid sh -c 'trap \"\" TERM; {nap}' &)",
    "stopped": "{nap} & until head -c 5 /proc/$!/cmdline | grep -q sleep; do :; done; kill -STOP $!",
    "with its output closed": "{nap} >&- 2>&- <&- &",
}


@pytest.mark.parametrize("how", LEAVERS.values(), ids=LEAVERS)
async def test_when_its_time_is_up_nothing_is_left(backend: LocalBackend, how: str) -> None:
    left = nap()
    finished = await backend.run(Command(text=f"{how.format(nap=left)}\n{nap()}", timeout_seconds=0.4))
    assert finished.timed_out
    assert not is_there(left)


@pytest.mark.parametrize(
    ("how", "pty"),
    [*((how, False) for how in LEAVERS.values()), *a_few_of([(how, True) for how in LEAVERS.values()], 4)],
)
async def test_when_nobody_waits_any_longer_nothing_is_left(backend: LocalBackend, how: str, pty: bool) -> None:
    left = nap()
    running = asyncio.create_task(backend.run(Command(text=f"{how.format(nap=left)}\n{nap()}", pty=pty)))
    await until(lambda: is_there(left))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_there(left)
    assert list(backend.outputs.iterdir()) == []


async def test_who_takes_too_long_over_its_end_is_not_waited_for_after_a_stop(backend: LocalBackend) -> None:
    late = backend.outputs.parent / "late"
    text = f"trap 'sleep 1.5; touch {late}; exit' TERM; {(left := nap())} & wait"
    running = asyncio.create_task(backend.run(Command(text=text)))
    await until(lambda: is_there(left))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not late.exists()


@needs("procps")
@pytest.mark.parametrize("how", [how for how in LEAVERS if how not in ("as itself", "in a pipeline")])
async def test_what_a_command_leaves_at_its_end_is_ended_and_told(backend: LocalBackend, how: str) -> None:
    left = nap()
    command = LEAVERS[how].format(nap=left)
    finished = await backend.run(Command(text=f"{command}\nuntil pgrep -fx '{left}'; do :; done >/dev/null; echo done"))
    assert (finished.output.splitlines()[-1], finished.exit_code) == ("done", 0)
    assert "start such processes with background=true" in finished.note
    assert not is_there(left)


async def test_commands_do_not_end_each_others_children(backend: LocalBackend) -> None:
    mine, others = nap(), nap()
    other = asyncio.create_task(backend.run(Command(text=f"(setsid {others} &); {nap()}")))
    await until(lambda: is_there(others))
    await backend.run(Command(text=f"(setsid {mine} &); {nap()}", timeout_seconds=0.3))
    assert is_there(others)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert not is_there(others)


async def test_a_disk_that_takes_no_more_neither_stops_nor_leaves_a_command(backend: LocalBackend) -> None:
    """Its folder is taken away under it, so that no piece of its output can be begun."""
    go, left = backend.outputs.parent / "go", nap()
    text = f"(setsid {left} &); until [ -e {go} ]; do sleep 0.01; done; seq 100000; exit 5"
    running = asyncio.create_task(backend.run(Command(text=text)))
    await until(lambda: is_there(left))
    for folder in backend.outputs.iterdir():
        folder.rmdir()
    go.touch()
    finished = await running
    assert (finished.exit_code, finished.output_bytes) == (5, 588_895)
    assert "could not be stored" in finished.output
    assert not is_there(left)


async def test_when_we_are_killed_the_command_we_waited_for_is_ended(tmp_path: Path) -> None:
    left = nap()
    ours = await asyncio.create_subprocess_exec(sys.executable, "-c", RUNNING, str(tmp_path), f"(setsid {left} &); cat")
    await until(lambda: is_there(left))
    ours.kill()
    await ours.wait()
    await until(lambda: not is_there(left))


RUNNING = """
import asyncio, pathlib, sys
from tools.backends.base import Command
from tools.backends.local import LocalBackend
backend = LocalBackend(workspace=pathlib.Path(sys.argv[1]), outputs=pathlib.Path(sys.argv[1]) / "outputs")
asyncio.run(backend.run(Command(text=sys.argv[2] + "; sleep 1000")))
"""


# What goes on without us.

SPAWNING = """
import asyncio, dataclasses, json, pathlib, sys
from tools.backends.base import Command
from tools.backends.local import LocalBackend
folder = pathlib.Path(sys.argv[1])
backend = LocalBackend(workspace=folder, outputs=folder / "outputs")
command = Command(text='while read line; do echo "heard $line"; [ $line = end ] && exit 7; done', interactive=True)
print(json.dumps(dataclasses.asdict(asyncio.run(backend.spawn(command)))))
"""


async def test_a_spawned_child_outlives_us_and_is_found_again(backend: LocalBackend, tmp_path: Path) -> None:
    ours = subprocess.run([sys.executable, "-c", SPAWNING, str(tmp_path)], capture_output=True, text=True, check=True)
    handle = ProcessHandle(**json.loads(ours.stdout))
    assert (await backend.statuses([handle]))[handle.id].is_running
    await backend.write(handle, b"hello\n")
    await until(lambda: background.status(handle).output_bytes)
    assert (await backend.read(handle)).content == b"heard hello\n"
    await backend.write(handle, b"end\n")
    await until(lambda: not background.status(handle).is_running)
    standing = (await backend.statuses([handle]))[handle.id]
    assert (standing.exit_code, standing.output_bytes) == (7, len(b"heard hello\nheard end\n"))
    assert (await backend.read(handle, since=12)).content == b"heard end\n"
    with pytest.raises(BackendFailed, match="takes no input"):
        await backend.write(handle, b"still there?\n")
    await backend.forget(handle)
    assert not Path(handle.data["folder"]).exists()


async def test_killing_a_spawned_child_ends_all_its_children(backend: LocalBackend) -> None:
    left = nap()
    handle = await backend.spawn(Command(text=f"(setsid {left} &); {nap()}"))
    await until(lambda: is_there(left))
    await backend.forget(handle)  # does nothing while it runs
    await backend.kill(handle)
    assert not is_there(left)
    standing = (await backend.statuses([handle]))[handle.id]
    assert standing == ProcessStatus(is_running=False, exit_code=143, ended_ms=standing.ended_ms)
    await backend.kill(handle)


async def test_a_process_that_only_has_the_same_number_is_left_alone(backend: LocalBackend) -> None:
    handle = await backend.spawn(Command(text=nap()))
    earlier = {**handle.data, "supervisor_started": handle.data["supervisor_started"] - 1}
    somebody_else = replace(handle, id="proc_before", data=earlier)
    assert not (await backend.statuses([somebody_else]))[somebody_else.id].is_running
    await backend.kill(somebody_else)
    assert (await backend.statuses([handle]))[handle.id].is_running
    await backend.kill(handle)


async def test_of_a_talkative_child_the_beginning_and_the_latest_are_kept(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "BACKGROUND_HEAD_BYTES", 1_000)
    monkeypatch.setattr(supervised, "BACKGROUND_TAIL_BYTES", 10_000)
    handle = await backend.spawn(Command(text="seq -f %09.0f 10000"))  # ten bytes a line
    await until(lambda: not background.status(handle).is_running)
    assert (await backend.statuses([handle]))[handle.id].output_bytes == 100_000
    beginning = await backend.read(handle)
    assert (beginning.start, beginning.end, beginning.content[:10]) == (0, 1_000, b"000000001\n")
    latest = await backend.read(handle, since=beginning.end)
    assert latest.end == 100_000
    assert 10_000 <= latest.end - latest.start <= 20_000
    assert latest.content == b"".join(b"%09d\n" % number for number in range(1, 10_001))[latest.start :]
    assert (await backend.read(handle, since=100_000)).content == b""
    assert (await backend.read(handle, since=99_990, max_bytes=4)).content == b"0000"


async def test_a_child_with_a_terminal_sees_one_and_can_be_talked_to(backend: LocalBackend) -> None:
    handle = await backend.spawn(
        Command(text="test -t 0 && test -t 1 && read answer && echo got:$answer", interactive=True, pty=True)
    )
    await backend.write(handle, b"yes\n")
    await until(lambda: not background.status(handle).is_running)
    assert (await backend.statuses([handle]))[handle.id].exit_code == 0
    assert b"got:yes\r\n" in (await backend.read(handle)).content


async def test_a_spawned_child_may_have_a_time_limit(backend: LocalBackend) -> None:
    handle = await backend.spawn(Command(text=nap(), timeout_seconds=0.2))
    await until(lambda: not background.status(handle).is_running)
    assert (await backend.statuses([handle]))[handle.id].exit_code == 143


async def test_what_cannot_be_spawned_is_said_and_leaves_no_folder(backend: LocalBackend) -> None:
    with pytest.raises(BackendFailed, match="no-such-program"):
        await backend.spawn(Command(argv=("no-such-program",)))
    assert list(backend.outputs.iterdir()) == []


def test_a_spawned_child_can_be_written_down() -> None:
    handle = ProcessHandle(id="proc_1", backend="local", data={"pid": 2, "folder": "/x"})
    assert ProcessHandle(**json.loads(json.dumps(asdict(handle)))) == handle
