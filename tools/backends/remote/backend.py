"""Run commands in a remote place: a container, another machine, a sandbox of a cloud.

Nothing is installed there. Each call hands a short helper (`helper.sh`) to the place's own shell; it starts the
command, keeps its output in files, and ends all its processes. A background process is found again by its handle.
"""

import asyncio
import contextlib
import secrets
import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from hermes_config.settings import TerminalSettings
from tools.backends.base import (
    BackendFailed,
    Command,
    Finished,
    OutputChunk,
    ProcessHandle,
    ProcessStatus,
    RecordHandle,
    record_nothing,
)
from tools.backends.environment import child_environment
from tools.backends.remote.calls import HELPER, CallRefused, HelperAnswer, Place, PlaceGone, ask
from tools.backends.remote.files import HOME, RemoteFiles
from tools.backends.supervised import MARK, MAX_KEPT_BYTES, PTY_TERM, describe_children, read_report
from tools.content import in_bytes

_GRACE_SECONDS = 20.0  # after its time, a command is ended in its place; later than that the connection must be lost
_LONGEST_SECONDS = 90_000
_MAX_SIZE_BYTES = 131_000
_PASSED_ON = ("LANG", "LANGUAGE", "TZ")
_REASONS = {
    "folder": "there is no folder {folder}",
    "state": "its output cannot be stored there: the disk is full, or that folder cannot be written",
    "pty": "there is no terminal there: install the package bsdutils (the program script) or python3, or use pty=false",
}
_FAILURES = {
    "state": "The process was ended, because nothing can be stored there: the disk is full.",
    "input": "This process takes no input: it has ended, or was not started as interactive.",
    "slow": "The process is slow to read its input, and a part of it was not sent. Send it later.",
    "resize": "This process has ended, or has no terminal.",
    "alive": "The process was killed but has not exited yet.",
}


class RemoteProcesses:
    """Background processes in the places of one backend, which `reach` returns for the facts in a handle."""

    def __init__(self, reach: Callable[[Mapping[str, Any]], Place], poll_seconds: float) -> None:
        self._reach = cache(lambda facts: reach(dict(facts)))  # some places keep a connection
        self.poll_seconds = poll_seconds

    async def reattach(self, handles: Sequence[ProcessHandle]) -> set[str]:
        found = await self.statuses(handles)
        return {process_id for process_id, status in found.items() if status.is_running}

    async def statuses(self, handles: Sequence[ProcessHandle]) -> Mapping[str, ProcessStatus]:
        """Ask each place once about all its processes."""
        by_place: defaultdict[tuple[tuple[str, Any], ...], list[str]] = defaultdict(list)
        for handle in handles:
            by_place[_facts_of(handle)].append(handle.id)
        found = await asyncio.gather(*(self._statuses_at(self._reach(at), ids) for at, ids in by_place.items()))
        return {process_id: status for group in found for process_id, status in group.items()}

    async def _statuses_at(self, place: Place, ids: Sequence[str]) -> dict[str, ProcessStatus]:
        try:
            answer = await ask(place, "statuses", {"ids": " ".join(ids)})
        except PlaceGone:
            note = f"{place.title} has ended, and everything in it."
            return {process_id: ProcessStatus(is_running=False, note=note) for process_id in ids}
        except (BackendFailed, CallRefused):
            return {}
        return {process_id: _read_status(*words) for process_id, words in answer.facts.items()}

    async def read(self, handle: ProcessHandle, *, since: int = 0, max_bytes: int = 200_000) -> OutputChunk:
        answer = await self._ask(handle, "read", since=since, most=max_bytes)
        start = int(*answer.facts.get("start", [str(since)]))
        content = answer.sections.get("content", b"")
        return OutputChunk(content=content, start=start, end=start + len(content))

    async def write(self, handle: ProcessHandle, data: bytes) -> None:
        await self._ask(handle, "input", data=data)

    async def resize(self, handle: ProcessHandle, *, columns: int, rows: int) -> None:
        await self._ask(handle, "resize", columns=columns, rows=rows)

    async def kill(self, handle: ProcessHandle) -> None:
        with contextlib.suppress(PlaceGone):
            await self._ask(handle, "kill")

    async def forget(self, handle: ProcessHandle) -> None:
        with contextlib.suppress(BackendFailed):  # the place is gone, or will be
            await self._ask(handle, "forget")

    async def _ask(self, handle: ProcessHandle, op: str, *, data: bytes = b"", **values: int) -> HelperAnswer:
        try:
            return await ask(self._reach(_facts_of(handle)), op, {"id": handle.id, **values}, data=data)
        except CallRefused as error:
            raise BackendFailed(_FAILURES.get(str(error), f"That failed ({error}).")) from error


