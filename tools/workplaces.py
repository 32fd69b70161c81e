"""Build workplaces: a sandbox for everybody, or the machine itself for an owner who wants that or has no sandbox.

The only module besides the wiring that knows which backends there are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools.backends import bubblewrap
from tools.backends.background import BackgroundProcesses
from tools.backends.base import ProcessBackends, Workplace
from tools.backends.bubblewrap import BubblewrapBackend
from tools.backends.local import LocalBackend
from tools.backends.policy import Network, SandboxPolicy
from tools.backends.remote.places import REMOTE, build_backend, remote_processes
from tools.backends.sandbox import SandboxLimits, SandboxProblem, find_cgroups, find_features
from tools.url_guard import UrlGuard

_OLDER_NAMES = {"bubblewrap": BubblewrapBackend}  # in handles of processes that an earlier version has started
_WORK_FOLDER = "hermes-work"  # for an owner whose working folder is their whole home


def build_workplace(
    settings: TerminalSettings,
    folder: Path,
    *,
    home: Home,
    private: Path,
    is_owner: bool,
    holder: str = "",
    guard: UrlGuard | None = None,
    comes_last: bool = True,
) -> Workplace:
    """Build the workplace of a person. Only the owner may work outside of a sandbox, or get variables of ours.

    `private` is a folder for long outputs and the sandboxes' own files; there is one sandbox for each `holder`. With
    `comes_last`, commands of others get only the processors that nobody else wants. Raises BackendFailed.
    """
    chosen = settings.backend if is_owner else settings.members_backend
    controls = process_backends(settings)
    outside = None
    if is_owner:
        here = local_workplace(folder, home=home, outputs=private / "outputs", settings=settings)
        outside = replace(here, holder=holder, controls=controls)
    if chosen in REMOTE:
        there = build_backend(settings, chosen, home, private, is_owner=is_owner)
        return Workplace(
            backend=there,
            workspace=there.workspace,
            current_folder=there.workspace,
            kept_outputs=there.place.state,
            holder=holder,
            outside=outside if there.isolates else None,
            controls=controls,
        )
    if outside and not runs_boxed(settings):
        return outside
    policy = _policy(settings, folder, home=home, private=private, is_owner=is_owner, holder=holder)
    backend = BubblewrapBackend(
        policy,
        limits=_sandbox_limits(settings, is_owner=is_owner, comes_last=comes_last),
        guard=guard,
        settings=settings,
        env_passthrough=settings.env_passthrough if is_owner else (),
    )
    return Workplace(
        backend=backend,
        workspace=str(policy.workspace),
        current_folder=str(policy.workspace),
        kept_outputs=str(backend.outputs),
        holder=holder,
        outside=outside,
        controls=controls,
    )


def runs_boxed(settings: TerminalSettings) -> bool:
    """Return whether the owner's commands run in a sandbox. Blocks, once."""
    return settings.backend == "sandbox" or (settings.backend == "auto" and not sandbox_problem())


def choose_folder(settings: TerminalSettings, folder: Path, home: Home) -> Path:
    """Return where the owner works: in a sandbox not in their whole home, and not in /tmp, of which it has its own."""
    above = (Path.home(), home.root, Path("/tmp"))  # noqa: S108
    if runs_boxed(settings) and any(path.resolve().is_relative_to(folder.resolve()) for path in above):
        return Path.home() / _WORK_FOLDER
    return folder


def _policy(
    settings: TerminalSettings, folder: Path, *, home: Home, private: Path, is_owner: bool, holder: str
) -> SandboxPolicy:
    box = settings.sandbox
    name = hashlib.sha256(f"{holder}\0{folder}".encode(errors="replace")).hexdigest()[:16]
    network: Network = box.network if is_owner else "on" if box.members_network else "off"
    return SandboxPolicy.of(
        workspace=folder,
        private=private,
        name=name,
        user_home=Path.home() if is_owner else None,
        readable=_paths(box.readable if is_owner else ()),
        writable=_paths(box.writable if is_owner else ()),
        hidden=_paths(box.hidden),
        ours=[home.root],
        network=network,
    )


def _paths(folders: Sequence[str]) -> list[Path]:
    return [Path(folder).expanduser() for folder in folders]


def needs_sandbox(settings: TerminalSettings, *, is_owner: bool) -> bool:
    """Return whether somebody's commands run in a sandbox on this machine. Blocks, once."""
    return runs_boxed(settings) if is_owner else settings.members_backend == "sandbox"


def works_elsewhere(settings: TerminalSettings, *, is_owner: bool) -> bool:
    """Return whether somebody's files are not on this machine."""
    return (settings.backend if is_owner else settings.members_backend) in REMOTE


def process_backends(settings: TerminalSettings | None = None) -> ProcessBackends:
    """Return every backend that may have started a background process."""
    names = (LocalBackend.name, BubblewrapBackend.name, *_OLDER_NAMES)
    here = {name: BackgroundProcesses() for name in names}
    return here if settings is None else {**here, **remote_processes(settings)}


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


def sandbox_fix() -> str:
    """Return what to do so that sandboxes can be made; empty when nothing is to do. Blocks."""
    try:
        find_features()
    except SandboxProblem as error:
        return error.fix
    return ""


def describe_limits(settings: TerminalSettings) -> str:
    """Describe to the operator what limits commands in this process's sandboxes."""
    limits = _sandbox_limits(settings, is_owner=False)
    return bubblewrap.describe_limits(limits, find_cgroups(limits))


def _sandbox_limits(settings: TerminalSettings, *, is_owner: bool, comes_last: bool = True) -> SandboxLimits:
    box = settings.sandbox
    if not is_owner:
        return SandboxLimits(
            memory_mb=box.memory_mb,
            max_processes=box.max_processes,
            workspace_mb=box.workspace_mb,
            comes_last=comes_last,
        )
    return SandboxLimits(
        memory_mb=box.owner_memory_mb,
        max_processes=box.owner_max_processes,
        workspace_mb=None,
        min_free_mb=box.min_free_mb,
        comes_last=False,
    )


def local_workplace(
    folder: Path, *, home: Home, outputs: Path | None = None, settings: TerminalSettings | None = None
) -> Workplace:
    """Build a workplace on this machine, as our own user. The file tools cannot touch our own secrets and state."""
    backend = LocalBackend(workspace=folder, outputs=outputs, closed=_closed(home), settings=settings)
    where = str(folder)
    return Workplace(backend=backend, workspace=where, current_folder=where, kept_outputs=str(outputs or ""))


def _closed(home: Home) -> Sequence[Path]:
    database = [home.database.with_name(home.database.name + ending) for ending in ("", "-wal", "-shm")]
    return (home.env_file, home.signing_key, home.mcp_logins, *database, home.mark_file, home.backups)
