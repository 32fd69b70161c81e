"""Limits that the kernel keeps for a whole tree of processes: control groups, where we may make some.

Version 2 needs a folder that was delegated to us with the controllers switched on for its children, such as a service
with `Delegate=cpu memory pids` and `DelegateSubgroup=` has; version 1 any folder that we may write to.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CONTROLLERS = ("memory", "pids")
_IF_THERE = "cpu"  # a command then gets little of the processors that others want, however many it is
_PREFIX = "hermes-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    memory_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """For one command; in version 1 there is a folder for each controller."""

    folders: tuple[Path, ...]

    def told(self) -> str:
        """Which limit the command has run into, in words for the model; empty when into none."""
        notes = []
        if _counted(self.folders, ("memory.events", "memory.oom_control"), "oom_kill"):
            notes.append("A process was ended because it used more memory than is allowed here.")
        if _counted(self.folders, ("pids.events",), "max"):
            notes.append("It was not allowed to start more processes: there are as many as are allowed here.")
        return " ".join(notes)

    def remove(self) -> None:
        for folder in self.folders:
            with suppress(OSError):  # still in use; the next start removes it
                folder.rmdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroups:
    version: int
    parents: tuple[Path, ...]
    bounds: Bounds

    def make(self) -> Group:
        """Raises OSError."""
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        group = Group(folders=tuple(parent / name for parent in self.parents))
        try:
            for folder in group.folders:
                folder.mkdir()
                _set_limits(folder, self._limits())
        except OSError:
            group.remove()
            raise
        return group

    def _limits(self) -> Mapping[str, int]:
        memory, processes = self.bounds.memory_bytes, self.bounds.processes
        if self.version == 2:
            return {"memory.max": memory, "memory.swap.max": 0, "pids.max": processes, "cpu.weight": 1}
        return {"memory.limit_in_bytes": memory, "pids.max": processes, "cpu.shares": 2}


def find_cgroups(bounds: Bounds, proc: Path = Path("/proc/self")) -> Cgroups | None:
    """Those that really work, by trying; None when there are none."""
    for version, parents in _candidates(proc):
        found = Cgroups(version=version, parents=parents, bounds=bounds)
        try:
            found.make().remove()
        except OSError:
            continue
        _sweep(parents)
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
    for wanted in ((*_CONTROLLERS, _IF_THERE), _CONTROLLERS):
        if all(controller in ours for controller in wanted):
            yield 1, tuple(dict.fromkeys(ours[controller] for controller in wanted))


def _our_folders(proc: Path) -> dict[str, Path]:
    """Where we are in each hierarchy, by controller; the unified one has no name."""
    mounts: dict[str, Path] = {}
    found: dict[str, Path] = {}
    with suppress(OSError, ValueError):
        for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind == "cgroup2":
                mounts[""] = Path(before.split()[4])
            elif kind == "cgroup":
                mounts |= dict.fromkeys(set(options.split(",")) & {*_CONTROLLERS, _IF_THERE}, Path(before.split()[4]))
        for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            for name in names.split(","):
                if name in mounts:
                    found[name] = mounts[name] / path.lstrip("/")
    return {name: folder for name, folder in found.items() if folder.is_dir()}


def _set_limits(folder: Path, limits: Mapping[str, int]) -> None:
    """Raises OSError when a limit cannot be set; files of another controller's folder are not there."""
    written = 0
    for name, most in limits.items():
        if (folder / name).exists():
            (folder / name).write_text(str(most), encoding="ascii")
            written += name != "memory.swap.max"
    if not written:
        raise FileNotFoundError(2, "no limits to set", str(folder))


def _sweep(parents: tuple[Path, ...]) -> None:
    """Those of commands that outlived their gateway and have ended; one in use cannot be removed.

    One of a gateway that is alive may only just have been made, and nobody be in it yet.
    """
    for parent in parents:
        for folder in parent.glob(f"{_PREFIX}*-*"):
            if not Path("/proc", folder.name.split("-")[1]).exists():
                with suppress(OSError):
                    folder.rmdir()


def _counted(folders: tuple[Path, ...], files: tuple[str, ...], name: str) -> bool:
    for folder in folders:
        for file in files:
            with suppress(OSError):
                for line in (folder / file).read_text(encoding="ascii").splitlines():
                    if line.startswith(f"{name} ") and line != f"{name} 0":
                        return True
    return False
