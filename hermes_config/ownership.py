"""Code of the user that we run must be the user's own: what others can change, others could make us run."""

import os
import stat
from pathlib import Path


def find_stranger(path: Path) -> str:
    """Return who else can change a path whose code would run as us; empty if nobody can."""
    try:
        found = path.stat()
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (uid {found.st_uid}). Make it your own: chown {os.geteuid()} {path}"
    if found.st_mode & stat.S_IWOTH:
        return f"everybody can write to {path}. Close it: chmod o-w {path}"
    return ""
