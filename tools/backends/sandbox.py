"""A sandbox made by bubblewrap: the arguments of `bwrap`, control groups for its limits, and the size of its workspace.

Control groups of version 2 need a folder that was delegated to us with the controllers switched on for its children,
as in a service with `Delegate=cpu memory pids` and `DelegateSubgroup=`; version 1 any folder that we may write to.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hermes_config.places import make_private
from tools.backends.base import BackendFailed

SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MISSING = "The sandbox needs bubblewrap, which is not installed. Install it: apt install bubblewrap."
MAX_COUNTED_FILES = 300_000
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    *("alternatives", "ca-certificates", "crypto-policies", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("mime.types", "nsswitch.conf", "os-release", "pki", "ssl", "terminfo", "timezone"),
)
_ETC_NETWORK = ("gai.conf", "host.conf", "hosts", "protocols", "resolv.conf", "services")
_SHARED_MEMORY_BYTES = 64_000_000
_OPTIONAL = ("--disable-userns", "--size")
_PROBE_SECONDS = 20.0
_CONTROLLERS = ("memory", "pids")
_OPTIONAL_CONTROLLER = "cpu"  # gives commands a low share of busy processors
_GROUP_PREFIX = "hermes-"
_ENTRY_BYTES = 512  # even an empty file takes space
# Set by sh, not before bwrap: only inside the user namespace our other processes are not counted.
_BOUND_PROCESSES = 'if (ulimit -u "$0") 2>/dev/null; then ulimit -u "$0"; else ulimit -p "$0"; fi; exec "$@"'
# The session of bwrap has no terminal: the command must take its own, or it would get no Ctrl-C.
_TAKE_TERMINAL = 'command -v setsid >/dev/null && exec setsid -c "$@"; exec "$@"'


class SandboxProblem(BackendFailed):
    """No sandbox can be made on this machine; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    memory_mb: int = 2048
    max_processes: int = 256
    workspace_mb: int = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFeatures:
    """The installed bubblewrap: its path, and which of the optional options it supports."""

    program: str
    options: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The folders of one sandbox."""

    workspace: Path
    private: Path
    hidden: tuple[Path, ...]
    network: bool

    @classmethod
    def of(cls, *, workspace: Path, private: Path, hidden: Sequence[Path], network: bool) -> "Sandbox":
        """Resolve the folders. Raises BackendFailed for a workspace that contains a hidden folder."""
        real = Path(os.path.realpath(workspace))
        secret = tuple(Path(os.path.realpath(path)) for path in (*hidden, private))
        if real == Path("/") or any(path.is_relative_to(real) for path in secret):
            raise BackendFailed(f"{real} cannot be the workspace of a sandbox: it contains files of Hermes itself.")
        return cls(workspace=real, private=secret[-1], hidden=secret[:-1], network=network)

    @property
    def scratch(self) -> Path:
        return self.private / "tmp"

    @property
    def outputs(self) -> Path:
        return self.private / "outputs"

    def prepare(self) -> None:
        for folder in (self.workspace, self.scratch, self.outputs):
            make_private(folder)
        for name, line in (
            ("passwd", f"agent:x:1000:1000:agent:{self.workspace}:/bin/sh\n"),
            ("group", "agent:x:1000:\n"),
        ):
            if not (self.private / name).exists():
                (self.private / name).touch(mode=0o600)
                (self.private / name).write_text(line, encoding="utf-8")

    def argv(
        self, command: Sequence[str], *, workdir: str, features: SandboxFeatures, processes: int, pty: bool = False
    ) -> list[str]:
        """Return the `bwrap` command line. `processes` above 0 is a limit to set inside; with `pty` the command takes
        the terminal it is given."""
        inner = ["/bin/sh", "-c", _BOUND_PROCESSES, str(processes), *command] if processes else list(command)
        if pty:
            inner = ["/bin/sh", "-c", _TAKE_TERMINAL, "sh", *inner]
        return [
            features.program,
            *_namespaces(features, network=self.network),
            *_system(),
            *_etc(self.private, network=self.network),
            *_devices(features),
            *("--bind", str(self.scratch), "/tmp"),  # noqa: S108  # the sandbox's own
            *("--symlink", "/tmp", "/var/tmp"),  # noqa: S108
            # Only the folders of the system could contain something hidden.
            *_cover(self.hidden),
            *("--bind", str(self.workspace), str(self.workspace)),
            *("--ro-bind", str(self.outputs), str(self.outputs)),
            *("--remount-ro", "/", "--chdir", workdir, "--"),
            *inner,
        ]


@cache
def find_features() -> SandboxFeatures:
    """Find out what bubblewrap can do here, once per process. Raises SandboxProblem when no sandbox can be made."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxProblem(MISSING)
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    known = frozenset(option for option in _OPTIONAL if option in shown.stdout + shown.stderr)
    problem = ""
    for options in dict.fromkeys((known, known - {"--disable-userns"})):
        features = SandboxFeatures(program=program, options=options)
        if not (problem := _try_sandbox(features)):
            return features
    raise SandboxProblem(
        f"No sandbox can be made on this machine: {problem}. Allow user namespaces for this user, or choose another "
        "backend."
    )


