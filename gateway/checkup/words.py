"""Numbers, lists and failures as people say them."""

from collections.abc import Sequence

_NAMED = 3


def some(names: Sequence[str]) -> str:
    """The first few; a list of a thousand helps nobody."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def plain_reason(error: Exception) -> str:
    """Its kind alone where we do not know its words: they could quote anything."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return type(error).__name__


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
