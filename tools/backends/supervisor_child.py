"""Supervise one command from a separate process: store its output, and leave none of its processes behind.

Started as a script by `tools/backends/supervised.py`, using only the standard library. It makes itself the reaper of
all that the command starts, so that a process that forks twice or starts its own session remains its descendant, and
"no children" means that nothing is left. Output goes to files in its folder, in pieces named by the position of their
first byte; the oldest except the first are deleted. The order is one line of JSON on stdin; events are lines of JSON
on stdout. Stdin is a lifeline: its end means that nobody waits for the command any longer. A byte there lets a
background command outlive the gateway, once the gateway has recorded it.
"""

import base64
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import signal
import struct
import sys
import termios
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SECRET_DESCRIPTOR = 199  # above those that shells use themselves
GRACE_SECONDS = 2.0
HURRIED_GRACE_SECONDS = 0.3  # when somebody waits for the end
GIVE_UP_SECONDS = 10.0
CHUNK_BYTES = 1 << 18
UNKEPT_BYTES_PER_SECOND = 16_000_000
TERMINAL_SIZE = (24, 80)  # rows, columns


class Log:
    """Stores the first `head_bytes` of the output, and at least the last `tail_bytes`."""

    def __init__(self, folder: int, head_bytes: int, tail_bytes: int) -> None:
        self.folder = folder
        self.head_bytes, self.tail_bytes = head_bytes, tail_bytes
        self.total = 0
        self.pieces: list[str] = []
        self.file = -1
        self.room = 0

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self.room <= 0:
                self._begin()
            part = view[: self.room]
            # A full disk must not stop the command: output that cannot be stored is only counted.
            with contextlib.suppress(OSError):
                os.write(self.file, part)
            self.total += len(part)
            self.room -= len(part)
            view = view[len(part) :]

    def _begin(self) -> None:
        if self.file >= 0:
            os.close(self.file)
        name = f"output.{self.total:015d}"
        self.room = self.head_bytes if not self.pieces else self.tail_bytes
        self.pieces.append(name)
        try:
            self.file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.folder)
        except OSError:
            self.file = -1
        while len(self.pieces) > 3:
            with contextlib.suppress(OSError):
                os.unlink(self.pieces.pop(1), dir_fd=self.folder)


