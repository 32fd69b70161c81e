"""Commands that the operator has allowed for good: patterns over the whole command, as it is written. Pure.

`*` stands for any text and `?` for one character, but for none by which another command could begin, be redirected or
be decided when it runs. What stands in a pattern itself is taken as it is, so `make test | tee log` can be allowed.
"""

import re
from collections.abc import Iterable

_WILDCARD = re.compile(r"[*?]")
# What one stands for. A tab is a blank; other control characters have no business in a command that somebody wants to
# have seen.
_ANY = r"[^;|&<>$`\\(){}!#\x00-\x08\x0a-\x1f\x7f\u0085\u2028\u2029]"


def allows(patterns: Iterable[str], command: str) -> bool:
    wanted = command.strip()
    return bool(wanted) and any(_fits(pattern.strip(), wanted) for pattern in patterns)


def allows_as_written(patterns: Iterable[str], command: str) -> bool:
    """By a pattern without wildcards: the operator has written this very command."""
    return allows((pattern for pattern in patterns if not _WILDCARD.search(pattern)), command)


def _fits(pattern: str, command: str) -> bool:
    if not _WILDCARD.search(pattern):
        return pattern == command
    program, *_ = pattern.split()
    if _WILDCARD.search(program):  # it must be named
        return False
    first, *rest = map(_as_regex, pattern.split("*"))
    # What stands between two stars is taken where it is first found, for good: a later place only makes the text before
    # it longer, and trying them all would take for ever.
    between = "".join(f"(?>{_ANY}*?{piece})" for piece in rest[:-1])
    return bool(re.fullmatch(first + between + "".join(f"{_ANY}*{last}" for last in rest[-1:]), command))


def _as_regex(piece: str) -> str:
    return _ANY.join(map(re.escape, piece.split("?")))