def _try_sandbox(features: SandboxFeatures) -> str:
    """Run `true` in a sandbox; return the problem, empty when there is none."""
    argv = [features.program, *_namespaces(features, network=False), *_system(), *_devices(features), "true"]
    try:
        tried = subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return "" if tried.returncode == 0 else tried.stderr.strip()[:200] or f"exit code {tried.returncode}"


def _namespaces(features: SandboxFeatures, *, network: bool) -> list[str]:
    return [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if network else ("--unshare-net",)),
        *(("--disable-userns",) if "--disable-userns" in features.options else ()),
        *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
        *("--cap-drop", "ALL", "--new-session", "--die-with-parent"),
    ]


def _system() -> list[str]:
    arguments: list[str] = []
    for name in _SYSTEM:
        if os.path.islink(name):
            arguments += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            arguments += ["--ro-bind", name, name]
    return arguments


def _etc(private: Path, *, network: bool) -> list[str]:
    arguments: list[str] = []
    for name in (*_ETC, *(_ETC_NETWORK if network else ())):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in ("passwd", "group"):
        arguments += ["--ro-bind", str(private / name), f"/etc/{name}"]
    return arguments


def _devices(features: SandboxFeatures) -> list[str]:
    sized = ("--size", str(_SHARED_MEMORY_BYTES)) if "--size" in features.options else ()
    return [
        # If the gateway is root, its user owns the kernel's settings and needs no capability to change them.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *("--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"),
        *("--dev", "/dev", *sized, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
    ]


def _cover(hidden: Sequence[Path]) -> list[str]:
    arguments: list[str] = []
    for path in hidden:
        if path.is_dir() and any(path.is_relative_to(folder) for folder in _SYSTEM):
            arguments += ["--tmpfs", str(path)]
    return arguments


# Limits.


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The control group of one command; in version 1 a folder for each controller."""

    folders: tuple[Path, ...]

    def describe_limits_hit(self) -> str:
        """Tell the model which limits the command has reached; empty when none."""
        notes = []
        if _has_counted(self.folders, ("memory.events", "memory.oom_control"), "oom_kill"):
            notes.append("A process was killed because it used more memory than allowed.")
        if _has_counted(self.folders, ("pids.events",), "max"):
            notes.append("It reached the limit on processes and could not start more.")
        return " ".join(notes)

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
        """Make a group for one command. Raises OSError."""
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
            return {"memory.max": memory, "memory.swap.max": 0, "pids.max": processes, "cpu.weight": 1}
        return {"memory.limit_in_bytes": memory, "pids.max": processes, "cpu.shares": 2}


def find_cgroups(limits: SandboxLimits, proc: Path = Path("/proc/self")) -> Cgroups | None:
    """Find control groups that work, by trying them; None when there are none."""
    for version, parents in _candidates(proc):
        found = Cgroups(version=version, parents=parents, limits=limits)
        try:
            found.make().remove()
        except OSError:
            continue
        _remove_stale(parents)
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
    """Remove groups that dead gateways left behind. A group in use cannot be removed, and one of a living gateway may
    only just have been made."""
    for parent in parents:
        for folder in parent.glob(f"{_GROUP_PREFIX}*-*"):
            if not Path("/proc", folder.name.split("-")[1]).exists():
                with suppress(OSError):
                    folder.rmdir()


def _has_counted(folders: tuple[Path, ...], files: tuple[str, ...], name: str) -> bool:
    for folder in folders:
        for file in files:
            with suppress(OSError):
                for line in (folder / file).read_text(encoding="ascii").splitlines():
                    if line.startswith(f"{name} ") and line != f"{name} 0":
                        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceUse:
    """The disk space that a workspace uses. There are no quotas for folders, so files are counted."""

    folders: tuple[Path, ...]
    max_bytes: int

    def room_bytes(self) -> int:
        return max(0, self.max_bytes - self.used_bytes())

    def used_bytes(self) -> int:
        """Return the space on disk, following no links. With too many files to count, the workspace is full."""
        used = counted = 0
        waiting = [str(folder) for folder in self.folders]
        while waiting:
            with suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    counted += 1
                    if counted > MAX_COUNTED_FILES:
                        return self.max_bytes + 1
                    with suppress(OSError):
                        used += entry.stat(follow_symlinks=False).st_blocks * 512 + _ENTRY_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        return used
