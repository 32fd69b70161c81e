"""Match commands against the operator's allowlist: patterns over the whole command, as it is written. Pure.

`*` matches any text and `?` one character, but none by which another command could begin, be redirected or be decided
when it runs. All other characters of a pattern match themselves, so `make test | tee log` can be allowed.
"""

import re
from collections.abc import Iterable

_WILDCARD = re.compile(r"[*?]")
# The characters that a wildcard matches. A tab is a blank; other control characters could hide something.
_ANY = r"[^;|&<>$`\\(){}!#\x00-\x08\x0a-\x1f\x7f\u0085\u2028\u2029]"


def allows(patterns: Iterable[str], command: str) -> bool:
    wanted = command.strip()
    return bool(wanted) and any(_matches(pattern.strip(), wanted) for pattern in patterns)


def allows_as_written(patterns: Iterable[str], command: str) -> bool:
    """Return whether a pattern without wildcards allows it: the operator has written this very command."""
    return allows((pattern for pattern in patterns if not _WILDCARD.search(pattern)), command)


def _matches(pattern: str, command: str) -> bool:
    if not _WILDCARD.search(pattern):
        return pattern == command
    program, *_ = pattern.split()
    if _WILDCARD.search(program):  # the program must be named
        return False
    first, *rest = map(_as_regex, pattern.split("*"))
    # Atomic groups: text between two stars matches where it is first found. A later place only makes the text before it
    # longer, and trying them all would take exponential time.
    between = "".join(f"(?>{_ANY}*?{piece})" for piece in rest[:-1])
    return bool(re.fullmatch(first + between + "".join(f"{_ANY}*{last}" for last in rest[-1:]), command))


def _as_regex(piece: str) -> str:
    return _ANY.join(map(re.escape, piece.split("?")))
