"""Decide whether a human must approve a command: it leaves the sandbox, is risky, or text from outside asks for it.

Without isolation an owner decides about risky commands, and about every command that leaves a sandbox. In a sandbox
only addresses that text from outside has named are a reason, and the person who asked may decide. The gate decides
whether anybody is asked at all.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from hermes_config.places import Home
from tools.approval.allowlist import allows, allows_as_written
from tools.approval.changed_files import changed_files
from tools.approval.gate import NOT_ANOTHER_WAY, NobodyNeedsToBeAsked, NotApproved, Question, bound_to
from tools.approval.taint import NO_DOUBT, Doubt, Setting, doubt_about, doubt_about_leaving
from tools.approval.wrapper import About
from tools.backends.base import Workplace
from tools.base import ToolContext
from tools.shell_guard.granting import Rule
from tools.shell_guard.guard import Judgement, judge
from tools.terminal_rules import TerminalRules

MAX_SHOWN_CHARS = 8_000
_MAX_REASON_CHARS = 500
_SAFE = Judgement(verdict="safe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command that may need approval, and all that its effect depends on."""

    tool: str
    command: str  # for the guard
    action: str  # for people
    folder: str  # where it starts; empty when that is not known
    facts: tuple[object, ...] = ()  # besides command and place
    outside: str | None = None  # why it shall leave the sandbox; None when it does not


def about_terminal(rules: TerminalRules) -> About:
    """Return the check of calls of the terminal tool."""

    async def about(given: dict[str, object], context: ToolContext) -> Question | None:
        place, command, workdir = context.workplace, given.get("command"), given.get("workdir")
        if place is None or not isinstance(command, str) or not command.strip():
            return None  # the tool itself says what is wrong
        is_outside = given.get("outside") is True and place.outside is not None
        place = place.outside if is_outside and place.outside is not None else place
        asked = Asked(
            tool="terminal",
            command=command,
            action=command,
            folder=place.locate(workdir) if isinstance(workdir, str) and workdir else place.current_folder,
            facts=tuple(bool(given.get(name)) for name in ("background", "pty")),
            # On one line: the lines below it in the question are ours.
            outside=" ".join(str(given.get("reason") or "").split())[:_MAX_REASON_CHARS] if is_outside else None,
        )
        return await question_about(asked, rules, place, context)

    return about


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReview:
    """The findings about a command."""

    judgement: Judgement
    doubt: Doubt = NO_DOUBT
    written: str = ""  # a digest of the changed files that it may run
    is_allowed: bool = False  # by the operator's allowlist


async def question_about(asked: Asked, rules: TerminalRules, place: Workplace, context: ToolContext) -> Question | None:
    return question_from(asked, await review(asked, rules, place, context), place, context)


async def review(asked: Asked, rules: TerminalRules, place: Workplace, context: ToolContext) -> CommandReview:
    """Judge a command, with the changed files that it may run and the conversation it comes from."""
    # In threads: a look at files may hang where a folder is on a machine that is gone.
    backend = place.backend
    if backend.isolates and not backend.has_network:
        return CommandReview(judgement=_SAFE)
    judgement = await asyncio.to_thread(_judge, asked, rules, place)
    if judgement.is_harmless and asked.outside is None:  # as most are: then the conversation need not be read
        return CommandReview(judgement=judgement)
    heard = await asyncio.to_thread(context.heard)
    written: dict[str, str] = {}
    if not backend.isolates:
        written = await changed_files(judgement.argv, asked.folder, heard.written, place, context.task_id)
    if written:
        judgement = await asyncio.to_thread(_judge, asked, rules, place, written)
    doubt = NO_DOUBT
    if heard.outside and not allows_as_written(rules.allowlist, asked.command):
        setting = Setting(
            cwd=asked.folder, has_network=backend.has_network, is_isolated=backend.isolates, written=frozenset(written)
        )
        look = doubt_about_leaving if asked.outside is not None else doubt_about
        doubt = await asyncio.to_thread(look, asked.command, judgement, heard, setting)
    is_allowed = judgement.verdict != "block" and allows(rules.allowlist, asked.command)
    if backend.isolates or (is_allowed and judgement.verdict == "ask"):
        judgement = Judgement(verdict="safe", argv=judgement.argv)
    return CommandReview(judgement=judgement, doubt=doubt, written=bound_to(written), is_allowed=is_allowed)


