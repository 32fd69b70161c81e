"""Run commands on this machine as our own user: not isolated, but leaving nothing behind and getting no secrets."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from hermes_config.settings import TerminalSettings
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
        settings: TerminalSettings | None = None,
    ) -> None:
        self._workspace = str(workspace)
        self._outputs = outputs
        self._settings = settings or TerminalSettings()
        self.home = os.path.expanduser("~")
        self.files = HostFiles(
            places=lambda: (BackendFolder(spelled=Path("/"), real=Path("/")),),
            searcher=Searcher(ripgrep=shutil.which("rg") or "", run=self.run),
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
        timeout, most = command.limits(self._settings)
        spec = self._launch_spec(command, timeout)
        return await supervised.run(spec, self.outputs, max_output_chars=most, keeps_output=command.keeps_output)

    async def spawn(self, command: Command, record: RecordHandle = record_nothing) -> ProcessHandle:
        return await spawn(self._launch_spec(command, command.timeout_seconds), self.outputs, self.name, record)

    def _launch_spec(self, command: Command, timeout_seconds: float | None) -> supervised.LaunchSpec:
        hide_our_memory()
        environment = child_environment(self._settings.env_passthrough)
        return supervised.prepare(command, self._workspace, environment, timeout_seconds)
