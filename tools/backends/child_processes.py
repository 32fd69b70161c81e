"""Start a command and end all its processes: shared by the supervisor and by the first process of a sandbox.

Uses only the standard library: inside a sandbox there is nothing else of ours.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import termios
import time
from collections.abc import Callable

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
SECRET_DESCRIPTOR = 199  # above those that shells use themselves
GRACE_SECONDS = 2.0
HURRIED_GRACE_SECONDS = 0.3  # when somebody waits for the end
GIVE_UP_SECONDS = 10.0


class Processes:
    """The process of a command and all its descendants, as children of this process."""

    def __init__(self) -> None:
        self.pid = 0
        self.status: int | None = None
        self.left_children = 0
        self.stubborn = 0

    def start(self, order: dict, stdin: int, stdout: int, stderr: int = -1) -> None:  # type: ignore[type-arg]
        """Start the command with these descriptors, which the caller closes. Raises OSError when that fails.

        Without a descriptor of its own, stderr is the same as stdout.
        """
        said, saying = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _exec_command(order, stdin, stdout, stdout if stderr < 0 else stderr, saying)
        os.close(saying)
        with os.fdopen(said, "rb") as telling:
            problem = telling.read().decode()
        if problem:
            os.waitpid(self.pid, 0)
            number, _, words = problem.partition(" ")
            raise OSError(int(number), words)

    def reap(self) -> bool:
        """Reap ended children; return whether any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status = status

    def end(self, grace_seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End all descendants: TERM, a grace period, then KILL until none is left."""
        if not self.reap():
            return
        if self.status is not None:
            self.left_children = len(find_descendants(os.getpid()))
        began = time.monotonic()
        signal_all(signal.SIGTERM)
        signal_all(signal.SIGCONT)  # a stopped process handles no other signal
        pause = 0.001
        while self.reap():
            elapsed = time.monotonic() - began
            if elapsed > grace_seconds:
                # Stop them first: a process that forks faster than we kill would never be caught.
                signal_all(signal.SIGSTOP)
                signal_all(signal.SIGKILL)
            if elapsed > GIVE_UP_SECONDS:  # owned by another user, or stuck in the kernel
                self.stubborn = len(find_descendants(os.getpid()))
                return
            meanwhile()
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def _exec_command(order: dict, stdin: int, stdout: int, stderr: int, saying: int) -> None:  # type: ignore[type-arg]
    """Run the command in the child. Never returns."""
    what = order["workdir"]
    try:
        os.setsid()
        _lower_priority(order["niceness"])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with us: nobody else reads its output or ends its children
        if order["pty"]:
            fcntl.ioctl(stdin, termios.TIOCSCTTY, 0)
        for number in range(1, signal.NSIG):
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for name, most in order["rlimits"].items():
            resource.setrlimit(getattr(resource, name), (most, most))
        os.chdir(order["workdir"])
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        if order["secret"]:
            os.dup2(_make_memory_file(order["secret"].encode()), SECRET_DESCRIPTOR)
        what = order["argv"][0]
        os.execvpe(what, order["argv"], order["environment"])  # noqa: S606
    except OSError as error:
        os.write(saying, f"{error.errno or 0} {what}".encode(errors="replace"))
    finally:
        os._exit(127)


def prctl(option: int, value: int) -> bool:
    """Change a property of this process; return whether that worked."""
    with contextlib.suppress(AttributeError):  # only Linux has it
        return bool(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)
    return False


def _lower_priority(niceness: int) -> None:
    """Lower our priority, so that the gateway's chats do not wait for a processor."""
    os.nice(niceness)
    # With autogroups, niceness only works within a session, so the group needs it too.
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write(str(niceness))


def _make_memory_file(content: bytes) -> int:
    """Return a file in memory: it disappears with us, and each open of it reads from the start."""
    descriptor = os.memfd_create("secret")
    os.write(descriptor, content)
    return descriptor


def find_descendants(root: int) -> list[int]:
    """Return all descendants, parents before their children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                state, parent, *_ = file.read().rpartition(b")")[2].split()
                if state != b"Z":  # a zombie's children already have a new parent
                    children.setdefault(int(parent), []).append(int(name))
    found, look = [], [root]
    while look:
        look = [child for parent in look for child in children.get(parent, ())]
        found += look
    return found


def signal_all(number: int) -> None:
    for pid in find_descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
