"""What a conversation's shell was left with, kept beside its outputs: a restart begins nothing anew."""

import json
import os
from dataclasses import replace
from pathlib import Path

import structlog

from hermes_config.places import make_private
from tools.backends.base import Workplace

log = structlog.get_logger()

_MAX_KEPT = 200  # for each person: one of a conversation that old begins anew


def restored(place: Workplace, file: Path) -> Workplace:
    """As it was left; unchanged when nothing is known of it. Blocks."""
    try:
        left = json.loads(file.read_text(encoding="utf-8"))
        folder, exported = left["folder"], left["exported"]
    except FileNotFoundError:
        return place
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("shell not restored", problem=type(error).__name__)
        return place
    return replace(place, current_folder=str(folder), environment=dict(exported))


def keep(place: Workplace, file: Path) -> None:
    """Blocks. A disk that takes nothing loses this, and no more."""
    left = {"folder": place.current_folder, "exported": place.environment}
    try:
        make_private(file.parent)
        new = file.with_suffix(".new")
        with open(new, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            json.dump(left, opened)
        new.replace(file)
        oldest_first = sorted(file.parent.glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
        for old in oldest_first[:-_MAX_KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # no text can hold half a character
        log.warning("shell not kept", problem=type(error).__name__)
