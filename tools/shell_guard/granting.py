"""Rules that a lasting yes grants, each with its scope, and whether earlier ones cover a command.

Whatever cannot be decided is not covered. Paths are compared as texts: a link below a granted folder is not seen.
"""

import posixpath
import re
from typing import Self

from tools.shell_guard.paths import is_everything, is_system
from tools.shell_guard.programs import names

# Only these can be granted for good; a rule that is not named here cannot, which goes for every new one.
# The scope of these is a path, and says all that a yes opens.
_BY_PATH = names("recursive-delete delete-all-files overwrite-file read-secret run-written")
# The scope of these is a program's name or path, or a chat such as discord:123, and is compared for equality.
_BY_NAME = names("unknown-command interpreter-code send-message")
_BY_PROGRAM_AND_FOLDER = "run-outside"  # its scope says which commands may leave the sandbox
# These have no scope, and what they do can be had back, or is of one tool alone.
_AS_A_WHOLE = names("git-discard force-push remove-packages stop-service delete-containers open-rights")
# Paths too, but never granted for good: what is run by itself later, and the system.
_PATHS = _BY_PATH | names("write-start-up change-system")

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_UNDECIDED = "…"
# One folder from the top, or a whole disk that is mounted.
_WIDE = re.compile(r"/[^/]*|/(?:mnt|media|Volumes|run/media)(?:/[^/]+){1,2}|/(?:var|srv|opt|tmp)/[^/]*")
_PATTERN = re.compile(r"[*?\[]")
_MAY_CLIMB = re.compile(r"(?:^|/)\.[^/]*[*?\[]|[*?\[][^/]*/(?:.*/)?\.\.(?:/|$)")  # `.*` can be `..`


class Rule(str):
    """Its text is the rule, as it is shown to people and kept: "recursive-delete /home/ann/proj"."""

    __slots__ = ()

    def __new__(cls, name: str, scope: str = "") -> Self:
        """Raises ValueError for a name that could be read back as another one."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a rule")
        return super().__new__(cls, f"{name} {scope}" if scope else name)

    def __reduce__(self) -> tuple[type["Rule"], tuple[str, str]]:  # else a copy would have no name
        return Rule, (self.name, self.scope)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the rule that `str()` gave; raises ValueError for anything else."""
        name, _, scope = text.partition(" ")
        rule = cls(name, scope)
        if rule != text:
            raise ValueError(f"{text!r} is no rule")
        return rule

    @property
    def name(self) -> str:
        return str(self).partition(" ")[0]  # of itself, without a blank, it would be a rule again

    @property
    def scope(self) -> str:
        return self.partition(" ")[2]

    @property
    def is_grantable(self) -> bool:
        """Return whether an approval may be permanent; approving it once is always possible."""
        if self.name in _AS_A_WHOLE:
            return not self.scope
        if self.name in _BY_NAME:
            return bool(self.scope) and _is_decided(self.scope) and not _PATTERN.search(self.scope)
        if self.name == _BY_PROGRAM_AND_FOLDER:
            program, _, folder = self.scope.partition(" ")
            return bool(program) and _is_decided(program) and _is_place(folder)
        return self.name in _BY_PATH and _is_place(self.scope) and not _is_wide(self.scope)


def covers(granted: Rule, wanted: Rule) -> bool:
    """Return whether one approval includes another: the same rule, and the same scope or a folder above it."""
    if granted.name != wanted.name:
        return False
    if not granted.scope or not wanted.scope:
        return granted.scope == wanted.scope
    if granted.name == _BY_PROGRAM_AND_FOLDER:
        (program, _, above), (wanted_program, _, folder) = (rule.scope.partition(" ") for rule in (granted, wanted))
        is_below = f"{posixpath.normpath(folder)}/".startswith(f"{posixpath.normpath(above)}/")
        return program == wanted_program and _is_place(folder) and is_below
    if granted.name not in _PATHS:
        return granted.scope == wanted.scope and _is_decided(wanted.scope)
    if not (_is_place(granted.scope) and _is_place(wanted.scope)):
        return False
    top, place = _components(granted.scope), _components(wanted.scope)
    return place == top or (place[: len(top)] == top and not _is_wide(granted.scope))


def _is_decided(scope: str) -> bool:
    return _UNDECIDED not in scope and scope.isprintable()


def _is_place(scope: str) -> bool:
    """Return whether a scope is a path that can be told from the text alone."""
    return scope.startswith("/") and _is_decided(scope) and not _MAY_CLIMB.search(scope)


def _is_wide(scope: str) -> bool:
    path = "/" + "/".join(_components(scope))
    return bool(_WIDE.fullmatch(path)) or is_everything(path) or is_system(path)


def _components(scope: str) -> list[str]:
    return [part for part in posixpath.normpath(scope).split("/") if part]
