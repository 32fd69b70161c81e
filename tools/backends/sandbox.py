"""Find what sandboxes need from this machine: a working `bwrap`, control groups for limits.

Control groups of version 2 need a folder that was delegated to us with the controllers switched on for its children,
as in a service with `Delegate=cpu memory pids` and `DelegateSubgroup=`; version 1 any folder that we may write to.
"""

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.backends.base import BackendFailed

MISSING = "The sandbox needs bubblewrap, which is not installed."
_INSTALL = "apt install bubblewrap"
# Settings of the kernel that forbid sandboxes: name, value, reason, what to do.
_SWITCHES = (
    (
        "user.max_user_namespaces",
        "0",
        "user namespaces are switched off (user.max_user_namespaces is 0)",
        "sysctl -w user.max_user_namespaces=15000, and the same in /etc/sysctl.d",
    ),
    (
        "kernel.unprivileged_userns_clone",
        "0",
        "only root may make user namespaces (kernel.unprivileged_userns_clone is 0)",
        "sysctl -w kernel.unprivileged_userns_clone=1, and the same in /etc/sysctl.d",
    ),
    (
        "kernel.apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor does not let bwrap make user namespaces",
        "apt install apparmor-profiles and enable its profile bwrap-userns-restrict, or sysctl -w "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
_CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
_SHARED_MEMORY_BYTES = 64_000_000
_OPTIONAL = ("--disable-userns", "--size")
_PROBE_SECONDS = 20.0
_CONTROLLERS = ("memory", "pids")
_OPTIONAL_CONTROLLER = "cpu"  # gives commands a low share of busy processors
_GROUP_PREFIX = "hermes-"
_NEW_GROUP_SECONDS = 60.0


class SandboxProblem(BackendFailed):
    """No sandbox can be made on this machine; the text says why, and `fix` what to do."""

    def __init__(self, text: str, fix: str) -> None:
        super().__init__(text)
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    memory_mb: int = 2048
    max_processes: int = 256
    workspace_mb: int | None = 2048  # None for folders that are the owner's anyway
    min_free_mb: int = 0  # disk space that stays free
    comes_last: bool = True  # whether it gets only the processors that nobody else wants


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFeatures:
    """The installed bubblewrap: its path, and which of the optional options it supports."""

    program: str
    options: frozenset[str]


@cache
def find_features() -> SandboxFeatures:
    """Find out what bubblewrap can do here, once per process. Raises SandboxProblem when no sandbox can be made."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxProblem(MISSING, _INSTALL)
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    known = frozenset(option for option in _OPTIONAL if option in shown.stdout + shown.stderr)
    problem = ""
    for options in dict.fromkeys((known, known - {"--disable-userns"})):
        features = SandboxFeatures(program=program, options=options)
        if not (problem := _try_sandbox(features)):
            return features
    reason, fix = _diagnose()
    raise SandboxProblem(f"No sandbox can be made on this machine: {reason} (bwrap says: {problem}).", fix)


def _try_sandbox(features: SandboxFeatures) -> str:
    """Run `true` in a sandbox; return the problem, empty when there is none."""
    argv = [features.program, *namespaces(features), "--ro-bind", "/", "/", *devices(features), "true"]
    try:
        tried = subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return "" if tried.returncode == 0 else tried.stderr.strip()[:200] or f"exit code {tried.returncode}"


def _diagnose(root: Path = Path("/")) -> tuple[str, str]:
    """Return the probable reason why bubblewrap fails, and what to do about it."""
    for name, bad, reason, fix in _SWITCHES:
        with suppress(OSError):
            if (root / "proc/sys" / name.replace(".", "/")).read_text(encoding="ascii").strip() == bad:
                return reason, fix
    if any((root / mark).exists() for mark in _CONTAINER_MARKS):
        return "this container allows no user namespaces", (
            "start the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or set "
            "terminal.backend to local"
        )
    return "user namespaces are not allowed", "allow user namespaces for this user, or set terminal.backend to local"


def namespaces(features: SandboxFeatures) -> list[str]:
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"),
        *(("--disable-userns",) if "--disable-userns" in features.options else ()),
        *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
        *("--cap-drop", "ALL", "--new-session"),
    ]


def devices(features: SandboxFeatures) -> list[str]:
    sized = ("--size", str(_SHARED_MEMORY_BYTES)) if "--size" in features.options else ()
    return [
        # If the gateway is root, its user owns the kernel's settings and needs no capability to change them.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *("--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"),
        *("--dev", "/dev", *sized, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
    ]


# Limits.


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The control group of one sandbox; in version 1 a folder for each controller."""

    folders: tuple[Path, ...]

    def count_limits_hit(self) -> tuple[int, int]:
        """Return how often a process was killed for its memory, and how often one could not be started."""
        return (
            _read_counter(self.folders, ("memory.events", "memory.oom_control"), "oom_kill"),
            _read_counter(self.folders, ("pids.events",), "max"),
        )

    def remove(self) -> None:
        for folder in self.folders:
            with suppress(OSError):  # still in use; the next start removes it
                folder.rmdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroups:
    """The parent folder for control groups, and the limits to set."""

    version: int
    parents: tuple[Path, ...]
    limits: SandboxLimits

    def make(self) -> Group:
        """Make a group for one sandbox. Raises OSError."""
        _remove_stale(self.parents)
        name = f"{_GROUP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        group = Group(folders=tuple(parent / name for parent in self.parents))
        try:
            for folder in group.folders:
                folder.mkdir()
                _set_limits(folder, self._settings())
        except OSError:
            group.remove()
            raise
        return group

    def _settings(self) -> Mapping[str, int]:
        memory, processes = self.limits.memory_mb * 1_000_000, self.limits.max_processes
        if self.version == 2:
            least = {"cpu.weight": 1} if self.limits.comes_last else {}
            return {"memory.max": memory, "memory.swap.max": 0, "pids.max": processes} | least
        least = {"cpu.shares": 2} if self.limits.comes_last else {}
        return {"memory.limit_in_bytes": memory, "pids.max": processes} | least


def find_cgroups(limits: SandboxLimits, proc: Path = Path("/proc/self")) -> Cgroups | None:
    """Find control groups that work, by trying them; None when there are none."""
    for version, parents in _candidates(proc):
        found = Cgroups(version=version, parents=parents, limits=limits)
        try:
            found.make().remove()
        except OSError:
            continue
        return found
    return None


def _candidates(proc: Path) -> Iterator[tuple[int, tuple[Path, ...]]]:
    ours = _our_folders(proc)
    if unified := ours.get(""):
        for folder in (unified, unified.parent):
            with suppress(OSError):
                switched_on = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
                if set(_CONTROLLERS) <= set(switched_on):
                    yield 2, (folder,)
    for wanted in ((*_CONTROLLERS, _OPTIONAL_CONTROLLER), _CONTROLLERS):
        if all(controller in ours for controller in wanted):
            yield 1, tuple(dict.fromkeys(ours[controller] for controller in wanted))


def _our_folders(proc: Path) -> dict[str, Path]:
    """Return our folder in each hierarchy, by controller; the unified one has no name."""
    mounts: dict[str, Path] = {}
    found: dict[str, Path] = {}
    with suppress(OSError, ValueError):
        for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind == "cgroup2":
                mounts[""] = Path(before.split()[4])
            elif kind == "cgroup":
                mounts |= dict.fromkeys(
                    set(options.split(",")) & {*_CONTROLLERS, _OPTIONAL_CONTROLLER}, Path(before.split()[4])
                )
        for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            for name in names.split(","):
                if name in mounts:
                    found[name] = mounts[name] / path.lstrip("/")
    return {name: folder for name, folder in found.items() if folder.is_dir()}


def _set_limits(folder: Path, limits: Mapping[str, int]) -> None:
    """Write the limits that this folder has files for. Raises OSError when one cannot be set."""
    written = 0
    for name, most in limits.items():
        if (folder / name).exists():
            (folder / name).write_text(str(most), encoding="ascii")
            written += name != "memory.swap.max"
    if not written:
        raise FileNotFoundError(2, "no limits to set", str(folder))


def _remove_stale(parents: tuple[Path, ...]) -> None:
    """Remove groups of sandboxes that have ended. One in use cannot be removed, and a new one may be about to be."""
    for parent in parents:
        for folder in parent.glob(f"{_GROUP_PREFIX}*-*"):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _NEW_GROUP_SECONDS:
                    folder.rmdir()


def _read_counter(folders: tuple[Path, ...], files: tuple[str, ...], name: str) -> int:
    for folder in folders:
        for file in files:
            with suppress(OSError, ValueError):
                for line in (folder / file).read_text(encoding="ascii").splitlines():
                    if line.startswith(f"{name} "):
                        return int(line.split()[1])
    return 0
