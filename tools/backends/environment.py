"""Give child processes a few chosen variables, and no access to our memory."""

from collections.abc import Collection, Iterable
from functools import cache

import structlog

from hermes_config import environment
from tools.backends.child_processes import PR_SET_DUMPABLE, prctl

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

ORDINARY = ("PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def child_environment(passthrough: Iterable[str] = (), ordinary: Collection[str] = ORDINARY) -> dict[str, str]:
    """Return the ordinary variables and those that the operator names, also from .env. Nothing else."""
    ours = environment.everything()
    chosen = {name: value for name, value in ours.items() if name in ordinary or name.startswith("LC_")}
    chosen.setdefault("PATH", _DEFAULT_PATH)
    named = {name: environment.lookup(name) for name in passthrough}
    return chosen | {name: value for name, value in named.items() if value}


@cache
def hide_our_memory() -> None:
    """Prevent children of the same user from reading our environment and memory in /proc. Root still can.

    This is permanent for the whole process: debuggers can no longer attach, and there are no core dumps.
    """
    if not prctl(PR_SET_DUMPABLE, 0):
        log.warning("commands can read our environment")
