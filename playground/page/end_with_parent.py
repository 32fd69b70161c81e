"""Runs a command that ends when whoever started it does, even if that one was killed and could say nothing.

    python -m playground.page.leash PARENT_PID COMMAND…

Takes the command's place, so that its pid is the one that was started. Linux alone knows this; elsewhere the command
is simply run.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit("whoever started this is gone already")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
