"""Give child processes a few chosen variables, and no access to our memory."""

import ctypes
from collections.abc import Iterable
from functools import cache

import structlog

from hermes_config import environment

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

ORDINARY = ("PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_DUMPABLE = 4


def child_environment(passthrough: Iterable[str] = ()) -> dict[str, str]:
    """Return the ordinary variables and those that the operator names, also from .env. Nothing else."""
    ours = environment.everything()
    chosen = {name: value for name, value in ours.items() if name in ORDINARY or name.startswith("LC_")}
    chosen.setdefault("PATH", _DEFAULT_PATH)
    named = {name: environment.lookup(name) for name in passthrough}
    return chosen | {name: value for name, value in named.items() if value}


@cache
def hide_our_memory() -> None:
    """Prevent children of the same user from reading our environment and memory in /proc. Root still can.

    This is permanent for the whole process: debuggers can no longer attach, and there are no core dumps.
    """
    try:
        hidden = ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    except AttributeError:  # only Linux has it
        hidden = False
    if not hidden:
        log.warning("commands can read our environment")
