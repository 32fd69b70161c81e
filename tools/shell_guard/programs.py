"""The table of dangerous programs and the lists of names, which are in the text file beside this one."""

import functools
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

_HEADER = re.compile(r"\[([a-z-]+)\](?: (.+))?")
_READS_INPUT = ("drop-data", "interpreter-code", "upload", "raw-connection")  # rules that look at it too
_INPUT = " \x04 "  # stands before it


def names(text: str) -> frozenset[str]:
    """Return a set of names that are written as one text."""
    return frozenset(text.split())


class DangerRow(NamedTuple):
    rule: str  # or the name of a list
    reason: str
    names: list[str]
    pattern: str


def has_dangers(name: str) -> bool:
    return name in _dangers() or name.partition(".")[0] in _dangers()


def dangers_of(name: str, words: tuple[str, ...], stdin: str | None = None) -> list[DangerRow]:
    """Return the rows that a command matches. mkfs.ext4 is mkfs."""
    if words[:1] in (("--help",), ("--version",)):  # further on it may be the name of a file
        return []
    rows = _dangers().get(name) or _dangers().get(name.partition(".")[0]) or []
    text = " ".join(words)
    return [row for row in rows if _matches(row, text, stdin)]


@functools.cache
def listed(section: str) -> frozenset[str]:
    """Return the names of a section that gives no reason."""
    return frozenset(name for line in lines_of(section) if not line.pattern for name in line.names)


@functools.cache
def lines_of(section: str) -> list[DangerRow]:
    return [line for line in _lines() if line.rule == section and not line.reason]


def value_of(section: str, name: str) -> str | None:
    """Return what stands behind :: for a name; None when the section does not have it."""
    return _values(section).get(name)


def pattern_of(section: str, name: str) -> re.Pattern[str]:
    return re.compile(_values(section)[name])


def is_known_harmless(name: str, words: Sequence[str]) -> bool:
    """Return whether it is known to do no harm by itself, for the policy that asks about all others."""
    if name in listed("harmless"):
        return True
    uses = value_of("harmless", name)
    return bool(uses and re.match(uses, re.sub(r"^(?:-[Cc] \S+ |-\S+ )+", "", " ".join(words))))


def _matches(row: DangerRow, text: str, stdin: str | None) -> bool:
    if row.pattern.startswith("!"):
        return bool(text) and not _compiled(row.pattern[1:]).fullmatch(text)
    has_input = stdin is not None and row.rule in _READS_INPUT
    return bool(_compiled(row.pattern).search(f"{text}{_INPUT}{stdin}" if has_input else text))


@functools.cache
def _values(section: str) -> dict[str, str]:
    return {name: line.pattern for line in reversed(lines_of(section)) for name in line.names}


_compiled = functools.cache(re.compile)  # which keeps only some by itself


@functools.cache
def _dangers() -> dict[str, list[DangerRow]]:
    found: dict[str, list[DangerRow]] = {}
    for line in _lines():
        for name in line.names if line.reason else ():
            found.setdefault(name, []).append(line)
    return found


@functools.cache
def _lines() -> list[DangerRow]:
    found: list[DangerRow] = []
    rule = reason = ""
    for line in (files(__package__) / "dangers.txt").read_text().splitlines():
        if header := _HEADER.fullmatch(line):
            rule, reason = header[1], header[2] or ""
        elif line and not line.startswith("#"):
            names, _, pattern = line.partition(" :: ")
            found.append(DangerRow(rule, reason, names.split(), pattern))
    return found
