"""Decide whether a human must approve a command: because of its risks, or because text from outside asks for it.

Without isolation an owner decides about risky commands. In a sandbox only text from outside is a reason, and the person
who asked may decide. The gate decides whether anybody is asked at all.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tools.approval.allowlist import allows, allows_as_written
from tools.approval.changed_files import changed_files
from tools.approval.gate import NOT_ANOTHER_WAY, NobodyNeedsToBeAsked, NotApproved, Question, bound_to
from tools.approval.taint import NO_DOUBT, Doubt, Setting, doubt_about
from tools.approval.wrapper import About
from tools.backends.base import Workplace
from tools.base import ToolContext
from tools.shell_guard.guard import Judgement, judge
from tools.terminal_rules import TerminalRules

MAX_SHOWN_CHARS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command that may need approval, and all that its effect depends on."""

    tool: str
    command: str  # for the guard
    action: str  # for people
    folder: str  # where it starts; empty when that is not known
    facts: tuple[object, ...] = ()  # besides command and place


def about_terminal(rules: TerminalRules) -> About:
    """Return the check of calls of the terminal tool."""

    async def about(given: dict[str, object], context: ToolContext) -> Question | None:
        place, command, workdir = context.workplace, given.get("command"), given.get("workdir")
        if place is None or not isinstance(command, str) or not command.strip():
            return None  # the tool itself says what is wrong
        asked = Asked(
            tool="terminal",
            command=command,
            action=command,
            folder=place.locate(workdir) if isinstance(workdir, str) and workdir else place.current_folder,
            facts=tuple(bool(given.get(name)) for name in ("background", "pty")),
        )
        return await question_about(asked, rules, place, context)

    return about


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReview:
    """The findings about a command."""

    judgement: Judgement
    doubt: Doubt = NO_DOUBT
    written: str = ""  # a digest of the changed files that it may run

    @property
    def is_clear(self) -> bool:
        return self.judgement.verdict == "safe" and not self.doubt.reasons


async def question_about(asked: Asked, rules: TerminalRules, place: Workplace, context: ToolContext) -> Question | None:
    return question_from(asked, await review(asked, rules, place, context), place, context)


async def review(asked: Asked, rules: TerminalRules, place: Workplace, context: ToolContext) -> CommandReview:
    """Judge a command, with the changed files that it may run and the conversation it comes from."""
    # In threads: a look at files may hang where a folder is on a machine that is gone.
    judgement = await asyncio.to_thread(_judge, asked, rules, place)
    if not await asyncio.to_thread(_has_effect, asked, place):
        return CommandReview(judgement=judgement)
    heard = await asyncio.to_thread(context.heard)
    written = await changed_files(asked.command, asked.folder, heard.written, place, context.task_id)
    if written and not place.backend.isolates:
        judgement = await asyncio.to_thread(_judge_files, judgement, asked, rules, place, written)
    doubt = NO_DOUBT
    if heard.outside and not allows_as_written(rules.allowlist, asked.command):
        setting = Setting(
            cwd=asked.folder, home=place.backend.home, has_network=place.backend.has_network, written=written
        )
        doubt = await asyncio.to_thread(doubt_about, asked.command, heard, setting)
    return CommandReview(judgement=judgement, doubt=doubt, written=bound_to(written))


def question_from(asked: Asked, look: CommandReview, place: Workplace, context: ToolContext) -> Question | None:
    if look.is_clear:
        return None
    judgement, doubt = look.judgement, look.doubt
    is_blocked = judgement.verdict == "block"
    _check_length(asked.action, is_blocked=is_blocked, context=context)
    return Question(
        tool=asked.tool,
        action=asked.action,
        where=where(place, asked.folder),
        reasons=(*judgement.reasons, *doubt.reasons),
        rules=() if doubt.only_once else _grantable_rules(judgement, doubt),
        binding=bound_to(
            asked.tool,
            asked.command,
            asked.folder,
            sorted(place.environment.items()),
            place.backend.name,
            place.holder,
            look.written,
            *asked.facts,
        ),
        decider="asker" if place.backend.isolates else "owner",
        is_blocked=is_blocked,
    )


