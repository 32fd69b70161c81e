"""Build workplaces: a local one for the owner of the machine, a sandboxed one for everybody else.

The only module besides the wiring that knows which backends there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends.background import BackgroundProcesses
from tools.backends.base import ProcessBackends, Workplace
from tools.backends.bubblewrap import BubblewrapBackend, describe_sandbox_limits
from tools.backends.local import LocalBackend
from tools.backends.sandbox import SandboxLimits, SandboxProblem, find_features


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Settings of commands that every backend has."""

    timeout_seconds: float = 180
    max_output_chars: int = 50_000
    env_passthrough: tuple[str, ...] = ()


def build_workplace(
    settings: TerminalSettings, folder: Path, *, home: Home, private: Path, is_owner: bool
) -> Workplace:
    """Build the workplace of a person. Only the owner may work outside of a sandbox, or get variables of ours.

    `private` is a folder for long outputs, and for the sandbox's /tmp. Raises BackendFailed.
    """
    options = RunOptions(
        timeout_seconds=settings.timeout_seconds,
        max_output_chars=settings.max_output_chars,
        env_passthrough=settings.env_passthrough,
    )
    if is_owner and settings.backend == "local":
        return local_workplace(folder, home=home, outputs=private / "outputs", options=options)
    return sandboxed_workplace(
        folder,
        home=home,
        private=private,
        network=settings.bubblewrap.network,
        limits=_sandbox_limits(settings),
        options=options if is_owner else replace(options, env_passthrough=()),
    )


def process_backends() -> ProcessBackends:
    """Return every backend that may have started a background process."""
    return {backend.name: BackgroundProcesses() for backend in (LocalBackend, BubblewrapBackend)}


def check_sandbox() -> None:
    """Raise BackendFailed, with the reason, where no sandbox can be made. Blocks."""
    find_features()


def sandbox_problem() -> str:
    """Return why no sandbox can be made here; empty when one can. Blocks."""
    try:
        find_features()
    except SandboxProblem as error:
        return str(error)
    return ""


def describe_limits(settings: TerminalSettings) -> str:
    """Describe to the operator what limits commands in this process's sandboxes."""
    return describe_sandbox_limits(_sandbox_limits(settings))


def _sandbox_limits(settings: TerminalSettings) -> SandboxLimits:
    box = settings.bubblewrap
    return SandboxLimits(memory_mb=box.memory_mb, max_processes=box.max_processes, workspace_mb=box.workspace_mb)


def local_workplace(
    folder: Path, *, home: Home, outputs: Path | None = None, options: RunOptions | None = None
) -> Workplace:
    """Build a workplace on this machine, as our own user. The file tools cannot touch our own secrets and state."""
    options = options or RunOptions()
    backend = LocalBackend(
        workspace=folder,
        outputs=outputs,
        closed=_closed(home),
        timeout_seconds=options.timeout_seconds,
        max_output_chars=options.max_output_chars,
        env_passthrough=options.env_passthrough,
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
    options: RunOptions | None = None,
) -> Workplace:
    """Build a workplace in a sandbox that contains only the folder. Raises BackendFailed if that contains our home.

    Everybody who works there can read the variables that `options` passes on: pass none to others than the owner.
    """
    options = options or RunOptions()
    backend = BubblewrapBackend(
        workspace=folder,
        private=private,
        hidden=(home.root,),
        network=network,
        limits=limits,
        timeout_seconds=options.timeout_seconds,
        max_output_chars=options.max_output_chars,
        env_passthrough=options.env_passthrough,
    )
    where = backend.home
    return Workplace(backend=backend, workspace=where, current_folder=where, kept_outputs=str(backend.outputs))


def _closed(home: Home) -> Sequence[Path]:
    database = [home.database.with_name(home.database.name + ending) for ending in ("", "-wal", "-shm")]
    return (home.env_file, *database, home.mark_file, home.backups)
