"""What is there inside of a sandbox, as the arguments of `bwrap`."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hermes_config.places import make_private
from tools.backends.base import BackendFailed

SANDBOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MISSING = (
    "The sandbox needs bubblewrap, which is not installed: install the package bubblewrap (apt install bubblewrap)."
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    *("alternatives", "ca-certificates", "crypto-policies", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("mime.types", "nsswitch.conf", "os-release", "pki", "ssl", "terminfo", "timezone"),
)
_ETC_NETWORK = ("gai.conf", "host.conf", "hosts", "protocols", "resolv.conf", "services")
_SHARED_MEMORY_BYTES = 64_000_000
_OPTIONAL = ("--disable-userns", "--size")
_PROBE_SECONDS = 20.0
# As sh and not as bwrap: only inside of the user namespace are other processes of ours not counted along.
_BOUND_PROCESSES = 'if (ulimit -u "$0") 2>/dev/null; then ulimit -u "$0"; else ulimit -p "$0"; fi; exec "$@"'
# The session that bwrap begins has no terminal: without one of its own the command would hear no Ctrl-C.
_TAKE_TERMINAL = 'command -v setsid >/dev/null && exec setsid -c "$@"; exec "$@"'


class SandboxProblem(Exception):
    """Why there can be no sandbox here, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFeatures:
    program: str
    options: frozenset[str]  # of those that not every version knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    workspace: Path
    private: Path
    hidden: tuple[Path, ...]
    network: bool

    @classmethod
    def of(cls, *, workspace: Path, private: Path, hidden: Sequence[Path], network: bool) -> "Sandbox":
        """Raises BackendFailed for a workspace that would let out what is hidden."""
        real = Path(os.path.realpath(workspace))
        secret = tuple(Path(os.path.realpath(path)) for path in (*hidden, private))
        if real == Path("/") or any(path.is_relative_to(real) for path in secret):
            raise BackendFailed(f"{real} cannot be a sandbox's workspace: files of Hermes itself lie in it.")
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
        """`processes` above 0 is a limit to be set inside; with `pty` the command takes the terminal it is given."""
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
            # Only where the system itself is shown could something hidden be seen at all.
            *_covered(self.hidden),
            *("--bind", str(self.workspace), str(self.workspace)),
            *("--ro-bind", str(self.outputs), str(self.outputs)),
            *("--remount-ro", "/", "--chdir", workdir, "--"),
            *inner,
        ]


@cache
def find_features() -> SandboxFeatures:
    """Raises SandboxProblem when a sandbox cannot be made here. Tried once: a machine does not change its mind."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxProblem(MISSING)
    told = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    known = frozenset(option for option in _OPTIONAL if option in told.stdout + told.stderr)
    problem = ""
    for options in dict.fromkeys((known, known - {"--disable-userns"})):
        features = SandboxFeatures(program=program, options=options)
        if not (problem := _problem(features)):
            return features
    raise SandboxProblem(
        f"The sandbox cannot be made on this machine: {problem}. Allow user namespaces to this user, or choose another "
        "backend."
    )


def _problem(features: SandboxFeatures) -> str:
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
        # Where the gateway is root, its user owns the kernel's switches, and needs no capability to turn them.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *("--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"),
        *("--dev", "/dev", *sized, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),  # noqa: S108
    ]


def _covered(hidden: Sequence[Path]) -> list[str]:
    arguments: list[str] = []
    for path in hidden:
        if path.is_dir() and any(path.is_relative_to(folder) for folder in _SYSTEM):
            arguments += ["--tmpfs", str(path)]
    return arguments
