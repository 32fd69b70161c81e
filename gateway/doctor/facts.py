"""What a check has to say: how bad it is, what it is about, and what to do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gateway.store.inspect import StoreSummary
from gateway.store.pairing import Overview
from hermes_config.load import Loaded
from hermes_config.places import Home
from hermes_config.settings import Settings

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


class Unknown(Exception):
    """A check asked for what could not be found out. Another check tells why, so this one is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    home: Home
    now_ms: int
    user_id: int = 1000  # of this process
    home_problem: str = ""
    config_problem: str = ""  # one a line
    loaded: Loaded | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # those that are set, by variable
    variables: frozenset[str] = frozenset()  # the names of what is set in the environment
    gateway: Mapping[str, Any] | None = None  # what the running one tells; None when there is none
    store_problem: str = ""
    look: StoreSummary | None = None
    backup_ms: tuple[int, ...] = ()  # when each was taken, the newest first
    units: tuple[Path, ...] = ()  # systemd's files about us
    lingers: bool = False  # whether services of this user go on without a login
    sandbox_problem: str = ""
    has_ripgrep: bool = True
    free_bytes: int | None = None  # on the disk of the home
    unseen: tuple[Finding, ...] = ()  # what could not be looked at

    @property
    def settings(self) -> Settings:
        if self.loaded is None:
            raise Unknown("settings")
        return self.loaded.settings

    @property
    def access(self) -> Overview:
        if self.look is None or self.look.access is None:
            raise Unknown("people")
        return self.look.access
