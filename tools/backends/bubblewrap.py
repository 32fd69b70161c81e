"""Commands in a sandbox on this machine, made by bubblewrap: the person's workspace, and little else, is there.

No other processes, no network unless it is given, no capabilities, the system read-only, /home and /root and the home
of Hermes not there at all. What it does not keep anybody from: using the processor for as long as a command may run.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tools.backends import supervised
from tools.backends.base import BackendFailed, Command, Finished, Spawned, WriteDown, nobody_asks
from tools.backends.cgroups import Bounds, Cgroups, Group, find_cgroups
from tools.backends.environment import child_environment
from tools.backends.files import HostFiles
from tools.backends.keeping import KeepingBackend
from tools.backends.local import PTY_TERM, argv_of
from tools.backends.sandbox import SANDBOX_PATH, Sandbox, SandboxProblem, find_features
from tools.backends.search import BackendFolder, Searcher
from tools.backends.shell import Shell
from tools.backends.usage import WorkspaceUse

_ORDINARY = ("LANG", "LANGUAGE", "TERM", "TZ")
_WATCH_SECONDS = 1.0
_NICENESS = 19  # for people whom we trust less, what nobody else wants


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    memory_mb: int = 2048
    max_processes: int = 256
    workspace_mb: int = 2048


class BubblewrapBackend(KeepingBackend):
    """`private` is a folder for /tmp and for long outputs, outside of the workspace; without one it is temporary.

    `hidden` are folders of which nothing may be seen. Raises BackendFailed when the workspace holds one of them.
    """

    name = "bubblewrap"
    is_isolated = True

    def __init__(
        self,
        *,
        workspace: Path,
        private: Path | None = None,
        hidden: Sequence[Path] = (),
        network: bool = False,
        limits: SandboxLimits | None = None,
        timeout_seconds: float = 180,
        max_output_chars: int = 50_000,
        env_passthrough: Sequence[str] = (),
    ) -> None:
        if private is None:
            private = Path(tempfile.mkdtemp(prefix="hermes-sandbox-"))
            weakref.finalize(self, shutil.rmtree, private, ignore_errors=True)
        self._limits = limits or SandboxLimits()
        self._timeout_seconds = timeout_seconds
        self._max_output_chars = max_output_chars
        self._env_passthrough = tuple(env_passthrough)
        self._box = Sandbox.of(workspace=workspace, private=private, hidden=hidden, network=network)
        self.has_network = network
        self._use = WorkspaceUse(
            folders=(self._box.workspace, self._box.scratch), max_bytes=self._limits.workspace_mb * 1_000_000
        )
        self.home = str(self._box.workspace)
        places = (
            BackendFolder(spelled=self._box.workspace, real=self._box.workspace),
            BackendFolder(spelled=Path("/tmp"), real=self._box.scratch),  # noqa: S108  # the sandbox's own
            BackendFolder(spelled=self._box.outputs, real=self._box.outputs, writable=False),
        )
        ripgrep = shutil.which("rg", path=SANDBOX_PATH) or ""
        self.files = HostFiles(
            places=places,
            searcher=Searcher(ripgrep=ripgrep, run=self.run, helper=self._run_helper),
            room_bytes=self._use.room_bytes,
        )

    @property
    def outputs(self) -> Path:
        return self._box.outputs

    @cached_property
    def _cgroups(self) -> Cgroups | None:
        return _find_cgroups(self._limits)

    @property
    def limits_in_force(self) -> str:
        return _in_words(self._limits, self._cgroups)

    @property
    def bounds_processes(self) -> bool:
        return self._cgroups is not None or os.geteuid() != 0

    async def run(self, command: Command) -> Finished:
        timeout = self._timeout_seconds if command.timeout_seconds is None else command.timeout_seconds
        most = self._max_output_chars if command.max_output_chars is None else command.max_output_chars
        await self._ready()
        group = self._new_group()
        try:
            order = await self._order(command, timeout, group)
            finished = await self._watched(order, most, keeps_output=command.keeps_output)
            told = group.told() if group else ""
        finally:
            if group:
                group.remove()
        if finished.exit_code == 1 and finished.output.startswith("bwrap: "):
            raise BackendFailed(f"The command was not run in the sandbox: {finished.output[7:300].strip()}.")
        return replace(finished, note=" ".join(filter(None, (finished.note, told))))

    async def spawn(self, command: Command, write_down: WriteDown = nobody_asks) -> Spawned:
        await self._ready()
        group = self._new_group()
        try:
            order = await self._order(command, command.timeout_seconds, group)
            return await supervised.spawn(order, self.outputs, write_down)
        except BaseException:
            if group:
                group.remove()
            raise

    def _new_group(self) -> Group | None:
        try:
            return self._cgroups.make() if self._cgroups else None
        except OSError as error:
            raise BackendFailed(f"The command was not run: its limits cannot be set ({error.strerror}).") from error

    async def _ready(self) -> None:
        try:
            await asyncio.to_thread(self._box.prepare)
            await asyncio.to_thread(find_features)
        except SandboxProblem as error:
            raise BackendFailed(str(error)) from error

    async def _order(self, command: Command, timeout_seconds: float | None, group: Group | None) -> supervised.Order:
        room = await asyncio.to_thread(self._use.room_bytes)
        rlimits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": room}
        if group is None:
            rlimits["RLIMIT_AS"] = self._limits.memory_mb * 1_000_000
            if timeout_seconds is not None:
                rlimits["RLIMIT_CPU"] = int(timeout_seconds) + 10
        processes = self._limits.max_processes if group is None and self.bounds_processes else 0
        return supervised.Order(
            argv=self._box.argv(
                argv_of(command),
                workdir=command.workdir or self.home,
                features=find_features(),
                processes=processes,
                pty=command.pty,
            ),
            workdir="/",
            environment=self._environment() | ({"TERM": PTY_TERM} if command.pty else {}) | dict(command.environment),
            timeout_seconds=timeout_seconds,
            stdin=command.stdin,
            interactive=command.interactive,
            pty=command.pty,
            takes_terminal=False,
            rlimits=rlimits,
            cgroups=[str(folder) for folder in group.folders] if group else [],
            niceness=_NICENESS,
            is_walled_in=True,
            shell=self._shell(command),
        )

    def _shell(self, command: Command) -> Shell | None:
        """It writes into the sandbox's /tmp how it ended: nothing else of ours can be written there."""
        if command.variables is None:
            return None
        name = f".shell-{secrets.token_hex(6)}"
        report = self._box.scratch / name
        return Shell(variables=command.variables, report=report, report_named=f"/tmp/{name}")  # noqa: S108

    def _environment(self) -> dict[str, str]:
        given = child_environment(self._env_passthrough)
        chosen = {
            name: value
            for name, value in given.items()
            if name in _ORDINARY or name.startswith("LC_") or name in self._env_passthrough
        }
        return chosen | {"PATH": SANDBOX_PATH, "HOME": self.home, "USER": "agent", "LOGNAME": "agent"}

    async def _watched(self, order: supervised.Order, max_output_chars: int, *, keeps_output: bool) -> Finished:
        """Ends the command when it fills the disk: RLIMIT_FSIZE binds a single file, and not how many there are."""
        at_start = await asyncio.to_thread(self._use.used_bytes)
        running = asyncio.create_task(
            supervised.run(order, self.outputs, max_output_chars=max_output_chars, keeps_output=keeps_output)
        )
        try:
            while not (await asyncio.wait({running}, timeout=_WATCH_SECONDS))[0]:
                if await asyncio.to_thread(self._use.used_bytes) > max(at_start, self._use.max_bytes):
                    raise BackendFailed(
                        f"The command was ended: the workspace has grown beyond its {self._limits.workspace_mb} MB. "
                        "Delete what is not needed."
                    )
            return running.result()
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def _run_helper(self, command: Command) -> Finished:
        order = supervised.Order(
            argv=command.argv,
            workdir="/",
            environment={"PATH": SANDBOX_PATH},
            timeout_seconds=command.timeout_seconds,
            stdin=command.stdin,
        )
        most = command.max_output_chars or self._max_output_chars
        return await supervised.run(order, self.outputs, max_output_chars=most, keeps_output=command.keeps_output)


def limits_in_force(limits: SandboxLimits) -> str:
    """What would bound a command that this process had run in a sandbox, in words for the operator."""
    return _in_words(limits, _find_cgroups(limits))


def _find_cgroups(limits: SandboxLimits) -> Cgroups | None:
    return find_cgroups(Bounds(memory_bytes=limits.memory_mb * 1_000_000, processes=limits.max_processes))


def _in_words(limits: SandboxLimits, cgroups: Cgroups | None) -> str:
    memory, processes = f"{limits.memory_mb} MB of memory", f"{limits.max_processes} processes"
    disk = (
        f"a workspace of {limits.workspace_mb} MB, looked at before each command and every "
        f"{_WATCH_SECONDS:.0f} s while one is waited for (there is no quota)"
    )
    if cgroups is not None:
        return f"by control groups (version {cgroups.version}): {memory} and {processes}; {disk}"
    if os.geteuid() == 0:
        processes = "no limit to the number of processes, since there are no control groups and root has none"
    return f"by resource limits, since there are no control groups: {memory} for each process; {processes}; {disk}"
