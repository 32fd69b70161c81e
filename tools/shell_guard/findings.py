"""Findings about a command, and one command as it would run."""

from dataclasses import dataclass
from typing import Literal

MAX_REASON_CHARS = 300

Verdict = Literal["safe", "ask", "block"]


@dataclass(frozen=True, slots=True)
class CommandRisk:
    """One reason not to run it without a human's yes. Rule and scope name what a yes would grant."""

    verdict: Literal["ask", "block"]
    rule: str
    reason: str  # a clause: "it deletes …"
    scope: str = ""


def ask(rule: str, reason: str, scope: str = "") -> CommandRisk:
    return CommandRisk("ask", rule, _brief(reason), scope)


def block(rule: str, reason: str, scope: str = "") -> CommandRisk:
    return CommandRisk("block", rule, _brief(reason), scope)


def _brief(reason: str) -> str:
    """A reason may name a path of any length."""
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command with its words as they will be, as far as that is known."""

    name: str  # without its folder
    path: str = ""  # where the program is, if its folder is said
    words: tuple[str, ...]  # after the name
    stdin: str | None = None  # what is piped or written into it; None when it is nothing or a file
    folder: str = ""
    home: str = "~"
