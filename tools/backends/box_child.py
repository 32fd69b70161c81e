"""Be the first process of a sandbox: start every command of its conversation, and end with the last of them.

Each connection to the control socket is one command: a line of JSON with the descriptors of its streams, answered by
its pid, and by its exit status once none of its processes is left. The end of the connection ends the command. Nothing
else of the host is open here, so that nothing can be taken from here; commands cannot trace or stop this process. A
process that got rid of its reaper comes to us, and is killed; so is a reaper that a command has stopped. A second
process carries connections from a port of the sandbox's own loopback to the socket of the proxy, for programs that know
proxies by port only.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time

from tools.backends.child_processes import (
    GRACE_SECONDS,
    HURRIED_GRACE_SECONDS,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    Processes,
    find_descendants,
    prctl,
)

PROXY_SOCKET = "/run/hermes/net/proxy"
_CHUNK_BYTES = 65_536
_MAX_DESCRIPTORS = 1024
_FORWARDER_PAUSE_SECONDS = 0.2
_SWEEP_MS = 10.0


class FirstProcess:
    def __init__(self, control: socket.socket, *, idle_seconds: float, proxy_port: int) -> None:
        self.control = control
        self.idle_seconds = idle_seconds
        self.port = socket.create_server(("127.0.0.1", proxy_port)) if proxy_port else None
        self.reapers: set[int] = set()
        self.forwarder = 0
        self.has_orphans = False

    def run(self, wakes: int) -> None:
        """Serve until nothing has run for `idle_seconds`."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(wakes, select.POLLIN)
        self._start_forwarder()
        last_used = time.monotonic()
        while self.reapers or self.has_orphans or time.monotonic() < last_used + self.idle_seconds:
            for descriptor, _ in poll.poll(self._wait_ms()):
                if descriptor == wakes:
                    if signal.SIGTERM in os.read(wakes, 4096):
                        self.idle_seconds = 0.0
                else:
                    self._serve_connection()
                last_used = time.monotonic()
            self._reap()
            if self.has_orphans:
                self._kill_orphans()

    def _wait_ms(self) -> float | None:
        if self.has_orphans:
            return _SWEEP_MS
        return None if self.reapers else self.idle_seconds * 1000

    def _serve_connection(self) -> None:
        connection, _ = self.control.accept()
        with connection:
            reaper = os.fork()
            if reaper == 0:
                self.control.close()
                _run_one(connection)
            self.reapers.add(reaper)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
                pid, status = ended
                if os.WIFSTOPPED(status):
                    if pid in (*self.reapers, self.forwarder):  # or its command would run on for ever
                        os.kill(pid, signal.SIGKILL)
                elif pid == self.forwarder:
                    time.sleep(_FORWARDER_PAUSE_SECONDS)  # a command that kills it for ever must not keep us busy
                    self._start_forwarder()
                elif pid in self.reapers:
                    self.reapers.discard(pid)
                    self.has_orphans = self.has_orphans or status != 0

    def _kill_orphans(self) -> None:
        """Kill all that came to us because its reaper was killed, with all its descendants."""
        orphans = self._find_orphans()
        self.has_orphans = bool(orphans)
        # Stop them first: a process that forks faster than we kill would never be caught.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)

    def _find_orphans(self) -> list[int]:
        everybody = find_descendants(os.getpid())  # first, or what a command starts meanwhile would seem an orphan
        known = {*self.reapers, self.forwarder}
        legitimate = {child for pid in known for child in find_descendants(pid)}
        return [pid for pid in everybody if pid not in known | legitimate]

    def _start_forwarder(self) -> None:
        if self.port is None:
            return
        self.forwarder = os.fork()
        if self.forwarder == 0:
            self.control.close()
            _forward(self.port)


def _run_one(connection: socket.socket) -> None:
    """Run one command for a connection, and leave none of its processes. Never returns."""
    try:
        woken = _watch_signals(signal.SIGCHLD, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        line, descriptors, _, _ = socket.recv_fds(connection, _CHUNK_BYTES, 2)
        while line and not line.endswith(b"\n"):
            line += (more := connection.recv(_CHUNK_BYTES))
            if not more:
                os._exit(0)
        if len(descriptors) != 2:
            os._exit(0)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        processes = Processes()
        try:
            processes.start(json.loads(line), *descriptors)
        except OSError as error:
            _send(connection, {"failed": error.errno or 0, "what": error.strerror or ""})
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        _send(connection, {"pid": processes.pid})
        grace_seconds = GRACE_SECONDS
        while processes.status is None:
            ready = select.select([woken, connection.fileno()], [], [])[0]
            if connection.fileno() in ready:
                asked = connection.recv(_CHUNK_BYTES)
                grace_seconds = json.loads(asked)["grace_seconds"] if asked else HURRIED_GRACE_SECONDS
                break
            if signal.SIGTERM in os.read(woken, 4096):
                break
            processes.reap()
        processes.end(grace_seconds)
        status = int(signal.SIGKILL) if processes.status is None else processes.status
        _send(
            connection,
            {"status": status, "left_children": processes.left_children, "stubborn": processes.stubborn},
        )
        os._exit(0)
    finally:
        os._exit(1)  # a bug of ours: the first process kills what is left


def _send(connection: socket.socket, facts: dict[str, object]) -> None:
    with contextlib.suppress(OSError):  # nobody waits any longer
        connection.sendall(json.dumps(facts).encode() + b"\n")


def _watch_signals(*numbers: int) -> int:
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return woken


# The way to the proxy.


def _forward(port: socket.socket) -> None:
    """Carry each connection to the proxy. Never returns."""
    try:
        while True:
            connection, _ = port.accept()
            threading.Thread(target=_carry, args=(connection,), daemon=True).start()
    finally:
        os._exit(1)


def _carry(inner: socket.socket) -> None:
    with inner, socket.socket(socket.AF_UNIX) as outer:
        try:
            outer.connect(PROXY_SOCKET)
        except OSError:  # the gateway is being restarted
            return
        back = threading.Thread(target=_copy, args=(outer, inner), daemon=True)
        back.start()
        _copy(inner, outer)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def main() -> None:
    """Run as the first process.

    Arguments: the descriptor of the control socket, seconds until an idle sandbox ends, the proxy's port or 0."""
    descriptor, idle_seconds, proxy_port = sys.argv[1:]
    prctl(PR_SET_DUMPABLE, 0)  # or commands could take our descriptors
    control = socket.socket(fileno=int(descriptor))
    os.set_inheritable(control.fileno(), False)
    os.closerange(3, control.fileno())
    os.closerange(control.fileno() + 1, _MAX_DESCRIPTORS)
    control.listen(128)
    woken = _watch_signals(signal.SIGCHLD, signal.SIGTERM)
    first = FirstProcess(control, idle_seconds=float(idle_seconds), proxy_port=int(proxy_port))
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    first.run(woken)
