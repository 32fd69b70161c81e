"""What a check has to say: how bad it is, what it is about, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "bad"]
LEVELS: tuple[Level, ...] = ("ok", "warn", "bad")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    level: Level
    part: str  # of Hermes: findings are shown grouped by it
    text: str  # never holds a secret, nor a piece of one
    fix: str = ""  # a command to copy where there is one


def ok(part: str, text: str) -> Finding:
    return Finding(level="ok", part=part, text=text)


def warn(part: str, text: str, fix: str = "") -> Finding:
    return Finding(level="warn", part=part, text=text, fix=fix)


def bad(part: str, text: str, fix: str = "") -> Finding:
    return Finding(level="bad", part=part, text=text, fix=fix)


def worst(findings: Iterable[Finding]) -> Level:
    return max((finding.level for finding in findings), key=LEVELS.index, default="ok")
