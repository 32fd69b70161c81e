"""Run the commands of a conversation in a sandbox on this machine, made by bubblewrap.

It has its own users, processes and network, no capabilities, a read-only system, and of other files what its policy
shows. The only way to the network is our proxy. It does not limit processor time, apart from a command's timeout.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from hermes_config.settings import TerminalSettings
from tools.backends import supervised
from tools.backends.background import SupervisedBackend, spawn
from tools.backends.base import AskHost, BackendFailed, Command, Finished, ProcessHandle, RecordHandle, record_nothing
from tools.backends.box import PROXY_PORT, Box
from tools.backends.environment import child_environment, hide_our_memory
from tools.backends.files import HostFiles
from tools.backends.hints import REFUSED_BY_PROXY, explain_failure
from tools.backends.policy import SANDBOX_PATH, SandboxPolicy
from tools.backends.proxy import PROXY_NAME, Proxy
from tools.backends.sandbox import Cgroups, SandboxLimits, find_cgroups
from tools.backends.search import Searcher
from tools.backends.usage import DiskUse, WorkspaceUse, describe_overuse
from tools.url_guard import UrlGuard

T = TypeVar("T")
_PASSTHROUGH = ("LANG", "LANGUAGE", "TERM", "TZ")
_WATCH_SECONDS = 1.0
_NICENESS, _LOWEST = 10, 19


class BubblewrapBackend(SupervisedBackend):
    """The sandbox of one conversation."""

    name = "sandbox"
    isolates = True
    shares_host_files = False
    accepts_sudo = False

    def __init__(
        self,
        policy: SandboxPolicy,
        *,
        limits: SandboxLimits | None = None,
        guard: UrlGuard | None = None,
        settings: TerminalSettings | None = None,
        env_passthrough: Sequence[str] = (),
    ) -> None:
        self.policy = policy
        self._limits = limits or SandboxLimits()
        self._settings = settings or TerminalSettings()
        self._env_passthrough = tuple(env_passthrough)
        self._box = Box(policy, self._limits)
        self._ask_host: AskHost | None = None
        self._is_new_host: Callable[[str], bool] = lambda host: False
        self._running: list[Callable[[str], bool]] = []
        self._spawned: list[tuple[ProcessHandle, Callable[[str], bool]]] = []  # with what each thinks of hosts
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._proxy = Proxy(guard or UrlGuard(), self._may_connect)
        self.has_network = policy.network != "off"
        self.home = str(policy.home)
        self._use: WorkspaceUse | DiskUse
        if self._limits.workspace_mb is None:
            self._use = DiskUse(folder=policy.workspace, min_free_bytes=self._limits.min_free_mb * 1_000_000)
        else:
            most = self._limits.workspace_mb * 1_000_000
            self._use = WorkspaceUse(folders=(policy.workspace, policy.scratch), max_bytes=most)
        self.files = HostFiles(
            places=policy.folders,
            hidden=policy.closed,
            follows_links=policy.user_home is not None,
            searcher=Searcher(ripgrep=shutil.which("rg", path=SANDBOX_PATH) or "", run=self.run),
            room_bytes=self._use.room_bytes,
            prepare=policy.make_folders,
        )

    @property
    def outputs(self) -> Path:
        return self.policy.outputs

    @cached_property
    def _cgroups(self) -> Cgroups | None:
        return find_cgroups(self._limits)

    @property
    def limits_in_force(self) -> str:
        return describe_limits(self._limits, self._cgroups)

    @property
    def bounds_processes(self) -> bool:
        return self._cgroups is not None or os.geteuid() != 0

    async def run(self, command: Command) -> Finished:
        timeout, most = command.limits(self._settings)
        check = command.is_new_host
        self._running += [check] if check else []
        hit_before = (0, 0)

        async def run(spec: supervised.LaunchSpec) -> Finished:
            nonlocal hit_before
            hit_before = self._box.group.count_limits_hit() if self._box.group else (0, 0)
            return await self._run_watched(spec, most, keeps_output=command.keeps_output)

        try:
            finished = await self._launch(command, timeout, run)
        finally:
            if check:
                self._running.remove(check)
        notes = [finished.note, self._describe_limits_hit(hit_before)]
        if command.text and (finished.exit_code or REFUSED_BY_PROXY in finished.output):
            notes.append(explain_failure(command.text, finished.output, self.policy))
        return replace(finished, note=" ".join(filter(None, notes)))

    async def spawn(self, command: Command, record: RecordHandle = record_nothing) -> ProcessHandle:
        use = self._use if isinstance(self._use, WorkspaceUse) else None  # of a disk, its supervisor takes care
        handle = await self._launch(
            command, command.timeout_seconds, lambda spec: spawn(spec, self.outputs, self.name, record, use)
        )
        if command.is_new_host:
            statuses = await self.statuses([handle for handle, _ in self._spawned])
            running = [one for one in self._spawned if statuses[one[0].id].is_running]
            self._spawned = [*running, (handle, command.is_new_host)]
        return handle

    def _describe_limits_hit(self, before: tuple[int, int]) -> str:
        killed, refused = self._box.group.count_limits_hit() if self._box.group else (0, 0)
        notes = []
        if killed > before[0]:
            notes.append("A process was killed because it used more memory than allowed.")
        if refused > before[1]:
            notes.append("It reached the limit on processes and could not start more.")
        return " ".join(notes)

    async def _launch(
        self, command: Command, timeout_seconds: float | None, start: Callable[[supervised.LaunchSpec], Awaitable[T]]
    ) -> T:
        """Start a command, in a new sandbox if the one that ran has just ended."""
        try:
            return await start(await self._launch_spec(command, timeout_seconds))
        except supervised.BoxGone:
            self._box.forget()
            return await start(await self._launch_spec(command, timeout_seconds))

    async def _launch_spec(self, command: Command, timeout_seconds: float | None) -> supervised.LaunchSpec:
        """Make sure that the sandbox runs; describe the command to it."""
        hide_our_memory()
        self._ask_host = command.ask_host or self._ask_host
        self._is_new_host = command.is_new_host or self._is_new_host
        await self._box.ensure(self._cgroups)
        if self.has_network:
            await self._proxy.ensure(self.policy.state / "net" / PROXY_NAME)
        rlimits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": await asyncio.to_thread(self._use.room_bytes)}
        if self._cgroups is None:
            rlimits["RLIMIT_DATA"] = self._limits.memory_mb * 1_000_000
            if self.bounds_processes:
                rlimits["RLIMIT_NPROC"] = self._limits.max_processes
            if timeout_seconds is not None:
                rlimits["RLIMIT_CPU"] = int(timeout_seconds) + 10
        spec = supervised.prepare(command, str(self.policy.workspace), self._environment(), timeout_seconds)
        return replace(
            spec,
            rlimits=rlimits,
            niceness=_LOWEST if self._limits.comes_last else _NICENESS,
            box=self._box.address,
            spares=self._spared_disks(),
            shell=self._shell(command),
            sudo_password="",
        )

    def _spared_disks(self) -> dict[str, int]:
        """Return the free bytes that stay on each disk a command of the owner can fill."""
        if not isinstance(self._use, DiskUse):
            return {}
        folders = (self.policy.workspace, self.policy.scratch, *self.policy.writable)
        return dict.fromkeys(map(str, folders), self._use.min_free_bytes)

    def _shell(self, command: Command) -> supervised.ShellSetup | None:
        """Have the shell report its state to the sandbox's /tmp, the only folder of ours that is writable there."""
        if command.variables is None:
            return None
        name = f".shell-{secrets.token_hex(6)}"
        report = self.policy.scratch / name
        named = f"/tmp/{name}"  # noqa: S108  # the sandbox's own
        return supervised.ShellSetup(variables=command.variables, report=report, report_named=named)

    def _environment(self) -> dict[str, str]:
        chosen = child_environment(self._env_passthrough, ordinary=_PASSTHROUGH)
        path = child_environment()["PATH"] if self.policy.user_home else SANDBOX_PATH
        own = {"PATH": path, "HOME": self.home, "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/bash"}
        if self.policy.user_home:
            own["GOPATH"] = f"{self.home}/.cache/go"  # ~/go cannot be written
        return chosen | own | (_PROXY_VARIABLES if self.has_network else {})

    async def _may_connect(self, host: str) -> bool:
        """Return whether the network is there for a host; ask once for each, where it is on only for new ones."""
        # Nobody can tell whose connection it is, so all that may be running must agree.
        checks = [self._is_new_host, *self._running, *(check for _, check in self._spawned)]
        is_new = await asyncio.to_thread(lambda: any(check(host) for check in checks))
        if self.policy.network != "ask" and not is_new:
            return True
        if host not in self._asked and self._ask_host is not None:
            self._asked[host] = asyncio.ensure_future(self._ask_host(host))
        # Shielded: the answer counts for the next connection even if this one was given up.
        return host in self._asked and await asyncio.shield(self._asked[host])

    async def close(self) -> None:
        """Close the way to the network, and end the sandbox once nothing runs in it."""
        self._proxy.close()
        await asyncio.to_thread(self._box.close)

    async def _run_watched(self, spec: supervised.LaunchSpec, max_output_chars: int, *, keeps_output: bool) -> Finished:
        """Run a command, and end it when it fills the disk: RLIMIT_FSIZE limits single files, not their number."""
        run = supervised.run(spec, self.outputs, max_output_chars=max_output_chars, keeps_output=keeps_output)
        if isinstance(self._use, DiskUse):  # its supervisor watches that
            return await run
        running = asyncio.create_task(run)
        try:
            at_start = await asyncio.to_thread(self._use.used_bytes)
            while not (await asyncio.wait({running}, timeout=_WATCH_SECONDS))[0]:
                if await asyncio.to_thread(self._use.used_bytes) > max(at_start, self._use.max_bytes):
                    raise BackendFailed(f"The command was ended: {describe_overuse(self._use.max_bytes)}")
            return running.result()
        finally:
            running.cancel()
            await asyncio.wait({running})


_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_NOT_PROXIED = "localhost,127.0.0.1,::1"
_PROXY_VARIABLES = {
    name: _PROXY for kind in ("http", "https", "all") for name in (f"{kind}_proxy", f"{kind}_proxy".upper())
}
_PROXY_VARIABLES |= {"no_proxy": _NOT_PROXIED, "NO_PROXY": _NOT_PROXIED, "NODE_USE_ENV_PROXY": "1"}


def describe_limits(limits: SandboxLimits, cgroups: Cgroups | None) -> str:
    """Describe to the operator what limits a command in a sandbox."""
    memory, processes = f"{limits.memory_mb} MB of memory", f"{limits.max_processes} processes"
    disk = f"a workspace of {limits.workspace_mb} MB, measured every few seconds (there is no quota)"
    if cgroups is not None:
        return f"by control groups (version {cgroups.version}): {memory} and {processes}; {disk}"
    if os.geteuid() == 0:
        processes = "no limit on the number of processes, since there are no control groups and root has none"
    return f"by resource limits, since there are no control groups: {memory} for each process; {processes}; {disk}"