def _facts_of(handle: ProcessHandle) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(handle.data["place"].items()))


class RemoteBackend(RemoteProcesses):
    """A person's place. It is made when it is first needed, and again when it has gone."""

    shares_host_files = False
    accepts_sudo = False
    home = HOME

    def __init__(
        self, name: str, place: Place, settings: TerminalSettings, *, poll_seconds: float, limits: str
    ) -> None:
        super().__init__(lambda facts: place, poll_seconds)
        self.name, self.place, self.limits_in_force = name, place, limits
        self.isolates, self.has_network = name != "ssh", name == "ssh" or place.network
        cwd = settings.cwd if place.is_owners else "~"
        self.workspace = cwd if cwd.startswith("/") else f"{HOME}/{cwd.removeprefix('~').strip('/')}".rstrip("/")
        self._settings = settings
        self._making, self._times_made = asyncio.Lock(), 0
        self.files = RemoteFiles(self.ask_made, self.run)

    async def ask_made(self, op: str, values: Mapping[str, str | int], **options: Any) -> HelperAnswer:
        """Ask the helper, after making the place if it is not there."""
        times_made = self._times_made
        try:
            return await ask(self.place, op, values, **options)
        except PlaceGone:
            async with self._making:
                if times_made == self._times_made:  # else a command beside this one has made it
                    await self.place.make()
                    self._times_made += 1
            return await ask(self.place, op, values, **options)

    async def run(self, command: Command) -> Finished:
        seconds, most = command.limits(self._settings)
        process_id = f"cmd_{secrets.token_hex(6)}"
        values = self._values(command, process_id) | {
            "limit": f"{seconds:g}",
            "shown": 8 * max(most, 1),  # a character has four bytes at most, and half of them are the tail
            "small": most,
            "keeps": int(command.keeps_output),
            "lifeline": "cut_off" if self.place.notices_disconnect else "",
        }
        environment = self._environment(command)
        try:
            answer = await self.ask_made(
                "run", values, functions=_define_functions(command, environment), data=command.stdin,
                seconds=min(seconds, _LONGEST_SECONDS) + _GRACE_SECONDS,
            )  # fmt: skip
        except CallRefused as error:
            raise _explain(error, command.workdir or self.workspace) from error
        except BaseException:
            # The helper ends it by itself, unless it cannot see that we are gone.
            if not self.place.notices_disconnect:
                await asyncio.shield(self._end(process_id))
            raise
        finished = _read_outcome(answer, command, environment | {MARK: process_id}, most)
        if finished.shell is not None and (home := _read_environment(answer).get("HOME", "")).startswith("/"):
            self.home = home  # now it is known
        return finished

    async def _end(self, process_id: str) -> None:
        with contextlib.suppress(BackendFailed, CallRefused):
            await ask(self.place, "kill", {"id": process_id})

    async def spawn(self, command: Command, record: RecordHandle = record_nothing) -> ProcessHandle:
        process_id = f"proc_{secrets.token_hex(6)}"
        values = self._values(command, process_id) | {"interactive": "1" if command.interactive else ""}
        try:
            answer = await self.ask_made(
                "spawn", values, functions=_define_functions(command, self._environment(command))
            )
        except CallRefused as error:
            raise _explain(error, command.workdir or self.workspace) from error
        pid = "".join(answer.facts["pid"])
        data = {"place": dict(self.place.facts), "pid": int(pid) if pid.isdigit() else None}
        handle = ProcessHandle(id=process_id, backend=self.name, data=data)
        try:
            await record(handle)
            await self._ask(handle, "confirm")  # until now it ends within half a minute
        except BaseException:
            await asyncio.shield(self._end(process_id))
            raise
        return handle

    def _environment(self, command: Command) -> dict[str, str]:
        passed_on = self._settings.env_passthrough if self.place.is_owners else ()
        wanted = (*_PASSED_ON, *passed_on)
        given = {name: value for name, value in child_environment(passed_on).items() if name in wanted}
        return given | ({"TERM": PTY_TERM} if command.pty else {}) | dict(command.environment)

    def _values(self, command: Command, process_id: str) -> dict[str, str | int]:
        if not command.argv and not command.text.strip():
            raise BackendFailed("There is no command to run.")
        text = shlex.join(command.argv) if command.argv else command.text
        if len(text.encode("utf-8", "surrogateescape")) > _MAX_SIZE_BYTES:
            raise BackendFailed("The command was not run: it is too long. Write it to a file and run that.")
        return {
            "id": process_id,
            "dir": command.workdir or self.workspace,
            "text": text,
            "pty": "1" if command.pty else "",
            "start_up": _write_start_up(command, f"{self.place.state}/{process_id}") if _is_shell(command) else "",
        }

    async def keep(self, text: str) -> str:
        path = f"{self.place.state}/cmd_{secrets.token_hex(6)}/output.1000000000000000"
        return (await self.files.write(path, text.encode("utf-8", "replace"))).path

    async def close(self) -> None:
        """Do nothing: the place ends by itself when nobody has used it for a while."""