def where(place: Workplace, folder: str) -> str:
    machine = "in the sandbox" if place.backend.isolates else "on this machine"
    return f"{machine}, in {from_home(folder, place)}" if folder else machine


def from_home(path: str, place: Workplace) -> str:
    home = place.backend.home.rstrip("/")
    is_below = home and (path == home or path.startswith(f"{home}/"))
    return f"~{path[len(home) :]}" if is_below else path


def exists(path: str, home: str) -> bool:
    """Return whether a path, as the guard writes it, is there."""
    return os.path.lexists(home + path[1:] if path.startswith("~") else path)


def _judge(asked: Asked, rules: TerminalRules, place: Workplace) -> Judgement:
    if place.backend.isolates:
        return Judgement(verdict="safe")
    home = place.backend.home
    shares_files = place.backend.shares_host_files  # files of another machine cannot be looked up
    judgement = judge(
        asked.command,
        cwd=asked.folder,
        home=home,
        policy=rules.policy,
        is_there=lambda path: not shares_files or exists(path, home),
    )
    if judgement.verdict == "ask" and allows(rules.allowlist, asked.command):
        return Judgement(verdict="safe", argv=judgement.argv)
    return judgement


def _judge_files(
    judgement: Judgement, asked: Asked, rules: TerminalRules, place: Workplace, written: Mapping[str, str]
) -> Judgement:
    """Judge the changed files that the command would run like the command itself. A program that was built meanwhile
    cannot be read, and counts as any other program."""
    deeper = _judge_with(asked, place, {path: text for path, text in written.items() if "\0" not in text})
    if deeper.verdict != "block" and allows(rules.allowlist, asked.command):
        return judgement
    shallow = _judge_with(asked, place, {})
    known = shallow.reasons
    more = tuple(f"in a file written meanwhile: {reason}" for reason in deeper.reasons if reason not in known)
    if not more:
        return judgement
    return Judgement(
        verdict="block" if "block" in (deeper.verdict, judgement.verdict) else "ask",
        reasons=(*judgement.reasons, *more),
        argv=deeper.argv,
        rules=tuple(dict.fromkeys((*judgement.rules, *deeper.rules))),
    )


def _judge_with(asked: Asked, place: Workplace, written: Mapping[str, str]) -> Judgement:
    home = place.backend.home
    return judge(asked.command, cwd=asked.folder, home=home, written=written, is_there=lambda path: False)


def _has_effect(asked: Asked, place: Workplace) -> bool:
    """Return False for commands that only look, as most do: then the conversation need not be read."""
    from tools.shell_guard.reaching import reaches

    judged = judge(asked.command, cwd=asked.folder, home=place.backend.home, policy="unknown")
    return judged.verdict != "safe" or bool(reaches(asked.command, cwd=asked.folder, home=place.backend.home))


def _grantable_rules(judgement: Judgement, doubt: Doubt) -> tuple[str, ...]:
    """Return all rules that a lasting yes must grant, or none: half of them would not let the command run."""
    if not all(rule.is_grantable for rule in judgement.rules):
        return ()
    return (*map(str, judgement.rules), *doubt.rules)


def _check_length(action: str, *, is_blocked: bool, context: ToolContext) -> None:
    if len(action) <= MAX_SHOWN_CHARS or is_blocked or isinstance(context.gate, NobodyNeedsToBeAsked):
        return
    raise NotApproved(
        f"This was not done: a human must approve it, and {len(action):,} characters are too long to show (at most "
        f"{MAX_SHOWN_CHARS:,}). {NOT_ANOTHER_WAY} Take smaller steps, or write a script with file_write and run that, "
        "so that each step can be read."
    )
