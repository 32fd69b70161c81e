"""Small pieces of sentences that several screens share."""

from collections.abc import Sequence

_MAX_NAMES = 3


def count(number: int, singular: str, plural: str = "") -> str:
    """Return "1 rule" or "3 rules"; give the plural where an s at the end is not enough."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def list_some(names: Sequence[str]) -> str:
    """Join the first few names and count the rest: nobody reads a list of a thousand."""
    shown = ", ".join(names[:_MAX_NAMES])
    return f"{shown} and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else shown
