"""The environment of this process, read here and nowhere else."""

import os


def everything() -> dict[str, str]:
    """A copy, so that nobody changes the real one by accident."""
    return dict(os.environ)


def get(name: str) -> str:
    return os.environ.get(name, "")


def has(name: str) -> bool:
    """Set to nothing counts as not set."""
    return bool(get(name))


def notify_socket() -> str | None:
    """Where systemd wants to hear that we are ready, or None when it did not start us."""
    return get("NOTIFY_SOCKET") or None


def watchdog_seconds() -> float | None:
    """How long systemd tolerates our silence; None when nobody watches this very process."""
    pid = get("WATCHDOG_PID")
    if pid and pid != str(os.getpid()):
        return None
    try:
        microseconds = int(get("WATCHDOG_USEC"))
    except ValueError:
        return None
    return microseconds / 1_000_000 if microseconds > 0 else None
