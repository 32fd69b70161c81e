"""Commands that the operator has allowed for good: patterns over the whole command, as it is written. Pure.

`*` stands for any text and `?` for one character, but for none by which another command could begin, be redirected or
be decided when it runs. What stands in a pattern itself is taken as it is, so `make test | tee log` can be allowed.
"""

import re
from collections.abc import Iterable

_WILDCARD = re.compile(r"[*?]")
# A tab is a blank; other control characters have no business in a command that somebody wants to have seen.
_STOPS = re.compile(r"[;|&<>$`\\(){}!#\x00-\x08\x0a-\x1f\x7f\u0085\u2028\u2029]")


def allows(patterns: Iterable[str], command: str) -> bool:
    wanted = command.strip()
    return bool(wanted) and any(_fits(pattern.strip(), wanted) for pattern in patterns)


def allows_as_written(patterns: Iterable[str], command: str) -> bool:
    """By a pattern without wildcards: the operator has written this very command."""
    return allows((pattern for pattern in patterns if not _WILDCARD.search(pattern)), command)


def _fits(pattern: str, command: str) -> bool:
    if not _WILDCARD.search(pattern):
        return pattern == command
    if _WILDCARD.search(pattern.split(maxsplit=1)[0]):  # the program itself must be named
        return False
    first, *rest = pattern.split("*")
    place = _match_at(first, command, 0)
    if not rest:
        return place == len(command)
    # The leftmost place is as good as any: a later one only makes the text before it longer.
    for piece in rest[:-1]:
        found = _find(piece, command, place) if place >= 0 else -1
        place = found + len(piece) if found >= 0 else -1
    last = len(command) - len(rest[-1])
    return 0 <= place <= last and not _STOPS.search(command, place, last) and _match_at(rest[-1], command, last) >= 0


def _find(piece: str, command: str, start: int) -> int:
    """Where the piece is next, with nothing before it that `*` does not stand for; -1 when nowhere."""
    stop = _STOPS.search(command, start)
    for place in range(start, (stop.start() if stop else len(command)) + 1):
        if _match_at(piece, command, place) >= 0:
            return place
    return -1


def _match_at(piece: str, command: str, place: int) -> int:
    """Behind it; -1 when it is not there."""
    there = command[place : place + len(piece)]
    if len(there) < len(piece):
        return -1
    fits = all(
        ours == theirs or (ours == "?" and not _STOPS.match(theirs)) for ours, theirs in zip(piece, there, strict=True)
    )
    return place + len(piece) if fits else -1
