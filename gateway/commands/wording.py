"""Short texts that several commands share."""

from collections.abc import Iterable
from difflib import get_close_matches

from gateway.clock import now_ms
from gateway.wording import shorten


def age(at_ms: int) -> str:
    minutes = max(0, now_ms() - at_ms) // 60_000
    for size, unit in ((1_440, "day"), (60, "hour"), (1, "minute")):
        if count := minutes // size:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def quote(text: str, max_chars: int = 60) -> str:
    return f"“{shorten(text, max_chars)}”"


def name_nearest(kind: str, given: str, known: Iterable[str], command: str) -> str:
    """Say that there is no such thing, and name the nearest ones that exist."""
    names = list(known)
    wanted = given.casefold()
    near = [name for name in names if wanted in name.casefold()][:5]
    near = near or get_close_matches(given, names, n=3, cutoff=0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"/{command} lists all."
    return f"There is no {kind} {quote(given)}. {hint}"
