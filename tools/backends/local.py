"""Commands on this machine, as the user that we are: no isolation, but nothing left behind and no secret passed on."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from tools.backends import supervised
from tools.backends.base import BackendFailed, Command, Finished, Spawned, WriteDown, nobody_asks
from tools.backends.environment import child_environment, hide_our_memory
from tools.backends.files import HostFiles
from tools.backends.keeping import KeepingBackend
from tools.backends.search import BackendFolder, Searcher
from tools.backends.shell import Shell

SHELL = ("/bin/bash", "/bin/sh")
PTY_TERM = "xterm-256color"


class LocalBackend(KeepingBackend):
    """`closed` are files and folders that the file tools leave alone, such as the home's secrets."""

    name = "local"
    is_isolated = False
    has_network = True
    limits_in_force = "a time limit, and nothing else: commands may do what the gateway's user may do"

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
        """Made when it is first needed; one that nobody chose is removed with us."""
        if self._outputs is None:
            self._outputs = Path(tempfile.mkdtemp(prefix="hermes-outputs-"))
            weakref.finalize(self, shutil.rmtree, self._outputs, ignore_errors=True)
        return self._outputs

    async def run(self, command: Command) -> Finished:
        timeout = self._timeout_seconds if command.timeout_seconds is None else command.timeout_seconds
        most = self._max_output_chars if command.max_output_chars is None else command.max_output_chars
        order = self._order(command, timeout)
        return await supervised.run(order, self.outputs, max_output_chars=most, keeps_output=command.keeps_output)

    async def spawn(self, command: Command, write_down: WriteDown = nobody_asks) -> Spawned:
        return await supervised.spawn(self._order(command, command.timeout_seconds), self.outputs, write_down)

    def _order(self, command: Command, timeout_seconds: float | None) -> supervised.Order:
        hide_our_memory()
        workdir = command.workdir or self._workspace
        # With PWD a folder keeps the name by which it was entered, also where that is a link.
        more = {"PWD": workdir} | ({"TERM": PTY_TERM} if command.pty else {}) | dict(command.environment)
        return supervised.Order(
            argv=argv_of(command),
            workdir=workdir,
            environment=child_environment(self._env_passthrough) | more,
            timeout_seconds=timeout_seconds,
            stdin=command.stdin,
            interactive=command.interactive,
            pty=command.pty,
            shell=None if command.variables is None else Shell(variables=command.variables),
            sudo_password=command.sudo_password,
        )


def argv_of(command: Command) -> tuple[str, ...]:
    if command.argv:
        return command.argv
    if not command.text.strip():
        raise BackendFailed("There is no command to run.")
    return (next((shell for shell in SHELL if os.path.exists(shell)), SHELL[-1]), "-c", command.text)