class Supervisor:
    def __init__(self, order: dict) -> None:  # type: ignore[type-arg]
        self.order = order
        self.folder = os.open(order["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.log = Log(self.folder, order["head_bytes"], order["tail_bytes"])
        self.child = 0
        self.status: int | None = None
        self.ended_by_us = ""  # "timeout" or "kill"
        self.grace_seconds = GRACE_SECONDS
        self.left_children = 0
        self.stubborn = 0
        self.to_write = base64.b64decode(order["stdin"])
        self.poll = select.poll()
        self.output = self.child_input = self.orders = -1
        self.output_ended = False

    # Starting.

    def start(self) -> None:
        """Start the command. Raises OSError when that fails."""
        if self.order["interactive"]:  # before the fork, so that a full disk leaves no unsupervised child
            os.mkfifo("input", 0o600, dir_fd=self.folder)
            # Open it for writing too, or it would end when the first writer closes it.
            self.orders = os.open("input", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.folder)
        output, child_output, child_input = self._pipes()
        said, saying = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            self._exec_command(child_input, child_output, saying)
        for descriptor in {child_input, child_output, saying}:
            os.close(descriptor)
        with os.fdopen(said, "rb") as telling:
            problem = telling.read().decode()
        if problem:
            os.waitpid(self.child, 0)
            number, _, words = problem.partition(" ")
            raise OSError(int(number), words)
        self.output = output
        os.set_blocking(output, False)
        self.poll.register(output, select.POLLIN)
        if self.child_input >= 0 and self.child_input != output:
            os.set_blocking(self.child_input, False)
            self.poll.register(self.child_input, select.POLLOUT)
        elif self.to_write:
            self.poll.register(output, select.POLLIN | select.POLLOUT)
        if self.orders >= 0 and not self.to_write:
            self.poll.register(self.orders, select.POLLIN)

    def _pipes(self) -> tuple[int, int, int]:
        if self.order["pty"]:
            master, slave = os.openpty()
            _set_size(slave, *TERMINAL_SIZE)
            self.child_input = master
            return master, slave, slave
        output, child_output = os.pipe()
        if not self.to_write and not self.order["interactive"]:
            return output, child_output, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        child_input, self.child_input = os.pipe()
        return output, child_output, child_input

    def _exec_command(self, stdin: int, stdout: int, saying: int) -> None:
        """Run the command in the child. Never returns."""
        what = self.order["workdir"]
        try:
            os.setsid()
            _lower_priority(self.order["niceness"])
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # ends with us: nobody else reads its output or ends its children
            if self.order["pty"] and self.order["takes_terminal"]:
                fcntl.ioctl(stdin, termios.TIOCSCTTY, 0)
            for number in range(1, signal.NSIG):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for group in self.order["cgroups"]:
                with open(f"{group}/cgroup.procs", "w", encoding="ascii") as procs:
                    procs.write("0")
            for name, most in self.order["rlimits"].items():
                resource.setrlimit(getattr(resource, name), (most, most))
            os.chdir(self.order["workdir"])
            os.dup2(stdin, 0)
            os.dup2(stdout, 1)
            os.dup2(stdout, 2)
            if self.order["secret"]:
                os.dup2(_make_memory_file(self.order["secret"].encode()), SECRET_DESCRIPTOR)
            what = self.order["argv"][0]
            os.execvpe(what, self.order["argv"], self.order["environment"])  # noqa: S606
        except OSError as error:
            os.write(saying, f"{error.errno or 0} {what}".encode(errors="replace"))
        finally:
            os._exit(127)

    # While it runs.

    def keep(self, wakes: int, lifeline: int) -> None:
        """Serve the command until it has ended and nothing of it is left."""
        self.poll.register(wakes, select.POLLIN)
        self.poll.register(lifeline, select.POLLHUP | select.POLLIN)
        timeout = self.order["timeout_seconds"]
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.status is None and not self.ended_by_us:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = self.poll.poll(wait)
            if not ready and deadline is not None and time.monotonic() >= deadline:
                self.ended_by_us = "timeout"
            for descriptor, _ in ready:
                if descriptor == lifeline:
                    self._read_lifeline(lifeline)
                elif descriptor == wakes:
                    self._handle_signals(wakes)
                else:
                    self._move(descriptor)
        self.end_all()
        self._drain()

    def _read_lifeline(self, lifeline: int) -> None:
        if os.read(lifeline, 1):
            self.poll.unregister(lifeline)
            _disconnect()
            return
        self.ended_by_us = "kill"
        self.grace_seconds = HURRIED_GRACE_SECONDS

    def _handle_signals(self, wakes: int) -> None:
        signals = os.read(wakes, 4096)
        if signal.SIGTERM in signals:
            self.ended_by_us = "kill"
        if signal.SIGWINCH in signals:
            self._resize()
        self._reap()

    def _resize(self) -> None:
        """Resize the terminal as the file `size` says. The kernel notifies the processes in it."""
        if not self.order["pty"] or self.output_ended:
            return
        with contextlib.suppress(OSError, ValueError), open(os.open("size", os.O_RDONLY, dir_fd=self.folder)) as size:
            rows, columns = map(int, size.read().split())
            _set_size(self.output, rows, columns)

    def _move(self, descriptor: int) -> None:
        if descriptor == self.output:
            self._read_output()
        if descriptor == self.orders:
            self._take_orders()
        if descriptor == self.child_input:  # with a terminal this is also the output
            self._write_input()

    def _take_orders(self) -> None:
        """Read input for the command, and no more until it is written: unread input must not pile up here."""
        self.to_write = os.read(self.orders, 65_536)
        self.poll.unregister(self.orders)
        self.poll.register(self.child_input, select.POLLOUT | (select.POLLIN if self.order["pty"] else 0))

    def _refuse_orders(self) -> None:
        """Close the input, so that writers get an error."""
        if self.orders >= 0:
            with contextlib.suppress(KeyError):
                self.poll.unregister(self.orders)
            os.close(self.orders)
            self.orders = -1

    def _read_output(self) -> bool:
        """Read some output; return whether there may be more."""
        if self.output_ended:
            return False
        try:
            data = os.read(self.output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO from a terminal: its other end is closed
                raise
            data = b""
        if not data:
            self.output_ended = True
            self.poll.unregister(self.output)
            if self.order["pty"]:
                self.child_input = -1
                self._refuse_orders()
            return False
        self.log.write(data)
        if self.log.total > self.log.head_bytes:
            # Most of it is dropped. Without a pause, an endless writer would keep two processors busy.
            time.sleep(len(data) / UNKEPT_BYTES_PER_SECOND)
        return True

    def _write_input(self) -> None:
        try:
            self.to_write = self.to_write[os.write(self.child_input, self.to_write[:4096]) :]
        except BlockingIOError:
            return
        except OSError:  # it no longer reads
            self.to_write = b""
            self._refuse_orders()
        if self.to_write:
            return
        if self.orders >= 0:
            self.poll.register(self.orders, select.POLLIN)
        if self.order["pty"]:
            self.poll.register(self.child_input, select.POLLIN)
        else:
            self.poll.unregister(self.child_input)
            if not self.order["interactive"]:
                os.close(self.child_input)
                self.child_input = -1

    def _reap(self) -> bool:
        """Reap ended children; return whether any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self.status = status

    # When it is over.

    def end_all(self) -> None:
        """End all descendants: TERM, a grace period, then KILL until none is left."""
        if not self._reap():
            return
        if self.status is not None and not self.order["is_walled_in"]:
            self.left_children = len(_find_descendants(os.getpid()))
        began = time.monotonic()
        # With a pid namespace, our child is its first process: all others are killed without grace when it ends.
        _signal_all(signal.SIGTERM, but=self.child if self.order["is_walled_in"] else 0)
        _signal_all(signal.SIGCONT)  # a stopped process handles no other signal
        pause = 0.001
        while self._reap():
            elapsed = time.monotonic() - began
            if elapsed > self.grace_seconds:
                # Stop them first: a process that forks faster than we kill would never be caught.
                _signal_all(signal.SIGSTOP)
                _signal_all(signal.SIGKILL)
            if elapsed > GIVE_UP_SECONDS:  # owned by another user, or stuck in the kernel
                self.stubborn = len(_find_descendants(os.getpid()))
                return
            self._drain()
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def _drain(self) -> None:
        until = time.monotonic() + 0.2  # a process that we could not end may go on writing
        with contextlib.suppress(OSError):
            while self._read_output() and time.monotonic() < until:
                pass

    def result(self) -> dict[str, object]:
        status = self.status if self.status is not None else signal.SIGKILL
        code = os.waitstatus_to_exitcode(status)
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "ended_by_us": self.ended_by_us,
            "output_bytes": self.log.total,
            "left_children": self.left_children,
            "stubborn": self.stubborn,
        }


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


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


def _find_descendants(root: int) -> list[int]:
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


def _signal_all(number: int, but: int = 0) -> None:
    for pid in _find_descendants(os.getpid()):
        if pid != but:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def started_ticks(pid: int) -> int:
    """Return the start time on the kernel's clock, which together with the pid identifies a process for good."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def _report(facts: dict[str, object]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(facts).encode() + b"\n")


def _store_result(folder: int, facts: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        file = os.open("ended.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with os.fdopen(file, "w") as ended:
            json.dump(facts, ended)
        os.rename("ended.new", "ended", src_dir_fd=folder, dst_dir_fd=folder)


def _read_order() -> dict:  # type: ignore[type-arg]
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 65_536)
        if not piece:
            sys.exit(1)  # our parent is already gone
        line += piece
    return json.loads(line)  # type: ignore[no-any-return]


def _detach() -> None:
    """Fork away from our parent, so that it need not wait for us."""
    if os.fork():
        os._exit(0)


def _disconnect() -> None:
    """Close our connection to the gateway, which may now end before us."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)


def main() -> None:
    order = _read_order()
    if order["may_outlive"]:
        _detach()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGWINCH):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    keeper = Supervisor(order)
    try:
        keeper.start()
    except OSError as error:
        _report({"failed": os.strerror(error.errno or 0).lower(), "what": error.strerror or error.filename or ""})
        return
    _report({"pid": keeper.child, "keeper": os.getpid(), "started": started_ticks(os.getpid())})
    try:
        keeper.keep(woken, lifeline=0)
    except BaseException:
        keeper.end_all()  # a bug of ours must not leave them unsupervised
        raise
    result = keeper.result()
    if order["may_outlive"]:  # otherwise the waiting gateway reads them first
        for group in order["cgroups"]:
            with contextlib.suppress(OSError):
                os.rmdir(group)
    _store_result(keeper.folder, result)
    _report(result)


if __name__ == "__main__":
    main()
