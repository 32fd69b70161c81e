"""Supervise one command from a separate process: store its output, and leave none of its processes behind.

Started by `tools/backends/supervised.py`, using only the standard library. It makes itself the reaper of
all that the command starts, so that a process that forks twice or starts its own session remains its descendant, and
"no children" means that nothing is left. For a command in a sandbox, a process inside does that part (`box_child.py`),
and only the command's streams are handed in. Output goes to files in its folder, in pieces named by the position of
their first byte; the oldest except the first are deleted. The order is one line of JSON on stdin; events are lines of
JSON on stdout. Stdin is a lifeline: its end means that nobody waits for the command any longer. A byte there lets a
background command outlive the gateway, once the gateway has recorded it.
"""

import _socket  # `socket` would take a third of our start
import base64
import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator

from tools.backends.child_processes import (
    GIVE_UP_SECONDS,
    GRACE_SECONDS,
    HURRIED_GRACE_SECONDS,
    PR_SET_CHILD_SUBREAPER,
    Processes,
    prctl,
)

CHUNK_BYTES = 1 << 18
UNKEPT_BYTES_PER_SECOND = 16_000_000
DISK_WATCH_SECONDS = 1.0
TERMINAL_SIZE = (24, 80)  # rows, columns
BOX_GONE = "no sandbox listens"
_GONE = b'{"failed": 5, "what": "the sandbox has ended"}'
_KILLED = b'{"status": 9, "left_children": 0, "stubborn": 0}'


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


class BoxedProcesses:
    """The processes of a command in a sandbox, over a connection to `box_child.py`."""

    def __init__(self, address: str) -> None:
        self.pid = 0
        self.status: int | None = None
        self.left_children = 0
        self.stubborn = 0
        try:
            self.connection = connect(address)
        except OSError as error:
            raise OSError(error.errno, BOX_GONE) from error
        self.answers = os.fdopen(os.dup(self.connection.fileno()), "rb")

    def start(self, order: dict, stdin: int, stdout: int) -> None:  # type: ignore[type-arg]
        """Start the command with these descriptors, which the caller closes. Raises OSError when that fails."""
        wanted = ("argv", "workdir", "environment", "pty", "rlimits", "niceness", "secret")
        line = json.dumps({name: order[name] for name in wanted}).encode() + b"\n"
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("ii", stdin, stdout))
        sent = self.connection.sendmsg([line], [rights])
        self.connection.sendall(line[sent:])
        answer = json.loads(self.answers.readline() or _GONE)
        if "failed" in answer:
            raise OSError(answer["failed"], answer["what"])
        self.pid = answer["pid"]

    def receive(self) -> None:
        """Take the result, which comes when nothing is left; without one, the sandbox was killed."""
        result = json.loads(self.answers.readline() or _KILLED)
        self.status, self.left_children = result["status"], result["left_children"]
        self.stubborn = result["stubborn"]

    def end(self, grace_seconds: float, meanwhile: Callable[[], None]) -> None:
        """Have all its processes ended, and wait for that."""
        if self.status is not None:
            return
        with contextlib.suppress(OSError):  # the sandbox has ended, and all that was in it
            self.connection.sendall(json.dumps({"grace_seconds": grace_seconds}).encode() + b"\n")
        until = time.monotonic() + GIVE_UP_SECONDS + 5
        while time.monotonic() < until:
            if select.select([self.connection], [], [], 0.02)[0]:
                self.receive()
                return
            meanwhile()


@contextlib.contextmanager
def short_path(address: str) -> Iterator[str]:
    """Yield another path of a Unix socket: the kernel takes no more than 107 letters. Raises OSError."""
    folder = os.open(os.path.dirname(address), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(address)}"
    finally:
        os.close(folder)


