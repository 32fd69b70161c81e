"""One running sandbox for the commands of one conversation: started when needed, found again after our restart.

Its first process (`box_child.py`) listens on a socket in our folder for it. A sandbox belongs to its policy: when the
settings have changed, the next command gets a new one, and the old one ends once nothing runs in it.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.backends.ancestry import peer_pid
from tools.backends.base import BackendFailed
from tools.backends.policy import SANDBOX_PATH, SandboxPolicy
from tools.backends.sandbox import Cgroups, Group, SandboxLimits, devices, find_features, namespaces
from tools.backends.seccomp import build_filter
from tools.backends.supervisor_child import connect, short_path
from tools.backends.usage import delete_tree

PROXY_PORT = 19_080  # on the sandbox's own loopback
IDLE_SECONDS = 600.0
_START_SECONDS = 120.0  # with the lowest priority on a busy machine
_KEPT_SECONDS = 30 * 86_400.0
_CODE = Path(__file__).parent
_INSIDE = "/run/hermes/tools/backends"
_START = "import sys; sys.path.append('/run/hermes'); from tools.backends.box_child import main; main()"
_VERSION = 1  # of what is inside: a sandbox of another version is not used again


class Box:
    """A sandbox. Cgroups are None where there are none."""

    def __init__(self, policy: SandboxPolicy, limits: SandboxLimits) -> None:
        self.policy = policy
        digest = hashlib.sha256(repr((_VERSION, policy, limits)).encode()).hexdigest()
        self.address = str(policy.state / f"control-{digest[:12]}")
        self.group: Group | None = None
        self._is_known = False
        self._lock = asyncio.Lock()

    async def ensure(self, cgroups: Cgroups | None) -> None:
        """Start the sandbox unless it runs. Raises BackendFailed."""
        async with self._lock:
            if not self._is_known:
                await asyncio.to_thread(self._find_or_start, cgroups)
                self._is_known = True

    def forget(self) -> None:
        """Have the next `ensure` look for it again: it has ended."""
        self._is_known = False

    def close(self) -> None:
        """Have it end as soon as nothing runs in it, instead of a while later."""
        signal_box(self.address, signal.SIGTERM)

    def _find_or_start(self, cgroups: Cgroups | None) -> None:
        with contextlib.ExitStack() as stack:
            try:
                self.policy.make_folders()
                stack.enter_context(_lock(self.policy.state / "starting"))
                if _is_listening(self.address):
                    return
                if self.group:
                    self.group.remove()
                self.policy.prepare()
                self.group = cgroups.make() if cgroups else None
                self._delete_abandoned()
                control = bind(Path(self.address))
            except OSError as error:
                raise BackendFailed(f"The sandbox cannot be prepared ({error.strerror}).") from error
            stack.callback(control.close)
            calls = _make_file(build_filter())
            stack.callback(os.close, calls)
            answers, answering = os.pipe()
            stack.callback(os.close, answers)
            try:
                _launch(self._argv(control.fileno(), calls), (control.fileno(), calls), answering, self.group)
            finally:
                os.close(answering)
            told = _read_answer(answers)
        if not told.endswith(b"ready\n"):
            problem = told.decode(errors="replace").strip().removeprefix("bwrap: ")[:300]
            raise BackendFailed(f"The sandbox did not start: {problem or 'it gave no reason'}.")

    def _delete_abandoned(self) -> None:
        """Delete what conversations have left in /tmp that have not started a sandbox for long."""
        for state in self.policy.state.parent.iterdir():
            with contextlib.suppress(OSError):
                is_old = (state / "passwd").stat().st_mtime < time.time() - _KEPT_SECONDS
                if is_old and not any(_is_listening(str(control)) for control in state.glob("control-*")):
                    delete_tree(state)

    def _argv(self, control: int, calls: int) -> list[str]:
        features = find_features()
        proxy_port = 0 if self.policy.network == "off" else PROXY_PORT
        python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
        code = [
            ("--ro-bind", str(_CODE / name), f"{_INSIDE}/{name}") for name in ("box_child.py", "child_processes.py")
        ]
        return [
            features.program,
            *namespaces(features),
            "--as-pid-1",
            *(("--seccomp", str(calls)) if build_filter() else ()),
            *self.policy.mounts(),
            *devices(features),
            *(argument for step in code for argument in step),
            *("--remount-ro", "/", "--chdir", "/", "--"),
            *(python, "-I", "-S", "-c", _START, str(control), str(IDLE_SECONDS), str(proxy_port)),
        ]


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Let one process start the sandbox: of two at once, each would unlink the socket of the other. Raises OSError."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def signal_box(address: str, number: int) -> None:
    """Signal the first process of the sandbox with this control socket, with which all others end. Blocks."""
    with contextlib.suppress(OSError), socket.socket(fileno=connect(address).detach()) as connection:
        os.kill(peer_pid(connection), number)


def _is_listening(address: str) -> bool:
    try:
        connect(address).close()
    except OSError:
        return False
    return True


def bind(address: Path) -> socket.socket:
    """Return a Unix socket with this address, however long it is. Raises OSError."""
    address.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX)
    try:
        with short_path(str(address)) as short:
            bound.bind(short)
    except OSError:
        bound.close()
        raise
    return bound


def _make_file(content: bytes) -> int:
    descriptor = os.memfd_create("calls")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _launch(argv: Sequence[str], descriptors: Sequence[int], answering: int, group: Group | None) -> None:
    """Start it as nobody's child, since it outlives us."""
    joins = [f"echo 0 > {shlex.quote(str(folder / 'cgroup.procs'))}" for folder in (group.folders if group else ())]
    script = " && ".join([*joins, "ulimit -c 0", 'exec "$@"'])
    subprocess.run(
        ["/bin/sh", "-c", f"{{ {script}; }} &", "sh", *argv],
        stdin=subprocess.DEVNULL,
        stdout=answering,
        stderr=answering,
        pass_fds=descriptors,
        env={"PATH": SANDBOX_PATH},
        cwd="/",
        start_new_session=True,
        check=True,
        timeout=_START_SECONDS,
    )


def _read_answer(answers: int) -> bytes:
    """Read what it says until it is ready, or until its end."""
    told = b""
    until = time.monotonic() + _START_SECONDS
    while not told.endswith(b"ready\n") and (wait := until - time.monotonic()) > 0:
        if select.select([answers], [], [], wait)[0]:
            if not (more := os.read(answers, 4096)):
                break
            told += more
    return told
