"""What is asked about before a command runs: what the guard finds in it, and what text from outside wants.

Where nothing isolates, an owner decides about what could do harm. In a sandbox only text from outside is a reason, and
whoever it is done for may decide. Whether anybody is asked at all is the gate's affair.
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
    """A command that may be asked about, and all that its effect depends on."""

    tool: str
    command: str  # as the guard reads it
    action: str  # as people read it
    folder: str  # where it begins; empty when that is not known
    facts: tuple[object, ...] = ()  # besides command and place


def about_terminal(rules: TerminalRules) -> About:
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
    """What was found about a command."""

    judgement: Judgement
    doubt: Doubt = NO_DOUBT
    written: str = ""  # what tells the files that were written before from others

    @property
    def is_clear(self) -> bool:
        return self.judgement.verdict == "safe" and not self.doubt.reasons


async def question_about(asked: Asked, rules: TerminalRules, place: Workplace, context: ToolContext) -> Question | None:
    return question_from(asked, await looked_at(asked, rules, place, context), place, context)


async def looked_at(asked: Asked, rules: TerminalRules, place: Workplace, context: ToolContext) -> CommandReview:
    """In a thread: looking for files may take for ever where a folder is on a machine that is gone."""
    judgement = await asyncio.to_thread(_judged, asked, rules, place)
    if not await asyncio.to_thread(_does_something, asked, place):
        return CommandReview(judgement=judgement)
    heard = await asyncio.to_thread(context.heard)
    written = await changed_files(asked.command, asked.folder, heard.written, place, context.task_id)
    if written and not place.backend.is_isolated:
        judgement = await asyncio.to_thread(_with_files, judgement, asked, rules, place, written)
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
        rules=() if doubt.only_once else _granting(judgement, doubt),
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
        decider="asker" if place.backend.is_isolated else "owner",
        is_blocked=is_blocked,
    )


def where(place: Workplace, folder: str) -> str:
    machine = "in the sandbox" if place.backend.is_isolated else "on this machine"
    return f"{machine}, in {from_home(folder, place)}" if folder else machine


def from_home(path: str, place: Workplace) -> str:
    home = place.backend.home.rstrip("/")
    is_below = home and (path == home or path.startswith(f"{home}/"))
    return f"~{path[len(home) :]}" if is_below else path


def exists(path: str, home: str) -> bool:
    """Of a path as the guard gives it."""
    return os.path.lexists(home + path[1:] if path.startswith("~") else path)


def _judged(asked: Asked, rules: TerminalRules, place: Workplace) -> Judgement:
    if place.backend.is_isolated:
        return Judgement(verdict="safe")
    home = place.backend.home
    is_local = place.backend.name == "local"  # of another machine nobody here can tell
    judgement = judge(
        asked.command,
        cwd=asked.folder,
        home=home,
        policy=rules.policy,
        is_there=lambda path: not is_local or exists(path, home),
    )
    if judgement.verdict == "ask" and allows(rules.allowlist, asked.command):
        return Judgement(verdict="safe", argv=judgement.argv)
    return judgement


def _with_files(
    judgement: Judgement, asked: Asked, rules: TerminalRules, place: Workplace, written: Mapping[str, str]
) -> Judgement:
    """What it would run of files that were written before is looked at like the command itself. A program that was
    built meanwhile cannot be read, and is one like any other."""
    deeper = _read(asked, place, {path: text for path, text in written.items() if "\0" not in text})
    if deeper.verdict != "block" and allows(rules.allowlist, asked.command):
        return judgement
    shallow = _read(asked, place, {})
    more = tuple(f"in a file written meanwhile: {one}" for one in deeper.reasons if one not in shallow.reasons)
    if not more:
        return judgement
    return Judgement(
        verdict="block" if "block" in (deeper.verdict, judgement.verdict) else "ask",
        reasons=(*judgement.reasons, *more),
        argv=deeper.argv,
        rules=tuple(dict.fromkeys((*judgement.rules, *deeper.rules))),
    )


def _read(asked: Asked, place: Workplace, written: Mapping[str, str]) -> Judgement:
    home = place.backend.home
    return judge(asked.command, cwd=asked.folder, home=home, written=written, is_there=lambda path: False)


def _does_something(asked: Asked, place: Workplace) -> bool:
    """Most commands only look: for those nobody needs to know what the conversation holds."""
    from tools.shell_guard.reaching import reaches

    judged = judge(asked.command, cwd=asked.folder, home=place.backend.home, policy="unknown")
    return judged.verdict != "safe" or bool(reaches(asked.command, cwd=asked.folder, home=place.backend.home))


def _granting(judgement: Judgement, doubt: Doubt) -> tuple[str, ...]:
    """All of what a lasting yes would have to grant, or nothing: half of it would not let the command run."""
    if not all(rule.is_grantable for rule in judgement.rules):
        return ()
    return (*map(str, judgement.rules), *doubt.rules)


def _check_length(action: str, *, is_blocked: bool, context: ToolContext) -> None:
    if len(action) <= MAX_SHOWN_CHARS or is_blocked or isinstance(context.gate, NobodyNeedsToBeAsked):
        return
    raise NotApproved(
        f"This was not done: a human must look at it first, and {len(action):,} characters are more than one can be "
        f"shown ({MAX_SHOWN_CHARS:,}). {NOT_ANOTHER_WAY} Do it in smaller steps, or put it into a script with "
        "file_write and run that, so that each step can be read."
    )
