"""The environment of this process, read here and nowhere else."""

import os
from functools import lru_cache
from pathlib import Path


def everything() -> dict[str, str]:
    """A copy, so that nobody changes the real one by accident."""
    return dict(os.environ)


def get(name: str) -> str:
    return os.environ.get(name, "")


def has(name: str) -> bool:
    """Set to nothing counts as not set."""
    return bool(get(name))


def lookup(name: str) -> str:
    """From the environment, else from the .env of the home; empty when neither has it.

    A variable that is set to nothing takes away what the file gives, as it does for settings.
    """
    if name in os.environ:
        return get(name)
    from hermes_config.places import Home  # knows the environment itself

    file = Home.locate().env_file
    try:
        written_ns = file.stat().st_mtime_ns
    except OSError:
        return ""
    return _values(file, written_ns).get(name, "")


@lru_cache(maxsize=1)
def _values(file: Path, written_ns: int) -> dict[str, str]:
    """Read once for each time it was written: every tool of every turn may ask."""
    from hermes_config.errors import ConfigError
    from hermes_config.given import read_text
    from hermes_config.variables import lines_of

    try:
        lines = lines_of(read_text(file) or "")
    except ConfigError:  # told by whoever loads the settings
        return {}
    return {line.name: line.value.strip() for line in lines if line.name and line.value is not None}


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
