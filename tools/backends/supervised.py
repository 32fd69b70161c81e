"""Commands on this machine, each looked after by a keeper: a process of its own that outlives us if it shall.

One that is waited for has a lifeline: when we are gone, killed even, its keeper ends it and all its children.
"""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hermes_config.places import make_private
from tools.backends.base import BackendFailed, Finished, OutputChunk, ProcessStatus, ShellState, Spawned, WriteDown
from tools.backends.shell import MAX_REPORT_BYTES, Shell, read_report, start_up
from tools.backends.supervisor_child import GIVE_UP_SECONDS
from tools.content import in_bytes

MAX_KEPT_BYTES = 10_000_000
MAX_KEPT_OUTPUTS = 50
KEPT_TAIL_BYTES = 1_000_000  # of what is longer than that
SPAWNED_HEAD_BYTES = 65_536
SPAWNED_TAIL_BYTES = 200_000
_KEEPER = Path(__file__).with_name("supervisor_child.py")
_MAX_ARGUMENT_BYTES = 131_000  # what the kernel takes as one argument
_MAX_LINE_BYTES = 65_536
_START_UP = "start_up"
_ENDED = "ended"  # written by a keeper when all is over
_ABANDONED_SECONDS = 172_800  # no command may take so long: one without that was left by a keeper that was killed
_MARK = (
    "HERMES_PROCESS"  # in the environment of what is spawned: by its id all its children are found, without a keeper
)
_SWEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a keeper is told: a command as the kernel takes it, with its limits."""

    argv: Sequence[str]
    workdir: str
    environment: Mapping[str, str]
    timeout_seconds: float | None
    stdin: bytes = b""
    interactive: bool = False
    pty: bool = False
    takes_terminal: bool = True  # False where the command does so itself, in a session of its own
    rlimits: Mapping[str, int] = field(default_factory=dict)
    cgroups: Sequence[str] = ()
    niceness: int = 10
    is_walled_in: bool = False  # `argv` makes a pid namespace: what is in it ends with the process that made it
    shell: Shell | None = None  # of a command that bash is given
    sudo_password: str = field(default="", repr=False)


async def run(order: Order, outputs: Path, *, max_output_chars: int, keeps_output: bool = True) -> Finished:
    """Raises BackendFailed. What is longer than `max_output_chars` stays in a file below `outputs`."""
    folder = _new_folder(outputs, "cmd")
    report = _report_of(order, folder)
    done = False
    try:
        process = await _keeper(order, folder, outlives_us=False)
        try:
            await _begun(process)
            assert process.stdout is not None
            told = await process.stdout.readline()
        finally:
            await _ended(process)
        result = _understood(told)
        finished = await asyncio.to_thread(_collected, result, folder, max_output_chars)
        if report and not finished.timed_out:
            finished = replace(finished, shell=await asyncio.to_thread(_reported, report, order.environment))
        done = bool(finished.full_output) and keeps_output
        if done:
            await asyncio.to_thread(_prune, outputs)
        return finished if keeps_output else replace(finished, full_output="")
    finally:
        for file in filter(None, (report, folder / _START_UP)):
            with contextlib.suppress(OSError):
                file.unlink()
        if not done:
            shutil.rmtree(folder, ignore_errors=True)


def keep(text: str, outputs: Path) -> str:
    """As if a command had written it. Raises BackendFailed."""
    folder = _new_folder(outputs, "cmd")
    file = folder / "output.000000000000000"
    try:
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8", errors="replace")
        (folder / _ENDED).touch()
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise BackendFailed(f"It could not be kept ({error.strerror}).") from error
    _prune(outputs)
    return str(file)


async def spawn(order: Order, outputs: Path, write_down: WriteDown) -> Spawned:
    """Until `write_down` has returned it ends with us, and when that fails: nobody else would know of it."""
    folder = _new_folder(outputs, "proc")
    try:
        process = await _keeper(order, folder, outlives_us=True)
        try:
            begun = await _begun(process)
            spawned = Spawned(
                id=folder.name,
                pid=int(begun["pid"]),
                keeper_pid=int(begun["keeper"]),
                keeper_started=int(begun["started"]),
                folder=str(folder),
            )
            await write_down(spawned)
        except BaseException:
            await _ended(process)
            raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    assert process.stdin is not None
    process.stdin.write(b"\n")  # lets it go
    await _ended(process)
    return spawned


def standing(spawned: Spawned) -> ProcessStatus:
    pieces = _pieces(Path(spawned.folder))
    total = pieces[-1][0] + pieces[-1][1].stat().st_size if pieces else 0
    if is_running(spawned):
        return ProcessStatus(is_running=True, output_bytes=total)
    try:
        told = Path(spawned.folder) / _ENDED
        ended = json.loads(told.read_text(encoding="utf-8"))
        return ProcessStatus(
            is_running=False,
            exit_code=int(ended["exit_code"]),
            output_bytes=int(ended["output_bytes"]),
            ended_ms=told.stat().st_mtime_ns // 1_000_000,
            note=_about_children(ended, "a command in the background must not end before them."),
        )
    except (OSError, ValueError, KeyError):
        return ProcessStatus(is_running=False, output_bytes=total)


def output(spawned: Spawned, *, since: int, max_bytes: int) -> OutputChunk:
    """From the first byte at or after `since` that is still kept."""
    content = bytearray()
    start = since
    for position, file in _pieces(Path(spawned.folder)):
        try:
            with file.open("rb") as piece:
                size = os.fstat(piece.fileno()).st_size
                if position + size <= since or len(content) >= max_bytes:
                    continue
                if content and position != start + len(content):
                    break  # the middle is gone: it is for the next question
                if not content:
                    start = max(since, position)
                piece.seek(start + len(content) - position)
                content += piece.read(max_bytes - len(content))
        except FileNotFoundError:  # removed by its keeper meanwhile
            continue
    return OutputChunk(content=bytes(content), start=start, end=start + len(content))


def send(spawned: Spawned, data: bytes) -> None:
    try:
        descriptor = os.open(Path(spawned.folder) / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BackendFailed("This process takes no input: it has ended, or was not started for that.") from error
    try:
        written = os.write(descriptor, data)
    except BlockingIOError:
        written = 0
    finally:
        os.close(descriptor)
    if written < len(data):
        raise BackendFailed(
            f"The process reads its input too slowly: {written} of {len(data)} bytes were sent. Send the rest later."
        )


def resize(spawned: Spawned, *, columns: int, rows: int) -> None:
    """Written down for its keeper, which is then told to look."""
    try:
        keeper = os.pidfd_open(spawned.keeper_pid)
    except ProcessLookupError as error:
        raise BackendFailed("This process has ended.") from error
    try:
        if not is_kept(spawned):  # held first, asked then, as below
            raise BackendFailed("This process has ended.")
        size = Path(spawned.folder) / "size"
        size.with_suffix(".new").write_text(f"{rows} {columns}", encoding="ascii")
        size.with_suffix(".new").replace(size)
        signal.pidfd_send_signal(keeper, signal.SIGWINCH)
    except OSError as error:
        raise BackendFailed(f"The size was not changed ({error.strerror}).") from error
    finally:
        os.close(keeper)


async def kill(spawned: Spawned) -> None:
    """Returns when it is gone, and its children with it. Raises BackendFailed when that takes too long."""
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        await _end_keeper(spawned)
    if await asyncio.to_thread(is_running, spawned):
        raise BackendFailed("The process does not end, although it was killed.")


async def _end_keeper(spawned: Spawned) -> None:
    """It ends all that it keeps first. Raises ProcessLookupError, TimeoutError."""
    keeper = os.pidfd_open(spawned.keeper_pid)
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(keeper, gone.set)
    try:
        # Held first, asked then: the pid cannot become somebody else's in between.
        if not is_kept(spawned):
            return
        signal.pidfd_send_signal(keeper, signal.SIGTERM)
        async with asyncio.timeout(GIVE_UP_SECONDS + 5):
            await gone.wait()
    finally:
        loop.remove_reader(keeper)
        os.close(keeper)


def forget(spawned: Spawned) -> None:
    if not is_running(spawned):
        shutil.rmtree(spawned.folder, ignore_errors=True)


def is_running(spawned: Spawned) -> bool:
    """Without a look at its output: for whoever asks about many, and often.

    Of one whose keeper was killed, what is left is ended first: nobody reads its output, and it was to leave nothing.
    """
    if is_kept(spawned):
        return True
    # Asked in this order: a keeper that ends in between has written it down by the second question.
    return not (Path(spawned.folder) / _ENDED).exists() and _is_left_by_keeper(spawned)


def is_kept(spawned: Spawned) -> bool:
    """Whether its keeper lives. Only looks."""
    try:
        facts = Path(f"/proc/{spawned.keeper_pid}/stat").read_bytes().rpartition(b")")[2].split()
        return facts[0] != b"Z" and int(facts[19]) == spawned.keeper_started
    except (OSError, IndexError):
        return False


def _is_left_by_keeper(spawned: Spawned) -> bool:
    """Whether something goes on although we have killed it."""
    until = time.monotonic() + _SWEEP_SECONDS
    while left := list(_marked(spawned.id)):
        # Stopped first: who forks faster than we kill would never be caught.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(process, number)
        for process in left:
            os.close(process)
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def _marked(process_id: str) -> Iterator[int]:
    """Each that has inherited the mark, held by a descriptor that the caller closes. Zombies have lost it."""
    mark = f"\0{_MARK}={process_id}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            held = os.pidfd_open(int(pid))
            try:
                is_ours = mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                is_ours = False
            if is_ours:
                yield held
            else:
                os.close(held)


def _new_folder(outputs: Path, kind: str) -> Path:
    folder = outputs / f"{kind}_{secrets.token_hex(6)}"
    try:
        make_private(folder)
    except OSError as error:
        raise BackendFailed(f"The command was not run: its output cannot be kept ({error.strerror}).") from error
    return folder


def _can_be_given(argument: str) -> bool:
    try:
        encoded = os.fsencode(argument)
    except UnicodeEncodeError:
        return False
    return len(encoded) <= _MAX_ARGUMENT_BYTES and b"\0" not in encoded


async def _keeper(order: Order, folder: Path, *, outlives_us: bool) -> asyncio.subprocess.Process:
    for argument in (*order.argv, order.workdir):
        if not _can_be_given(argument):
            raise BackendFailed(
                f"The command was not run: it is longer than {_MAX_ARGUMENT_BYTES:,} bytes, or holds a NUL or half a "
                "character. Write it into a file and run that."
            )
    mark = {_MARK: folder.name} if outlives_us else {}
    told = {
        "argv": list(order.argv),
        "workdir": order.workdir,
        "environment": dict(order.environment) | mark | _started_up(order, folder, outlives_us=outlives_us),
        "secret": f"{order.sudo_password}\n" if order.sudo_password else "",
        "timeout_seconds": order.timeout_seconds,
        "stdin": base64.b64encode(order.stdin).decode(),
        "interactive": order.interactive,
        "pty": order.pty,
        "takes_terminal": order.takes_terminal,
        "rlimits": dict(order.rlimits),
        "cgroups": list(order.cgroups),
        "niceness": order.niceness,
        "is_walled_in": order.is_walled_in,
        "folder": str(folder),
        "head_bytes": SPAWNED_HEAD_BYTES if outlives_us else MAX_KEPT_BYTES,
        "tail_bytes": SPAWNED_TAIL_BYTES if outlives_us else KEPT_TAIL_BYTES,
        "may_outlive": outlives_us,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", str(_KEEPER)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_MAX_LINE_BYTES,
        env={"PATH": order.environment.get("PATH", os.defpath)},
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None
    # Over the pipe, not as an argument: everybody on the machine can read arguments.
    process.stdin.write(json.dumps(told).encode() + b"\n")
    return process


def _started_up(order: Order, folder: Path, *, outlives_us: bool) -> dict[str, str]:
    """Writes what bash reads first, and says where it is."""
    if order.shell is None:
        return {}
    report = "" if outlives_us else order.shell.report_named or str(_report_of(order, folder))
    file = folder / _START_UP
    try:
        file.touch(0o600)
        file.write_bytes(start_up(order.shell, report, has_password=bool(order.sudo_password)))
    except OSError as error:
        raise BackendFailed(f"The command was not run: its shell cannot be prepared ({error.strerror}).") from error
    return {"BASH_ENV": str(file)}


def _report_of(order: Order, folder: Path) -> Path | None:
    return (order.shell.report or folder / "report") if order.shell else None


def _reported(file: Path, given: Mapping[str, str]) -> ShellState | None:
    """The command could have put anything there: what is no plain file of a sensible size is not read."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as report:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                content = report.read(MAX_REPORT_BYTES + 1)
                return read_report(content, given) if len(content) <= MAX_REPORT_BYTES else None
    return None