def _is_shell(command: Command) -> bool:
    return command.variables is not None and not command.argv


def _define_functions(command: Command, environment: Mapping[str, str]) -> str:
    """Return the definitions of `setup` and `payload`, which the helper calls in the process of the command."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    payload = "run_pty" if command.pty else f"exec $setsid {shlex.join(command.argv)}" if command.argv else "run_text"
    return "\n".join(["setup() {", *exports, ":", "}", f"payload() {{ {payload}; }}"])


def _write_start_up(command: Command, folder: str) -> str:
    """Return the lines a shell begins with, so that it has the variables of the last and reports its own."""
    lines = ["unset BASH_ENV"]
    for name, value in (command.variables or {}).items():
        lines.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    is_at_home = folder.startswith(f"{HOME}/")
    quoted = f'"$HOME"{shlex.quote(folder.removeprefix(HOME))}' if is_at_home else shlex.quote(folder)
    at_exit = f'{{ set +x; {{ pwd; printf "\\0"; env -0; printf "\\0"; }} >| {quoted}/report; }} >/dev/null 2>&1'
    return "\n".join([*lines, f"trap {shlex.quote(at_exit)} EXIT"])


def _explain(error: CallRefused, folder: str) -> BackendFailed:
    reason = _REASONS.get(str(error), str(error)).format(folder=folder)
    return BackendFailed(f"The command was not run: {reason}.")


def _describe_end(children: str, stubborn: str, advice: str) -> str:
    return describe_children({"left_children": int(children), "stubborn": int(stubborn)}, advice)


def _read_status(state: str, size: str, *ending: str) -> ProcessStatus:
    if state == "running":
        return ProcessStatus(is_running=True, output_bytes=int(size))
    ended, code, children, stubborn = ending
    return ProcessStatus(
        is_running=False,
        exit_code=int(code) if code.isdigit() else None,
        output_bytes=int(size),
        ended_ms=int(ended) * 1000 or None,
        note=_describe_end(children, stubborn, "a background command must not end before its children."),
    )


def _read_outcome(answer: HelperAnswer, command: Command, set_by_us: Mapping[str, str], most: int) -> Finished:
    if "exit" not in answer.facts:
        raise BackendFailed("The command's supervisor was killed, so the outcome of the command is unknown.")
    code, children, stubborn, why = answer.facts["exit"]
    total, lost = map(int, answer.facts.get("output", ("0", "0")))
    text, kept = _cut_output(answer, total, most), answer.sections.get("file", b"").decode()
    notes = [_describe_end(children, stubborn, "start such processes with background=true.")]
    if kept and total > MAX_KEPT_BYTES:
        notes.append(f"Of {in_bytes(total)} of output, the first {in_bytes(MAX_KEPT_BYTES)} are kept.")
    if lost:
        notes.append("A part of the output could not be stored: the disk there is full.")
    has_report = why != "timeout" and _is_shell(command)
    report = answer.sections.get("report", b"")
    return Finished(
        output=text,
        exit_code=int(code),
        timed_out=why == "timeout",
        output_bytes=total,
        full_output=kept if total > len(text.encode()) or "[…" in text else "",
        note=" ".join(filter(None, notes)),
        shell=read_report(report, {**_read_environment(answer), **set_by_us}) if has_report else None,
    )


def _cut_output(answer: HelperAnswer, total: int, most: int) -> str:
    head = answer.sections.get("head", b"").decode("utf-8", "replace")
    tail = answer.sections["tail"].decode("utf-8", "replace") if "tail" in answer.sections else head
    if tail is head and len(head) <= most:
        return head
    half = max(most // 2, 1)
    start, end = head[:half], tail[-half:]
    left_out = max(total - len(start.encode()) - len(end.encode()), 0)
    return f"{start}\n[… {in_bytes(left_out)} of output omitted …]\n{end}"


def _read_environment(answer: HelperAnswer) -> dict[str, str]:
    """Return the variables that the place itself gives to commands."""
    entries = answer.sections.get("env", b"").decode("utf-8", "surrogateescape").split("\0")
    given = {name: value for name, equals, value in (entry.partition("=") for entry in entries) if equals}
    return {name: value for name, value in given.items() if name != HELPER}
