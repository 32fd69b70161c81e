"""Match names with globs and with the rules of ignore files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_WILDCARDS = frozenset("*?[")


def name_matches(pattern: str, path: str) -> bool:
    """Match a glob with the name, or with the path if it has a slash; without wildcards, match any part."""
    name = path.rpartition("/")[2]
    if not _WILDCARDS.intersection(pattern):
        return pattern.casefold() in (path if "/" in pattern else name).casefold()
    if "/" not in pattern:
        return fnmatchcase(name, pattern)
    return segments_match([part for part in pattern.split("/") if part], path.split("/"))


def segments_match(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Match a path, where `**` stands for any number of folders. Takes linear time in both, whatever the pattern."""
    reached = {0}  # how many parts of the pattern may have matched before the next name
    for name in path:
        reached = _with_nothing(reached, pattern)
        reached = {
            position if pattern[position] == "**" else position + 1
            for position in reached
            if position < len(pattern) and (pattern[position] == "**" or fnmatchcase(name, pattern[position]))
        }
    return len(pattern) in _with_nothing(reached, pattern)


def _with_nothing(reached: Iterable[int], pattern: Sequence[str]) -> set[int]:
    more = set(reached)
    for position in sorted(more):
        while position < len(pattern) and pattern[position] == "**":
            position += 1
            more.add(position)
    return more


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRule:
    """A line of an ignore file."""

    parts: tuple[str, ...]
    is_negated: bool
    folders_only: bool

    def matches(self, path: Sequence[str], *, is_folder: bool) -> bool:
        """Return whether the rule applies to a path, given from the folder of the ignore file."""
        return (is_folder or not self.folders_only) and segments_match(self.parts, path)


def parse_ignore_file(text: str) -> tuple[IgnoreRule, ...]:
    return tuple(rule for line in text.splitlines() if (rule := _rule(line)))


def _rule(line: str) -> IgnoreRule | None:
    line = line.rstrip("\r")
    if not line.endswith("\\ "):
        line = line.rstrip(" ")
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    line = line.removeprefix("!")
    if line.startswith(("\\#", "\\!")):
        line = line[1:]
    folders_only = line.endswith("/")
    anchored = "/" in line.rstrip("/")
    parts = tuple(part.replace("\\ ", " ") for part in line.split("/") if part)
    if not parts:
        return None
    return IgnoreRule(parts=parts if anchored else ("**", *parts), is_negated=is_negated, folders_only=folders_only)


def verdict(rules: Sequence[IgnoreRule], path: Sequence[str], *, is_folder: bool) -> bool | None:
    """Return True if ignored, False if explicitly kept, None if no rule matches. The last matching rule decides."""
    for rule in reversed(rules):
        if rule.matches(path, is_folder=is_folder):
            return not rule.is_negated
    return None