async def _begun(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # then there is no answer either
        await process.stdin.drain()
    told = _understood(await process.stdout.readline())
    if "failed" in told:
        raise BackendFailed(f"The command could not be started: {told['failed']} ({told['what']}).")
    return told


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Closes the lifeline and waits; not even being cancelled again leaves children behind."""
    assert process.stdin is not None
    process.stdin.close()
    await asyncio.shield(_gone(process))


async def _gone(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    await process.stdout.read()
    await process.wait()


def _prune(outputs: Path) -> None:
    """The oldest long outputs make room for new ones; what still runs keeps its folder."""
    with contextlib.suppress(OSError):
        oldest_first = sorted((folder.stat().st_mtime, folder) for folder in outputs.glob("cmd_*"))
        left_before = time.time() - _ABANDONED_SECONDS
        over = [folder for at, folder in oldest_first if (folder / _ENDED).exists() or at < left_before]
        for folder in over[:-MAX_KEPT_OUTPUTS]:
            shutil.rmtree(folder, ignore_errors=True)


def _understood(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise BackendFailed("Whoever looked after the command was killed; what became of it is unknown.")
    return told


def _collected(result: Mapping[str, Any], folder: Path, max_chars: int) -> Finished:
    total = int(result["output_bytes"])
    pieces = _pieces(folder)
    full = ""
    if total and not pieces:
        text = f"[{in_bytes(total)} of output could not be kept: the disk takes no more]"
    elif total > 4 * max_chars or len(pieces) > 1:
        text, full = _head_and_tail(pieces, total, max_chars), str(pieces[0][1])
    else:
        text = "".join(file.read_bytes().decode("utf-8", "replace") for _, file in pieces)
        if len(text) > max_chars:
            text, full = _head_and_tail(pieces, total, max_chars), str(pieces[0][1])
    notes = [_about_children(result, "start those in the background.")]
    if full and total > MAX_KEPT_BYTES:
        notes.append(f"Of its {in_bytes(total)} of output the first {in_bytes(MAX_KEPT_BYTES)} are kept.")
    return Finished(
        output=text,
        exit_code=int(result["exit_code"]),
        timed_out=result["ended_by_us"] == "timeout",
        output_bytes=total,
        full_output=full,
        note=" ".join(filter(None, notes)),
    )


def _about_children(result: Mapping[str, Any], advice: str) -> str:
    notes = []
    if result["left_children"]:
        notes.append(f"It left processes running, which were ended with it; {advice}")
    if result["stubborn"]:
        notes.append(f"{result['stubborn']} of its processes could not be ended: they belong to another user.")
    return " ".join(notes)


def _head_and_tail(pieces: Sequence[tuple[int, Path]], total: int, max_chars: int) -> str:
    half = max(max_chars // 2, 1)
    with pieces[0][1].open("rb") as file:
        head = file.read(4 * half).decode("utf-8", "replace")[:half]
    tail = b""
    for _, file_of_piece in reversed(pieces):
        if len(tail) < 4 * half:
            with file_of_piece.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - (4 * half - len(tail))))
                tail = file.read() + tail
    end = tail.decode("utf-8", "replace")[-half:]
    left_out = total - len(head.encode()) - len(end.encode())
    return f"{head}\n[… {in_bytes(max(left_out, 0))} of output are left out here …]\n{end}"


def _pieces(folder: Path) -> list[tuple[int, Path]]:
    """By their position: the first, and as many of the last as are kept."""
    with contextlib.suppress(OSError):
        return sorted((int(file.name.partition(".")[2]), file) for file in folder.glob("output.*"))
    return []
