"""Has imported what a gateway needs, once, and becomes a new process of it as often as it is asked to.

    python -m tests.warm.server FD     where FD is a socket; its end is ours

Loading our packages takes a second of processor each time, and the tests start hundreds of gateways. A fork of this one
is a process like any other: its own pid, session, environment and files, to be killed at any moment. It leaves this
loop and runs the module from its top; nothing here is around it any more.
"""

import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

_LOADED = (
    "agent_core.models.demo",
    "agent_core.models.openai",
    "gateway.doctor.checks",
    "gateway.daemon",
    "gateway.platforms.discord.platform",
    "gateway.platforms.slack.platform",
    "gateway.platforms.socket",
    "gateway.platforms.telegram.platform",
    "gateway.platforms.web",
    "gateway.web.access",
    "gateway.web.server",
    "gateway.wiring.app",
    "hermes_cli.chat",
    "hermes_cli.gateway",
    "hermes_cli.main",
    "hermes_cli.opening",
    "hermes_cli.pairing",
    "hermes_cli.sessions",
    "hermes_cli.status",
    "hermes_cli.trace",
    "tools.builtin.files",
    "tools.builtin.terminal",
)
_MAX_REQUEST_BYTES = 1_000_000


class _Order:
    """One process that is wanted: what it runs, and the descriptors that become its own."""

    def __init__(self, wanted: dict[str, Any], files: list[int]) -> None:
        self.wanted = wanted
        *self.streams, report = files  # standard input, output and error, and where to tell of it
        self.report = socket.socket(fileno=report)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in _LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is shared with all that come is not copied by their collecting garbage
    order = _serve(control)
    if order is not None:
        _become(order)


def _serve(control: socket.socket) -> _Order | None:
    """Comes back in each process that was asked for, with what it shall be; None when no more will be."""
    children: dict[int, tuple[int, _Order]] = {}  # by the descriptor that tells of their end
    with control, selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fd in children:
                    ready.unregister(key.fd)
                    _tell_end(key.fd, *children.pop(key.fd))
                    continue
                order = _next(control)
                if order is None:
                    return None
                pid = os.fork()
                if not pid:
                    for handle, (_, other) in children.items():
                        os.close(handle)
                        other.report.close()
                    return order
                for stream in order.streams:
                    os.close(stream)
                order.report.sendall(f"{pid}\n".encode())
                handle = os.pidfd_open(pid)
                children[handle] = (pid, order)
                ready.register(handle, selectors.EVENT_READ)


def _next(control: socket.socket) -> _Order | None:
    raw, files, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, 4)
    return _Order(json.loads(raw), files) if raw else None


def _tell_end(handle: int, pid: int, order: _Order) -> None:
    _, status = os.waitpid(pid, 0)
    os.close(handle)
    with order.report, suppress(BrokenPipeError):  # nobody may wait for it any more
        order.report.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(order: _Order) -> None:
    wanted = order.wanted
    order.report.close()
    for number, stream in enumerate(order.streams):
        os.dup2(stream, number)
        os.close(stream)
    if wanted["new_session"]:
        os.setsid()
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    if wanted["warnings"]:
        sys.warnoptions[:] = [wanted["warnings"]]
        warnings.simplefilter(wanted["warnings"])
    sys.argv[1:] = wanted["arguments"]
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
