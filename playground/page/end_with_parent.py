"""Run a command that ends together with its parent process, even if the parent was killed.

    python -m playground.page.end_with_parent PARENT_PID COMMAND…

The command replaces this process, so its pid is the one that the parent started. Only Linux can do this; elsewhere the
command simply runs.
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
            sys.exit("the parent process has already ended")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
