"""Run commands in a bubblewrap sandbox on this machine, which contains a person's workspace and little else.

It has no other processes, no network unless granted, no capabilities, a read-only system, and no /home, /root or home
of Hermes. It does not limit processor time, apart from the timeout of the command.
"""

import asyncio
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tools.backends import supervised
from tools.backends.background import SupervisedBackend, spawn
from tools.backends.base import BackendFailed, Command, Finished, ProcessHandle, RecordHandle, record_nothing
from tools.backends.environment import child_environment
from tools.backends.files import HostFiles
from tools.backends.sandbox import (
    SANDBOX_PATH,
    Cgroups,
    Group,
    Sandbox,
    SandboxLimits,
    WorkspaceUse,
    find_cgroups,
    find_features,
)
from tools.backends.search import BackendFolder, Searcher

_PASSTHROUGH = ("LANG", "LANGUAGE", "TERM", "TZ")
_WATCH_SECONDS = 1.0
_NICENESS = 19  # the lowest priority, for less trusted people


class BubblewrapBackend(SupervisedBackend):
    """A sandbox. `private` is a folder for its /tmp and long outputs, outside of the workspace; by default temporary.

    `hidden` are folders that must stay invisible. Raises BackendFailed when the workspace contains one of them.
    """

    name = "bubblewrap"
    isolates = True
    shares_host_files = False
    accepts_sudo = False

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
        return find_cgroups(self._limits)

    @property
    def limits_in_force(self) -> str:
        return _describe_limits(self._limits, self._cgroups)

    @property
    def bounds_processes(self) -> bool:
        return self._cgroups is not None or os.geteuid() != 0

    async def run(self, command: Command) -> Finished:
        timeout = self._timeout_seconds if command.timeout_seconds is None else command.timeout_seconds
        most = self._max_output_chars if command.max_output_chars is None else command.max_output_chars
        await self._prepare()
        group = self._new_group()
        try:
            spec = await self._launch_spec(command, timeout, group)
            finished = await self._run_watched(spec, most, keeps_output=command.keeps_output)
            limits_hit = group.describe_limits_hit() if group else ""
        finally:
            if group:
                group.remove()
        if finished.exit_code == 1 and finished.output.startswith("bwrap: "):
            raise BackendFailed(f"The command was not run in the sandbox: {finished.output[7:300].strip()}.")
        return replace(finished, note=" ".join(filter(None, (finished.note, limits_hit))))

    async def spawn(self, command: Command, record: RecordHandle = record_nothing) -> ProcessHandle:
        await self._prepare()
        group = self._new_group()
        try:
            spec = await self._launch_spec(command, command.timeout_seconds, group)
            return await spawn(spec, self.outputs, self.name, record)
        except BaseException:
            if group:
                group.remove()
            raise

    def _new_group(self) -> Group | None:
        try:
            return self._cgroups.make() if self._cgroups else None
        except OSError as error:
            raise BackendFailed(f"The command was not run: its limits cannot be set ({error.strerror}).") from error

    async def _prepare(self) -> None:
        await asyncio.to_thread(self._box.prepare)
        await asyncio.to_thread(find_features)

    async def _launch_spec(
        self, command: Command, timeout_seconds: float | None, group: Group | None
    ) -> supervised.LaunchSpec:
        room = await asyncio.to_thread(self._use.room_bytes)
        rlimits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": room}
        if group is None:
            rlimits["RLIMIT_AS"] = self._limits.memory_mb * 1_000_000
            if timeout_seconds is not None:
                rlimits["RLIMIT_CPU"] = int(timeout_seconds) + 10
        processes = self._limits.max_processes if group is None and self.bounds_processes else 0
        return supervised.LaunchSpec(
            argv=self._box.argv(
                supervised.argv_of(command),
                workdir=command.workdir or self.home,
                features=find_features(),
                processes=processes,
                pty=command.pty,
            ),
            workdir="/",
            environment=self._environment()
            | ({"TERM": supervised.PTY_TERM} if command.pty else {})
            | dict(command.environment),
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

    def _shell(self, command: Command) -> supervised.ShellSetup | None:
        """Have the shell report its state to the sandbox's /tmp, the only folder of ours that is writable there."""
        if command.variables is None:
            return None
        name = f".shell-{secrets.token_hex(6)}"
        report = self._box.scratch / name
        named = f"/tmp/{name}"  # noqa: S108  # the sandbox's own
        return supervised.ShellSetup(variables=command.variables, report=report, report_named=named)

    def _environment(self) -> dict[str, str]:
        given = child_environment(self._env_passthrough)
        chosen = {
            name: value
            for name, value in given.items()
            if name in _PASSTHROUGH or name.startswith("LC_") or name in self._env_passthrough
        }
        return chosen | {"PATH": SANDBOX_PATH, "HOME": self.home, "USER": "agent", "LOGNAME": "agent"}

    async def _run_watched(self, spec: supervised.LaunchSpec, max_output_chars: int, *, keeps_output: bool) -> Finished:
        """Run a command, and end it when it fills the disk: RLIMIT_FSIZE limits single files, not their number."""
        at_start = await asyncio.to_thread(self._use.used_bytes)
        running = asyncio.create_task(
            supervised.run(spec, self.outputs, max_output_chars=max_output_chars, keeps_output=keeps_output)
        )
        try:
            while not (await asyncio.wait({running}, timeout=_WATCH_SECONDS))[0]:
                if await asyncio.to_thread(self._use.used_bytes) > max(at_start, self._use.max_bytes):
                    raise BackendFailed(
                        f"The command was ended: the workspace is larger than {self._limits.workspace_mb} MB. "
                        "Delete files that are no longer needed."
                    )
            return running.result()
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def _run_helper(self, command: Command) -> Finished:
        spec = supervised.LaunchSpec(
            argv=command.argv,
            workdir="/",
            environment={"PATH": SANDBOX_PATH},
            timeout_seconds=command.timeout_seconds,
            stdin=command.stdin,
        )
        most = command.max_output_chars or self._max_output_chars
        return await supervised.run(spec, self.outputs, max_output_chars=most, keeps_output=command.keeps_output)


def describe_sandbox_limits(limits: SandboxLimits) -> str:
    """Describe to the operator what would limit a command that this process ran in a sandbox."""
    return _describe_limits(limits, find_cgroups(limits))


def _describe_limits(limits: SandboxLimits, cgroups: Cgroups | None) -> str:
    memory, processes = f"{limits.memory_mb} MB of memory", f"{limits.max_processes} processes"
    disk = (
        f"a workspace of {limits.workspace_mb} MB, measured before each command and every "
        f"{_WATCH_SECONDS:.0f} s while one is waited for (there is no quota)"
    )
    if cgroups is not None:
        return f"by control groups (version {cgroups.version}): {memory} and {processes}; {disk}"
    if os.geteuid() == 0:
        processes = "no limit on the number of processes, since there are no control groups and root has none"
    return f"by resource limits, since there are no control groups: {memory} for each process; {processes}; {disk}"