def question_from(asked: Asked, look: CommandReview, place: Workplace, context: ToolContext) -> Question | None:
    is_outside = asked.outside is not None and not look.is_allowed
    judgement, doubt = look.judgement, look.doubt
    if judgement.verdict == "safe" and not doubt.reasons and not is_outside:
        return None
    is_blocked = judgement.verdict == "block"
    _check_length(asked.action, is_blocked=is_blocked, context=context)
    why = f". The agent's reason: {asked.outside.rstrip(' .')}" if asked.outside else ""
    leaving = (f"it runs outside the sandbox{why}",) if is_outside else ()
    return Question(
        tool=asked.tool,
        action=asked.action,
        where=where(place, asked.folder),
        reasons=(*leaving, *judgement.reasons, *doubt.reasons),
        rules=() if doubt.only_once else _grantable_rules(judgement, doubt, asked.folder if is_outside else ""),
        binding=bound_to(
            asked.tool,
            asked.command,
            asked.folder,
            sorted(place.environment.items()),
            place.backend.name,
            place.holder,
            look.written,
            *asked.facts,
            *leaving,
        ),
        decider="asker" if place.backend.isolates else "owner",
        is_blocked=is_blocked,
    )


def where(place: Workplace, folder: str) -> str:
    here = "on this machine" if place.backend.shares_host_files else "on the remote machine"
    machine = "in the sandbox" if place.backend.isolates else here
    return f"{machine}, in {from_home(folder, place)}" if folder else machine


def from_home(path: str, place: Workplace) -> str:
    home = place.backend.home.rstrip("/")
    is_below = home and (path == home or path.startswith(f"{home}/"))
    return f"~{path[len(home) :]}" if is_below else path


def exists(path: str, home: str) -> bool:
    """Return whether a path, as the guard writes it, is there."""
    return os.path.lexists(home + path[1:] if path.startswith("~") else path)


def _judge(asked: Asked, rules: TerminalRules, place: Workplace, written: Mapping[str, str] | None = None) -> Judgement:
    home = place.backend.home
    shares_files = place.backend.shares_host_files  # files of another machine cannot be looked up
    guarded, is_open = own_folders(place)
    return judge(
        asked.command,
        cwd=asked.folder,
        home=home,
        policy=rules.policy,
        is_there=lambda path: not shares_files or exists(path, home),
        written=written,
        guarded=guarded,
        open_folders=is_open,
    )


def own_folders(place: Workplace, *, for_reading: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the folders of Hermes itself, wherever they are, and what in them may be used without a question."""
    if not place.backend.shares_host_files:
        return (), ()
    home = Home.locate()
    roots = {str(home.root), real_path(str(home.root))}
    shared = [home.image_cache, home.audio_cache, home.document_cache]
    if for_reading:
        # Of the memories only the owner's, since nobody else works with the files of this machine.
        shared += [home.root / name for name in ("AGENTS.md", "BOOT.md", "SOUL.md", "skills", "memories/owner")]
    names = [*map(str, shared), place.workspace, place.kept_outputs]
    inside = {path for name in names if name for path in (name, real_path(name))} - roots
    return tuple(sorted(roots)), tuple(sorted(inside))


def real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # below /proc/…/root of another user, which the tool cannot read either
        return path


def _grantable_rules(judgement: Judgement, doubt: Doubt, outside_in: str) -> tuple[str, ...]:
    """Return all rules that a lasting yes must grant, or none: half of them would not let the command run."""
    rules = list(judgement.rules)
    if outside_in:
        rules = [*(Rule("run-outside", f"{argv[0]} {outside_in}") for argv in judgement.argv), *rules]
        if not judgement.argv:
            return ()
    if not all(rule.is_grantable for rule in rules):
        return ()
    return (*dict.fromkeys(map(str, rules)), *doubt.rules)


def _check_length(action: str, *, is_blocked: bool, context: ToolContext) -> None:
    if len(action) <= MAX_SHOWN_CHARS or is_blocked or isinstance(context.gate, NobodyNeedsToBeAsked):
        return
    raise NotApproved(
        f"This was not done: a human must approve it, and {len(action):,} characters are too long to show (at most "
        f"{MAX_SHOWN_CHARS:,}). {NOT_ANOTHER_WAY} Take smaller steps, or write a script with file_write and run that, "
        "so that each step can be read."
    )
