"""What time it is, names made from it, and times as people say them."""

import secrets
import time
from datetime import UTC, datetime
from itertools import pairwise

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_session_id(at_ms: int) -> str:
    """Readable and sortable: 20260322_124359_6b542f4e."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{moment:%Y%m%d_%H%M%S}_{secrets.token_hex(4)}"


def new_id() -> str:
    """Unique, 24 characters: short enough for the platforms that take an idempotency key."""
    return secrets.token_hex(12)


def for_people(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def roughly(ms: int) -> str:
    """A length of time in its largest unit: 3 h."""
    seconds = max(ms, 0) // 1000
    size, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return f"{seconds // size} {unit}"


def how_long(ms: int) -> str:
    """In its largest unit and the one below it: 3 h 20 min."""
    seconds = max(ms, 0) // 1000
    for (size, unit), (smaller, below) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"
