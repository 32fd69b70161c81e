"""The process tool, as a model calls it, over real processes."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from tests.tools.backends.watching import is_there, nap, until
from tests.tools.places import KINDS, Ask, asking, place_in
from tools.approval.gate import Gate, NobodyNeedsToBeAsked, NobodyToAsk
from tools.backends import background, supervised
from tools.backends.base import ProcessHandle, Workplace
from tools.base import BadArguments, ToolFailed
from tools.builtin import processes
from tools.builtin.processes import process_tools
from tools.builtin.terminal import TerminalRules
from tools.process_book import KEPT_MS, MAX_PROCESSES, Process, ProcessesInMemory, find_stale, now_ms


class Room:
    """Both tools over one book, for one holder."""

    def __init__(self, tmp_path: Path, kind: str = "local", gate: Gate | None = None, **rules: Any) -> None:
        self.book = ProcessesInMemory()
        self.tools = process_tools(self.book, TerminalRules(**rules))
        self.gate = gate or NobodyToAsk()
        self.enter(place_in(tmp_path, kind))

    def enter(self, place: Workplace) -> None:
        self.place = place
        self.terminal, self.process = (asking(tool, place, gate=self.gate) for tool in self.tools)

    async def start(self, command: str, **arguments: Any) -> str:
        told = await self.terminal(command=command, background=True, **arguments)
        assert told["session_id"].startswith("proc_")
        return str(told["session_id"])

    async def told(self, which: str, words: str) -> str:
        """What it wrote, once those words are among it."""
        output = ""
        async with asyncio.timeout(30):
            while words not in output:
                output += (await self.process(action="poll", session_id=which))["output"]
                await asyncio.sleep(0.01)
        return output

    async def standing_at(self, which: str, output_bytes: int) -> dict[str, Any]:
        """A poll, once it has written so much."""
        found = await self.book.find(self.place.holder, which)
        assert found is not None
        await until(lambda: background.status(found.handle).output_bytes == output_bytes)
        return await self.process(action="poll", session_id=which)

    async def end_all(self) -> None:
        for process in await self.book.read_all(self.place.holder):
            await self.place.backend.kill(process.handle)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    room = Room(tmp_path)
    yield room
    await room.end_all()


async def refusal(ask: Ask, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as refused:
        await ask(**arguments)
    return str(refused.value)


# Looking.


async def test_one_that_was_started_is_listed_until_it_ends(room: Room) -> None:
    await room.terminal(command="export NAME=ann; mkdir a; cd a")
    which = await room.start('pwd; echo "$NAME"; read line; exit 3')
    (listed,) = (await room.process(action="list"))["processes"]
    assert listed == {
        "session_id": which,
        "command": 'pwd; echo "$NAME"; read line; exit 3',
        "status": "running",
        "pid": listed["pid"],
        "workdir": f"{room.place.workspace}/a",
        "seconds": listed["seconds"],
    }
    await room.process(action="submit", session_id=which)
    ended = await room.process(action="wait", session_id=which)
    output = f"{room.place.workspace}/a\nann\n"
    assert ended == {"session_id": which, "status": "exited", "exit_code": 3, "output": output}
    (listed,) = (await room.process(action="list"))["processes"]
    assert (listed["status"], listed["exit_code"]) == ("exited", 3)


async def test_a_poll_gives_what_is_new(room: Room) -> None:
    which = await room.start("echo one; read line; echo $line; read line")
    assert await room.told(which, "one\n") == "one\n"
    assert await room.process(action="poll", session_id=which) == {
        "session_id": which,
        "status": "running",
        "output": "",
    }
    await room.process(action="submit", session_id=which, data="two")
    assert await room.told(which, "two") == "two\n"


async def test_what_is_half_there_waits_for_its_rest(room: Room) -> None:
    which = await room.start(r"printf '\303'; read line; printf '\251\n\033['; read line; printf '31mred\377'")
    assert (await room.standing_at(which, 1))["output"] == ""
    await room.process(action="submit", session_id=which)
    assert (await room.standing_at(which, 5))["output"] == "é\n"
    await room.process(action="submit", session_id=which)
    assert (await room.process(action="wait", session_id=which))["output"] == "red\ufffd"


async def test_colours_are_left_out_unless_they_are_asked_for(room: Room) -> None:
    which = await room.start(r"printf '\033[31mred\033[0m\n'")
    await room.process(action="wait", session_id=which)
    assert (await room.process(action="log", session_id=which))["output"] == "red"
    assert (await room.process(action="log", session_id=which, raw=True))["output"] == "\x1b[31mred\x1b[0m"


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [({}, 301, 500), ({"offset": 1}, 1, 200), ({"offset": 10, "limit": 3}, 10, 12), ({"limit": 1}, 500, 500)],
)
async def test_the_log_gives_lines(room: Room, arguments: dict[str, int], first: int, last: int) -> None:
    which = await room.start("seq 500")
    await room.process(action="wait", session_id=which)
    log = await room.process(action="log", session_id=which, **arguments)
    assert log["output"].splitlines() == [str(number) for number in range(first, last + 1)]
    assert (log["total_lines"], log["offset"]) == (500, first)


async def test_of_a_flood_head_and_tail_are_shown_and_the_rest_is_told(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "BACKGROUND_HEAD_BYTES", 1_000)
    monkeypatch.setattr(supervised, "BACKGROUND_TAIL_BYTES", 1_000)
    which = await room.start("seq -f %09.0f 1000")
    await room.process(action="wait", session_id=which)
    lines = (await room.process(action="log", session_id=which, offset=1, limit=2000))["output"].splitlines()
    assert (lines[0], lines[99], lines[-1]) == ("000000001", "000000100", "000001000")
    assert lines[101] == "[… 7 KB of output no longer stored …]"
    monkeypatch.setattr(processes, "MAX_SHOWN_CHARS", 100)
    log = await room.process(action="log", session_id=which)
    assert log["output"].endswith("\n000001000")
    assert "ask for fewer lines" in log["note"]
    await room.book.mark_polled(which, 0)
    poll = await room.process(action="poll", session_id=which)
    assert poll["output"].startswith("000000001\n")
    assert "log has them" in poll["note"]


# Waiting.


async def test_waiting_ends_with_its_time_which_is_clamped(tmp_path: Path) -> None:
    room = Room(tmp_path, timeout_seconds=0.1, max_timeout_seconds=0.2)
    which = await room.start("echo up; " + nap())
    await room.told(which, "up")
    told = await room.process(action="wait", session_id=which, timeout=9999)
    words = "The timeout was reduced to 0.2 s, the longest allowed. Still running after 0.2 s."
    assert told == {"session_id": which, "status": "running", "output": "", "note": words}
    await room.end_all()


@pytest.mark.parametrize("action", ["wait", "poll", "kill", "submit"])
async def test_only_a_call_that_waits_takes_no_slot_from_others(room: Room, action: str) -> None:
    terminal, process = room.tools
    assert process.only_waits(json.dumps({"action": action, "session_id": "wait"})) == (action == "wait")
    assert not terminal.only_waits(json.dumps({"command": "sleep 6"}))


async def test_waiting_ends_when_the_user_writes(room: Room) -> None:
    wrote = asyncio.Event()
    which = await room.start("echo up; " + nap())
    waiting = asyncio.ensure_future(
        asking(room.tools[1], room.place, user_wrote=wrote)(action="wait", session_id=which, timeout=600)
    )
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    wrote.set()
    async with asyncio.timeout(30):
        told = await waiting
    assert told["status"] == "running"
    assert told["note"].startswith("The user has sent a message")


# Talking to it.


@pytest.mark.parametrize("kind", KINDS)
async def test_a_terminal_can_be_driven_like_one(tmp_path: Path, kind: str) -> None:
    """A Python prompt: an expression, an unfinished line, Ctrl-C, a password that is not shown, the end."""
    room = Room(tmp_path, kind, gate=NobodyNeedsToBeAsked())
    which = await room.start("PYTHON_BASIC_REPL=1 /usr/bin/python3 -q", pty=True)
    await room.told(which, ">>> ")
    await room.process(action="submit", session_id=which, data="6 * 7")
    assert "\n42\n" in await room.told(which, "42\n>>> ")
    await room.process(action="submit", session_id=which, data="import time, getpass")
    await room.told(which, "\n>>> ")  # interrupted in the middle of an import it may go on all the same
    # Many short naps: a Ctrl-C that comes right before a long one is not heard until that is over.
    await room.process(action="write", session_id=which, data="print(4100 + 100); [time.sleep(.01) for _ in iter")
    await room.process(action="submit", session_id=which, data="(int, 1)]")
    await room.told(which, "4200\n")
    await room.process(action="write", session_id=which, data="\u0003")
    assert "KeyboardInterrupt" in await room.told(which, "Interrupt\n>>> ")
    await room.process(action="submit", session_id=which, data="len(getpass.getpass('Code? '))")
    await room.told(which, "\nCode? ")
    await room.process(action="submit", session_id=which, data="secret")
    assert await room.told(which, "6\n>>> ") == "\n6\n>>> "
    await room.process(action="write", session_id=which, data="\u0004")
    assert (await room.process(action="wait", session_id=which))["exit_code"] == 0


async def test_what_has_ended_takes_no_input(room: Room) -> None:
    which = await room.start("true")
    await room.process(action="wait", session_id=which)
    assert "takes no input" in await refusal(room.process, action="submit", session_id=which, data="x")
    assert "nothing to write" in await refusal(room.process, action="write", session_id=which)


async def test_what_is_typed_is_looked_at_like_a_command(room: Room) -> None:
    which = await room.start("cat")
    for action in ("write", "submit"):
        assert "This was not done" in await refusal(room.process, action=action, session_id=which, data="rm -rf /")
    await room.process(action="submit", session_id=which, data="fine")
    assert await room.told(which, "fine") == "fine\n"


# Ending it.


@pytest.mark.parametrize("kind", KINDS)
async def test_killing_one_ends_its_whole_tree(tmp_path: Path, kind: str) -> None:
    room, left = Room(tmp_path, kind), nap()
    which = await room.start(f"(setsid {left} &); {nap()}")
    await until(lambda: is_there(left))
    told = await room.process(action="kill", session_id=which)
    assert told["status"] == "exited"
    assert told["exit_code"] in (143, 137)  # on a busy machine it may not hear in time that it shall end
    assert not is_there(left)
    assert (await room.process(action="kill", session_id=which))["status"] == "exited"


@needs("procps")
async def test_what_it_left_running_is_told_with_its_end(room: Room) -> None:
    left = nap()
    which = await room.start(f"{left} & until pgrep -fx '{left}'; do :; done; echo done")
    told = await room.process(action="wait", session_id=which)
    assert told["output"].endswith("done\n")
    assert told["note"].startswith("It left child processes running, which were ended;")
    assert not is_there(left)


async def test_what_could_not_be_ended_is_not_claimed_to_be(room: Room) -> None:
    """As a keeper writes it down that has met processes of root, which no test can start."""
    which = await room.start("cat")
    found = await room.book.find(room.place.holder, which)
    assert found is not None
    await room.place.backend.kill(found.handle)
    told = Path(found.handle.data["folder"]) / "ended"
    told.write_text(json.dumps(json.loads(told.read_text()) | {"stubborn": 2}))
    ended = await room.process(action="kill", session_id=which)
    assert ended["note"] == "2 of its processes could not be ended: they belong to another user."


async def test_one_that_cannot_be_written_down_is_ended(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(process: Process) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(room.book, "add", full)
    left = nap()
    with pytest.raises(OSError, match="disk full"):
        await room.terminal(command=left, background=True)
    assert not is_there(left)


# Whose it is, and how many.


async def test_nobody_sees_the_processes_of_others(room: Room, tmp_path: Path) -> None:
    which = await room.start("cat")
    mine = room.place
    room.enter(place_in(tmp_path, holder="somebody else"))
    assert (await room.process(action="list")) == {"processes": []}
    for action in ("poll", "log", "wait", "kill", "write", "submit"):
        said = await refusal(room.process, action=action, session_id=which, data="x")
        assert said == f"There is no process {which}. You have no background processes."
    room.enter(mine)
    said = await refusal(room.process, action="poll", session_id="proc_nobody")
    assert said == f"There is no process proc_nobody. Yours: {which}."
    assert "session_id is missing" in await refusal(room.process, action="kill")
    assert (await room.process(action="poll", session_id=which))["status"] == "running"


async def test_how_it_is_looked_after_is_written_down(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    which = await room.start("cat", check_interval=60, notify_on_complete=True)
    monkeypatch.setattr(room.book, "is_watched", True)
    told = await room.terminal(command="cat", background=True, check_interval=5)
    assert told["note"] == "New output is posted every 30 s, the shortest interval allowed."
    often, seldom = await room.book.read_all("me")
    assert (seldom.id, seldom.check_interval_seconds, seldom.notify_on_complete) == (which, 60, True)
    assert (often.check_interval_seconds, often.notify_on_complete, often.interactive) == (30, False, True)
    assert (often.task_id, often.handle.backend, often.handle.pid) == ("one", "local", told["pid"])


async def test_those_that_ended_long_ago_are_forgotten_with_their_output(room: Room) -> None:
    which = await room.start("echo kept")
    await room.process(action="wait", session_id=which)
    (ended,) = await room.book.read_all("me")
    await room.process(action="list")
    assert Path(ended.handle.data["folder"]).exists()
    await room.book.add(replace(ended, ended_ms=now_ms() - KEPT_MS - 1))
    assert (await room.process(action="list"))["processes"] == []
    assert not Path(ended.handle.data["folder"]).exists()


def row(name: str, **fields: Any) -> Process:
    return Process(
        handle=ProcessHandle(id=name, backend="local", data={}),
        holder="me",
        task_id="",
        command="",
        workdir="",
        started_ms=0,
        **fields,
    )


def test_there_is_room_for_so_many_and_the_oldest_of_the_ended_make_it() -> None:
    running = [row(f"r{number}") for number in range(MAX_PROCESSES - 2)]
    ended = [row(f"e{number}", ended_ms=1_000) for number in range(4)]
    assert [one.id for one in find_stale([*running, *ended], 1_000)] == ["e2", "e3"]
    assert [one.id for one in find_stale([*running, *ended], 1_000, making_room_for=1)] == ["e1", "e2", "e3"]
    assert [one.id for one in find_stale(ended, 1_001 + KEPT_MS)] == ["e0", "e1", "e2", "e3"]
    assert find_stale(running, 10**15) == []


async def test_more_than_so_many_at_once_are_refused(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.builtin.terminal.MAX_PROCESSES", 1)
    await room.start("cat")
    said = await refusal(room.terminal, command="cat", background=True)
    assert said == "1 background processes are running already. Kill some first."


async def test_those_that_have_ended_unnoticed_take_no_room(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    async def left_to_who_watches(process_id: str, exit_code: int | None, *, seen: bool = True) -> bool:
        return False

    monkeypatch.setattr("tools.builtin.terminal.MAX_PROCESSES", 1)
    monkeypatch.setattr(room.book, "mark_ended", left_to_who_watches)
    await room.start("true")
    [ended] = await room.book.read_all("me")
    await until(lambda: not background.is_running(ended.handle))
    await room.start("cat")


@pytest.mark.parametrize("arguments", [{}, {"action": "dance"}, {"action": "log", "limit": 0}])
async def test_arguments_that_make_no_sense_are_refused(room: Room, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        await room.process(**arguments)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_terminal_can_be_made_larger(tmp_path: Path, kind: str) -> None:
    room = Room(tmp_path, kind)
    which = await room.start("trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done", pty=True)
    try:
        await room.told(which, "24 80")
        await room.process(action="write", session_id=which, size="120x40")
        await room.told(which, "40 120")
    finally:
        await room.end_all()


async def test_what_has_no_terminal_has_no_size(tmp_path: Path) -> None:
    room = Room(tmp_path)
    which = await room.start("sleep 100")
    try:
        with pytest.raises(ToolFailed, match="no terminal"):
            await room.process(action="write", session_id=which, size="120x40")
        with pytest.raises(BadArguments):
            await room.process(action="write", session_id=which, size="0x40")
    finally:
        await room.end_all()
