"""Store the state of a conversation's shell (folder, variables) in a file, so that it survives a restart."""

import json
import os
from dataclasses import replace
from pathlib import Path

import structlog

from hermes_config.places import make_private
from tools.backends.base import Workplace

log = structlog.get_logger()

_MAX_FILES = 200  # for each person; older conversations start with a fresh shell


def restore(place: Workplace, file: Path) -> Workplace:
    """Return the workplace as the last command left it; unchanged when nothing is stored. Blocks."""
    try:
        left = json.loads(file.read_text(encoding="utf-8"))
        folder, exported = left["folder"], left["exported"]
    except FileNotFoundError:
        return place
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("shell not restored", problem=type(error).__name__)
        return place
    return replace(place, current_folder=str(folder), environment=dict(exported))


def save(place: Workplace, file: Path) -> None:
    """Store the state of the shell. Blocks. A full disk loses it and nothing else."""
    left = {"folder": place.current_folder, "exported": place.environment}
    try:
        make_private(file.parent)
        new = file.with_suffix(".new")
        with open(new, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            json.dump(left, opened)
        new.replace(file)
        oldest_first = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
        for old in oldest_first[:-_MAX_FILES]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: half a surrogate pair cannot be encoded
        log.warning("shell not saved", problem=type(error).__name__)
