"""Control background processes on this machine. Each has a supervisor that outlives us, so a handle is enough."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.backends.base import BackendFailed, OutputChunk, ProcessHandle, ProcessStatus, RecordHandle
from tools.backends.child_processes import GIVE_UP_SECONDS
from tools.backends.supervised import (
    ENDED,
    MARK,
    LaunchSpec,
    close_lifeline,
    describe_children,
    keep,
    make_output_folder,
    output_pieces,
    read_start,
    start_supervisor,
)
from tools.backends.usage import WorkspaceUse, describe_overuse

_SWEEP_SECONDS = 5.0
_MEASURE_SHARE = 20  # measuring a workspace takes a twentieth of the time at most
_OVER_LIMIT = "over-limit"


class BackgroundProcesses:
    """Processes that were started by `spawn`, of any backend."""

    poll_seconds = 2.0

    async def reattach(self, handles: Sequence[ProcessHandle]) -> set[str]:
        found = await self.statuses(handles)
        return {process_id for process_id, status in found.items() if status.is_running}

    async def statuses(self, handles: Sequence[ProcessHandle]) -> Mapping[str, ProcessStatus]:
        await asyncio.to_thread(self._end_over_limit, handles)
        return await asyncio.to_thread(lambda: {handle.id: status(handle) for handle in handles})

    async def read(self, handle: ProcessHandle, *, since: int = 0, max_bytes: int = 200_000) -> OutputChunk:
        return await asyncio.to_thread(read, handle, since=since, max_bytes=max_bytes)

    async def write(self, handle: ProcessHandle, data: bytes) -> None:
        write(handle, data)

    async def resize(self, handle: ProcessHandle, *, columns: int, rows: int) -> None:
        await asyncio.to_thread(_resize, handle, columns=columns, rows=rows)

    async def kill(self, handle: ProcessHandle) -> None:
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            await _end_supervisor(handle)
        if await asyncio.to_thread(is_running, handle):
            raise BackendFailed("The process was killed but has not exited yet.")

    def _end_over_limit(self, handles: Sequence[ProcessHandle]) -> None:
        """End the processes whose workspace has outgrown its limit; they are reported when they have ended."""
        used: dict[tuple[str, ...], int] = {}
        for handle in handles:
            folders = tuple(handle.data.get("workspace", ()))
            if not folders or not _is_supervised(handle):
                continue
            max_bytes = handle.data["workspace_max_bytes"]
            if folders not in used and time.monotonic() >= self._measure_at.get(folders, 0.0):
                began = time.monotonic()
                used[folders] = WorkspaceUse(folders=tuple(map(Path, folders)), max_bytes=max_bytes).used_bytes()
                took = time.monotonic() - began
                self._measure_at[folders] = time.monotonic() + took * _MEASURE_SHARE
            if used.get(folders, 0) > max_bytes:
                _end_for(handle, describe_overuse(max_bytes))

    @cached_property
    def _measure_at(self) -> dict[tuple[str, ...], float]:
        return {}

    async def forget(self, handle: ProcessHandle) -> None:
        if not await asyncio.to_thread(is_running, handle):
            await asyncio.to_thread(shutil.rmtree, handle.data["folder"], ignore_errors=True)


class SupervisedBackend(BackgroundProcesses):
    """The parts of `Backend` that all backends with supervised commands share."""

    @property
    def outputs(self) -> Path:
        """Return the folder of the outputs of commands, as a path of this machine."""
        raise NotImplementedError

    async def keep(self, text: str) -> str:
        return await asyncio.to_thread(keep, text, self.outputs)

    async def close(self) -> None:
        """Do nothing: background processes and their output stay."""


async def spawn(
    spec: LaunchSpec, outputs: Path, backend: str, record: RecordHandle, use: WorkspaceUse | None = None
) -> ProcessHandle:
    """Start a process that outlives us once `record` has returned; before that, nobody would know of it.

    `statuses` ends it when it makes the workspace in `use` larger than allowed.
    """
    folder = make_output_folder(outputs, "proc")
    try:
        process = await start_supervisor(spec, folder, outlives_us=True)
        try:
            started = await read_start(process)
            data: dict[str, Any] = {
                "pid": int(started["pid"]),
                "supervisor_pid": int(started["keeper"]),
                # In ticks since boot: a pid alone may belong to another process by now.
                "supervisor_started": int(started["started"]),
                "folder": str(folder),
            }
            if use is not None:
                data["workspace"] = [str(measured) for measured in use.folders]
                data["workspace_max_bytes"] = max(use.max_bytes, await asyncio.to_thread(use.used_bytes))
            handle = ProcessHandle(id=folder.name, backend=backend, data=data)
            await record(handle)
        except BaseException:
            await close_lifeline(process)
            raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    assert process.stdin is not None
    process.stdin.write(b"\n")  # lets it outlive us
    await close_lifeline(process)
    return handle


def status(handle: ProcessHandle) -> ProcessStatus:
    folder = Path(handle.data["folder"])
    pieces = output_pieces(folder)
    total = pieces[-1][0] + pieces[-1][1].stat().st_size if pieces else 0
    if is_running(handle):
        return ProcessStatus(is_running=True, output_bytes=total)
    try:
        ended = json.loads((folder / ENDED).read_text(encoding="utf-8"))
        return ProcessStatus(
            is_running=False,
            exit_code=int(ended["exit_code"]),
            output_bytes=int(ended["output_bytes"]),
            ended_ms=(folder / ENDED).stat().st_mtime_ns // 1_000_000,
            note=_read_over_limit(folder)
            or describe_children(ended, "a background command must not end before its children."),
        )
    except (OSError, ValueError, KeyError):
        return ProcessStatus(is_running=False, output_bytes=total)


def _read_over_limit(folder: Path) -> str:
    try:
        return f"It was ended: {(folder / _OVER_LIMIT).read_text(encoding='utf-8')}"
    except OSError:
        return ""


def is_running(handle: ProcessHandle) -> bool:
    """Return whether anything of the process runs.

    If its supervisor was killed, end the remaining processes first: nobody reads their output.
    """
    if _is_supervised(handle):
        return True
    # In this order: a supervisor that ends in between has written the file by the second check.
    return not (Path(handle.data["folder"]) / ENDED).exists() and not end_leftovers(handle.id)


def read(handle: ProcessHandle, *, since: int, max_bytes: int) -> OutputChunk:
    """Return output from the first byte at or after `since` that is still kept."""
    content = bytearray()
    start = since
    for position, file in output_pieces(Path(handle.data["folder"])):
        try:
            with file.open("rb") as piece:
                size = os.fstat(piece.fileno()).st_size
                if position + size <= since or len(content) >= max_bytes:
                    continue
                if content and position != start + len(content):
                    break  # the middle is gone: leave the rest to the next call
                if not content:
                    start = max(since, position)
                piece.seek(start + len(content) - position)
                content += piece.read(max_bytes - len(content))
        except FileNotFoundError:  # removed by its supervisor meanwhile
            continue
    return OutputChunk(content=bytes(content), start=start, end=start + len(content))


def write(handle: ProcessHandle, data: bytes) -> None:
    try:
        descriptor = os.open(Path(handle.data["folder"]) / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BackendFailed("This process takes no input: it has ended, or was not started as interactive.") from error
    try:
        written = os.write(descriptor, data)
    except BlockingIOError:
        written = 0
    finally:
        os.close(descriptor)
    if written < len(data):
        raise BackendFailed(
            f"The process is slow to read its input: {written} of {len(data)} bytes were sent. Send the rest later."
        )


def _resize(handle: ProcessHandle, *, columns: int, rows: int) -> None:
    """Write the size to a file and signal the supervisor to read it."""
    size = Path(handle.data["folder"]) / "size"
    try:
        with _supervisor_of(handle) as supervisor:
            size.with_suffix(".new").write_text(f"{rows} {columns}", encoding="ascii")
            size.with_suffix(".new").replace(size)
            signal.pidfd_send_signal(supervisor, signal.SIGWINCH)
    except ProcessLookupError as error:
        raise BackendFailed("This process has ended.") from error
    except OSError as error:
        raise BackendFailed(f"The terminal was not resized ({error.strerror}).") from error


def _end_for(handle: ProcessHandle, reason: str) -> None:
    """Have a supervisor end its command, and store the reason for its status."""
    with contextlib.suppress(OSError):  # it has just ended, or the disk is full
        (Path(handle.data["folder"]) / _OVER_LIMIT).write_text(reason, encoding="utf-8")
    with contextlib.suppress(ProcessLookupError), _supervisor_of(handle) as supervisor:
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)


async def _end_supervisor(handle: ProcessHandle) -> None:
    """End a supervisor, which ends its command first. Raises ProcessLookupError, TimeoutError."""
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    with _supervisor_of(handle) as supervisor:
        loop.add_reader(supervisor, gone.set)
        try:
            signal.pidfd_send_signal(supervisor, signal.SIGTERM)
            async with asyncio.timeout(GIVE_UP_SECONDS + 5):
                await gone.wait()
        finally:
            loop.remove_reader(supervisor)


@contextlib.contextmanager
def _supervisor_of(handle: ProcessHandle) -> Iterator[int]:
    """Hold the process of a supervisor open. Raises ProcessLookupError when it has ended."""
    supervisor = os.pidfd_open(handle.data["supervisor_pid"])
    try:
        # Opened before the check, so that the pid cannot be reused in between.
        if not _is_supervised(handle):
            raise ProcessLookupError
        yield supervisor
    finally:
        os.close(supervisor)


def _is_supervised(handle: ProcessHandle) -> bool:
    try:
        facts = Path(f"/proc/{handle.data['supervisor_pid']}/stat").read_bytes().rpartition(b")")[2].split()
        return facts[0] != b"Z" and int(facts[19]) == handle.data["supervisor_started"]
    except (OSError, IndexError):
        return False


def end_leftovers(process_id: str) -> bool:
    """Kill every process that has inherited the mark; return False when some do not end."""
    until = time.monotonic() + _SWEEP_SECONDS
    while left := list(_find_marked(process_id)):
        # Stop them first: a process that forks faster than we kill would never be caught.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(process, number)
        for process in left:
            os.close(process)
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _find_marked(process_id: str) -> Iterator[int]:
    """Yield a descriptor of each process with the mark, which the caller closes. Zombies have no mark."""
    mark = f"\0{MARK}={process_id}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            held = os.pidfd_open(int(pid))
            try:
                is_ours = mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                is_ours = False
            if is_ours:
                yield held
            else:
                os.close(held)
