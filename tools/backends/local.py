"""Run commands on this machine as our own user: not isolated, but leaving nothing behind and getting no secrets."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from tools.backends import supervised
from tools.backends.background import SupervisedBackend, spawn
from tools.backends.base import Command, Finished, ProcessHandle, RecordHandle, record_nothing
from tools.backends.environment import child_environment, hide_our_memory
from tools.backends.files import HostFiles
from tools.backends.search import BackendFolder, Searcher


class LocalBackend(SupervisedBackend):
    """This machine itself. `closed` are files that the file tools must not touch, such as the home's secrets."""

    name = "local"
    isolates = False
    shares_host_files = True
    has_network = True
    accepts_sudo = True
    limits_in_force = "a time limit only: commands may do whatever the gateway's user may do"

    def __init__(
        self,
        *,
        workspace: Path,
        outputs: Path | None = None,
        closed: Sequence[Path] = (),
        timeout_seconds: float = 180,
        max_output_chars: int = 50_000,
        env_passthrough: Sequence[str] = (),
    ) -> None:
        self._workspace = str(workspace)
        self._outputs = outputs
        self._timeout_seconds = timeout_seconds
        self._max_output_chars = max_output_chars
        self._env_passthrough = tuple(env_passthrough)
        self.home = os.path.expanduser("~")
        self.files = HostFiles(
            places=(BackendFolder(spelled=Path("/"), real=Path("/")),),
            searcher=Searcher(ripgrep=shutil.which("rg") or "", run=self.run, helper=self.run),
            closed=closed,
            follows_links=True,
        )

    @property
    def outputs(self) -> Path:
        """Return the folder of outputs, created when first needed; a temporary one is deleted when we exit."""
        if self._outputs is None:
            self._outputs = Path(tempfile.mkdtemp(prefix="hermes-outputs-"))
            weakref.finalize(self, shutil.rmtree, self._outputs, ignore_errors=True)
        return self._outputs

    async def run(self, command: Command) -> Finished:
        timeout = self._timeout_seconds if command.timeout_seconds is None else command.timeout_seconds
        most = self._max_output_chars if command.max_output_chars is None else command.max_output_chars
        spec = self._launch_spec(command, timeout)
        return await supervised.run(spec, self.outputs, max_output_chars=most, keeps_output=command.keeps_output)

    async def spawn(self, command: Command, record: RecordHandle = record_nothing) -> ProcessHandle:
        return await spawn(self._launch_spec(command, command.timeout_seconds), self.outputs, self.name, record)

    def _launch_spec(self, command: Command, timeout_seconds: float | None) -> supervised.LaunchSpec:
        hide_our_memory()
        workdir = command.workdir or self._workspace
        # With PWD, a folder keeps the name by which it was entered, even if that is a link.
        more = {"PWD": workdir} | ({"TERM": supervised.PTY_TERM} if command.pty else {}) | dict(command.environment)
        return supervised.LaunchSpec(
            argv=supervised.argv_of(command),
            workdir=workdir,
            environment=child_environment(self._env_passthrough) | more,
            timeout_seconds=timeout_seconds,
            stdin=command.stdin,
            interactive=command.interactive,
            pty=command.pty,
            shell=None if command.variables is None else supervised.ShellSetup(variables=command.variables),
            sudo_password=command.sudo_password,
        )
