"""Small pieces of sentences that several screens share."""

import re
from collections.abc import Sequence

_MAX_NAMES = 3


def count(number: int, singular: str, plural: str = "") -> str:
    """Return "1 rule" or "3 rules"; give the plural where an s at the end is not enough."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def list_some(names: Sequence[str]) -> str:
    """Join the first few names and count the rest: nobody reads a list of a thousand."""
    shown = ", ".join(names[:_MAX_NAMES])
    return f"{shown} and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else shown


def shorten(text: str, max_chars: int) -> str:
    """Return a text on one line, cut at its end if it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= max_chars else f"{flat[: max_chars - 1]}…"


def fence(text: str) -> str:
    """Return a text as a block of code, whatever is in it: the fence is longer than any row of backticks."""
    marks = "`" * max([3, *(len(row) + 1 for row in re.findall("`+", text))])
    return f"{marks}\n{text}\n{marks}"