def connect(address: str) -> _socket.socket:
    """Connect to a Unix socket, however long its path. Raises OSError."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        with short_path(address) as short:
            connection.connect(short)
    except OSError:
        connection.close()
        raise
    return connection


class Supervisor:
    def __init__(self, order: dict) -> None:  # type: ignore[type-arg]
        self.order = order
        self.folder = os.open(order["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.log = Log(self.folder, order["head_bytes"], order["tail_bytes"])
        self.processes = BoxedProcesses(order["box"]) if order["box"] else Processes()
        self.ended_by_us = ""  # "timeout", "kill" or "disk"
        self.disk_seen = 0.0
        self.free_at_start: dict[str, int] = {}
        self.grace_seconds = GRACE_SECONDS
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
        try:
            self.processes.start(self.order, child_input, child_output)
        finally:
            for descriptor in {child_input, child_output}:
                os.close(descriptor)
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

    # While it runs.

    def keep(self, wakes: int, lifeline: int) -> None:
        """Serve the command until it has ended and nothing of it is left."""
        self.poll.register(wakes, select.POLLIN)
        self.poll.register(lifeline, select.POLLHUP | select.POLLIN)
        box = self.processes.connection.fileno() if isinstance(self.processes, BoxedProcesses) else -1
        if box >= 0:
            self.poll.register(box, select.POLLIN)
        timeout = self.order["timeout_seconds"]
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.processes.status is None and not self.ended_by_us:
            ready = self.poll.poll(self._wait_ms(deadline))
            if not ready and deadline is not None and time.monotonic() >= deadline:
                self.ended_by_us = "timeout"
            if self._fills_disk():
                self.ended_by_us = "disk"
            for descriptor, _ in ready:
                if descriptor == lifeline:
                    self._read_lifeline(lifeline)
                elif descriptor == wakes:
                    self._handle_signals(wakes)
                elif descriptor == box:
                    self.processes.receive()  # type: ignore[union-attr]
                else:
                    self._move(descriptor)
        self.end_all()
        self._drain()

    def _wait_ms(self, deadline: float | None) -> float | None:
        waits = [] if deadline is None else [max(0.0, deadline - time.monotonic())]
        waits += [DISK_WATCH_SECONDS] if self.order["spares"] else []
        return min(waits) * 1000 if waits else None

    def _fills_disk(self) -> bool:
        """Return whether less is free than shall be, and less than at the start: others may have filled it."""
        if not self.order["spares"] or time.monotonic() < self.disk_seen + DISK_WATCH_SECONDS:
            return False
        self.disk_seen = time.monotonic()
        for folder, most in self.order["spares"].items():
            with contextlib.suppress(OSError):
                found = os.statvfs(folder)
                free = found.f_bavail * found.f_frsize
                if free < min(most, self.free_at_start.setdefault(folder, free)):
                    return True
        return False

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
        if isinstance(self.processes, Processes):
            self.processes.reap()

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

    # When it is over.

    def end_all(self) -> None:
        self.processes.end(self.grace_seconds, self._drain)

    def _drain(self) -> None:
        until = time.monotonic() + 0.2  # a process that we could not end may go on writing
        with contextlib.suppress(OSError):
            while self._read_output() and time.monotonic() < until:
                pass

    def result(self) -> dict[str, object]:
        processes = self.processes
        status = processes.status if processes.status is not None else signal.SIGKILL
        code = os.waitstatus_to_exitcode(status)
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "ended_by_us": self.ended_by_us,
            "output_bytes": self.log.total,
            "left_children": processes.left_children,
            "stubborn": processes.stubborn,
        }


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


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


def _disconnect() -> None:
    """Close our connection to the gateway, which may now end before us."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)


def main() -> None:
    order = _read_order()
    if order["may_outlive"] and os.fork():
        os._exit(0)  # the child goes on, and our parent need not wait for it
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGWINCH):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    try:
        keeper = Supervisor(order)
        keeper.start()
    except OSError as error:
        _report({"failed": os.strerror(error.errno or 0).lower(), "what": error.strerror or error.filename or ""})
        return
    _report({"pid": keeper.processes.pid, "keeper": os.getpid(), "started": started_ticks(os.getpid())})
    try:
        keeper.keep(woken, lifeline=0)
    except BaseException:
        keeper.end_all()  # a bug of ours must not leave them unsupervised
        raise
    result = keeper.result()
    _store_result(keeper.folder, result)
    _report(result)
