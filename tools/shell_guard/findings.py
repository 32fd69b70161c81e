"""Findings about a command, and one command as it would run."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from tools.shell_guard.paths import locate, locate_scope

MAX_REASON_CHARS = 300

Verdict = Literal["safe", "ask", "block"]


@dataclass(frozen=True, slots=True)
class CommandRisk:
    """One reason not to run it without a human's yes. Rule and scope name what a yes would grant."""

    verdict: Literal["ask", "block"]
    rule: str
    reason: str  # a clause: "it deletes …"
    scope: str = ""


def _risk(verdict: Literal["ask", "block"], rule: str, reason: str, scope: str = "") -> CommandRisk:
    if len(reason) > MAX_REASON_CHARS:  # it may name a path of any length
        reason = f"{reason[: MAX_REASON_CHARS - 1]}…"
    return CommandRisk(verdict, rule, reason, scope)


ask, block = partial(_risk, "ask"), partial(_risk, "block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command with its words as they will be, as far as that is known."""

    name: str  # without its folder
    path: str = ""  # where the program is, if its folder is said
    words: tuple[str, ...]  # after the name
    stdin: str | None = None  # what is piped or written into it; None when it is nothing or a file
    folder: str = ""
    home: str = "~"

    def at(self, word: str) -> str:
        """Return the path that a word names, as far as it is known; the home is `~`."""
        return locate(word, self.folder, self.home)

    def scope(self, word: str) -> str:
        """Return the place that a yes about a word would be for."""
        return locate_scope(word, self.folder, self.home)
