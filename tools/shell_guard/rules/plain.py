"""Rules that the words of a command decide alone: those that always ask, or by a pattern."""

import re
from collections.abc import Callable, Iterator

from tools.shell_guard.findings import CommandRisk, Run, ask
from tools.shell_guard.names import names

Rule = Callable[[Run], Iterator[CommandRisk]]


def always(rule: str, reason: str, programs: str) -> dict[str, Rule]:
    """For each of these programs; only its help does not ask."""

    def found(run: Run) -> Iterator[CommandRisk]:
        if run.words[:1] not in (("--help",), ("--version",)):  # further on it may be the name of a file
            yield ask(rule, reason)

    return dict.fromkeys(names(programs), found)


def when(rule: str, reason: str, *patterns: str) -> Rule:
    """Asks when a pattern fits the words, options included, joined by blanks.

    Where two words must be there, write `\\A(?=.*one).*other`: `one.*other` begins anew at each `one`.
    """
    compiled = re.compile("|".join(patterns))

    def found(run: Run) -> Iterator[CommandRisk]:
        if compiled.search(" ".join(run.words)):
            yield ask(rule, reason)

    return found


def unless(rule: str, reason: str, harmless: str) -> Rule:
    """Asks when the words do not fit."""
    compiled = re.compile(harmless)

    def found(run: Run) -> Iterator[CommandRisk]:
        if not compiled.fullmatch(" ".join(run.words)):
            yield ask(rule, reason)

    return found


def all_of(*rules: Rule) -> Rule:
    """One program that several rules are about."""

    def found(run: Run) -> Iterator[CommandRisk]:
        for rule in rules:
            yield from rule(run)

    return found
