"""Run one MCP server from a process of its own, and leave none of its processes behind.

Started by `tools/mcp/transports.py`, using only the standard library. The server gets our stdin, stdout and stderr,
which lead to the gateway; we keep none of them, so that the gateway sees them end. We are the reaper of all that the
server starts, as for a command of the agent. The order is one line of JSON on a descriptor of its own, whose end means
that nobody needs the server any longer.
"""

import json
import os
import select
import signal
import sys

from tools.backends.child_processes import GRACE_SECONDS, PR_SET_CHILD_SUBREAPER, Processes, prctl

_NOT_STARTED = 127


def main() -> None:
    lifeline = int(sys.argv[1])
    with os.fdopen(os.dup(lifeline), "rb", buffering=0) as reading:
        order = json.loads(reading.readline() or b"null")
    if order is None:  # the gateway is gone already
        return
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes = Processes()
    try:
        processes.start(order, 0, 1, 2)
    except OSError as error:
        os.write(2, f"{order['argv'][0]} could not be started: {os.strerror(error.errno or 0).lower()}".encode())
        os._exit(_NOT_STARTED)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    try:
        _wait(processes, woken, lifeline)
    finally:
        processes.end(GRACE_SECONDS)


def _wait(processes: Processes, woken: int, lifeline: int) -> None:
    """Return once the server has ended, or must end."""
    while processes.status is None:
        ready, _, _ = select.select([woken, lifeline], [], [])
        if lifeline in ready or signal.SIGTERM in os.read(woken, 4096):
            return
        processes.reap()
