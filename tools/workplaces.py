"""Builds workplaces: a local one for whoever owns the machine, a sandboxed one for everybody else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.base import Workplace
from tools.backends.bubblewrap import BubblewrapBackend, SandboxLimits
from tools.backends.local import LocalBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How commands are run, whatever the backend."""

    timeout_seconds: float = 180
    max_output_chars: int = 50_000
    env_passthrough: tuple[str, ...] = ()


def build_workplace(
    settings: TerminalSettings, folder: Path, *, home: Home, private: Path, is_owner: bool
) -> Workplace:
    """Whoever is not the owner gets a sandbox, whatever the settings say, and none of our variables.

    `private` is a folder for long outputs, and for the sandbox's /tmp. Raises BackendFailed.
    """
    manner = RunOptions(
        timeout_seconds=settings.timeout_seconds,
        max_output_chars=settings.max_output_chars,
        env_passthrough=settings.env_passthrough,
    )
    if is_owner and settings.backend == "local":
        return local_workplace(folder, home=home, outputs=private / "outputs", manner=manner)
    return sandboxed_workplace(
        folder,
        home=home,
        private=private,
        network=settings.bubblewrap.network,
        limits=sandbox_limits(settings),
        manner=manner if is_owner else replace(manner, env_passthrough=()),
    )


def sandbox_limits(settings: TerminalSettings) -> SandboxLimits:
    box = settings.bubblewrap
    return SandboxLimits(memory_mb=box.memory_mb, max_processes=box.max_processes, workspace_mb=box.workspace_mb)


def local_workplace(
    folder: Path, *, home: Home, outputs: Path | None = None, manner: RunOptions | None = None
) -> Workplace:
    """On this machine, as the user that we are. The file tools leave our own secrets and state alone."""
    manner = manner or RunOptions()
    backend = LocalBackend(
        workspace=folder,
        outputs=outputs,
        closed=_closed(home),
        timeout_seconds=manner.timeout_seconds,
        max_output_chars=manner.max_output_chars,
        env_passthrough=manner.env_passthrough,
    )
    where = str(folder)
    return Workplace(backend=backend, workspace=where, current_folder=where, kept_outputs=str(outputs or ""))


def sandboxed_workplace(
    folder: Path,
    *,
    home: Home,
    private: Path | None = None,
    network: bool = False,
    limits: SandboxLimits | None = None,
    manner: RunOptions | None = None,
) -> Workplace:
    """In a sandbox of its own, with nothing but the folder. Raises BackendFailed for one that holds our home.

    What `manner` passes through of our environment can be read by whoever works there: for others than the owner
    it should be nothing.
    """
    manner = manner or RunOptions()
    backend = BubblewrapBackend(
        workspace=folder,
        private=private,
        hidden=(home.root,),
        network=network,
        limits=limits,
        timeout_seconds=manner.timeout_seconds,
        max_output_chars=manner.max_output_chars,
        env_passthrough=manner.env_passthrough,
    )
    where = backend.home
    return Workplace(backend=backend, workspace=where, current_folder=where, kept_outputs=str(backend.outputs))


def _closed(home: Home) -> Sequence[Path]:
    database = [home.database.with_name(home.database.name + ending) for ending in ("", "-wal", "-shm")]
    return (home.env_file, *database, home.mark_file, home.backups)
