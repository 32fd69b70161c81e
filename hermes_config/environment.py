"""The environment of this process: the only place that reads it."""

import os
from functools import lru_cache
from pathlib import Path


def everything() -> dict[str, str]:
    """Return a copy, so that nobody changes the real one by accident."""
    return dict(os.environ)


def get(name: str) -> str:
    return os.environ.get(name, "")


def has(name: str) -> bool:
    """Tell whether a variable is set; an empty one is not."""
    return bool(get(name))


def lookup(name: str) -> str:
    """Return a variable of the environment, else of the home's .env; empty when neither has it.

    A variable that is set to nothing undoes what the file says, as it does for settings.
    """
    if name in os.environ:
        return get(name)
    from hermes_config.places import Home  # imports this module

    file = Home.locate().env_file
    try:
        written_ns = file.stat().st_mtime_ns
    except OSError:
        return ""
    return _read_values(file, written_ns).get(name, "")


@lru_cache(maxsize=1)
def _read_values(file: Path, written_ns: int) -> dict[str, str]:
    """Read the file once for each time it was written: every tool of every turn may ask."""
    from hermes_config.errors import ConfigError
    from hermes_config.sources import parse_env, read_text

    try:
        lines = parse_env(read_text(file) or "")
    except ConfigError:  # reported when the settings are loaded
        return {}
    return {line.name: line.value.strip() for line in lines if line.name and line.value is not None}


def notify_socket() -> str | None:
    """Return where to tell systemd that we are ready, or None when it did not start us."""
    return get("NOTIFY_SOCKET") or None


def watchdog_seconds() -> float | None:
    """Return how long systemd waits for a sign of life; None when it does not watch this process."""
    pid = get("WATCHDOG_PID")
    if pid and pid != str(os.getpid()):
        return None
    try:
        microseconds = int(get("WATCHDOG_USEC"))
    except ValueError:
        return None
    return microseconds / 1_000_000 if microseconds > 0 else None


def no_color() -> bool:
    """Return whether the person wants no colours (no-color.org)."""
    return has("NO_COLOR")


def is_dumb_terminal() -> bool:
    return get("TERM") in ("", "dumb")


def set_default(name: str, value: str) -> None:
    """Set a variable for this process and its children, unless it is set: some libraries take options only so."""
    os.environ.setdefault(name, value)
