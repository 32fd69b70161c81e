"""Decide whether a human must approve reading or writing a file, by the same rules as for commands.

Links on this machine are followed, so that a harmless name does not lead to a secret.
"""

import asyncio
import os
import shlex

from hermes_config.places import Home
from tools.approval.changed_files import note_beginning
from tools.approval.command import from_home, where
from tools.approval.gate import Question, bound_to
from tools.backends.base import Workplace
from tools.base import ToolContext
from tools.content import cut_middle
from tools.shell_guard.guard import Judgement, judge

_MAX_SHOWN_CHARS = 4_000


async def about_reading(given: dict[str, object], context: ToolContext) -> Question | None:
    return await _about(context, given.get("path"), "cat --", tool="file_read", verb="read")


async def about_searching(given: dict[str, object], context: ToolContext) -> Question | None:
    """Return the question about a search in contents; file names alone reveal no secret."""
    if given.get("target") == "files":
        return None
    facts = (given.get("pattern", ""),)
    return await _about(context, given.get("path", "."), "cat --", tool="file_search", verb="search in", facts=facts)


async def about_writing(given: dict[str, object], context: ToolContext) -> Question | None:
    facts = tuple(given.get(name, "") for name in ("content", "old_string", "new_string", "replace_all"))
    content, old, new = (given.get(name) for name in ("content", "old_string", "new_string"))
    text = f"{content}" if content is not None else f"replace\n{old}\nby\n{new}"
    tool = "file_write" if content is not None else "file_patch"
    return await _about(context, given.get("path"), "tee -a --", tool=tool, verb="write to", facts=facts, text=text)


async def _about(
    context: ToolContext,
    path: object,
    command: str,
    *,
    tool: str,
    verb: str,
    facts: tuple[object, ...] = (),
    text: str = "",
) -> Question | None:
    place = context.workplace
    note_beginning(context.task_id)
    if place is None or place.backend.isolates or not isinstance(path, str):
        return None
    spelled = place.locate(path)
    if "\0" in spelled:
        return None  # the tool itself says what is wrong
    judgement, real = await asyncio.to_thread(_judge, command, spelled, place)
    if judgement.verdict == "safe":
        return None
    named = from_home(spelled, place)
    leads = f" (which is {from_home(real, place)})" if real != spelled else ""
    return Question(
        tool=tool,
        action=f"{verb} {named}{leads}" + (f": {cut_middle(text, _MAX_SHOWN_CHARS)}" if text else ""),
        where=where(place, place.current_folder),
        reasons=judgement.reasons,
        rules=tuple(map(str, judgement.rules)) if all(rule.is_grantable for rule in judgement.rules) else (),
        binding=bound_to(tool, verb, spelled, real, place.backend.name, place.holder, *facts),
        is_blocked=judgement.verdict == "block",
    )


def _judge(command: str, spelled: str, place: Workplace) -> tuple[Judgement, str]:
    """Judge a path under its own name and its real one; return the judgement and the real path."""
    real = _real(spelled) if place.backend.shares_host_files else spelled
    home = place.backend.home
    homes = dict.fromkeys((home, _real(home) if place.backend.shares_host_files else home))
    found = [
        judge(f"{command} {shlex.quote(path)}", cwd=place.current_folder, home=known, is_there=lambda path: False)
        for path in dict.fromkeys((spelled, real))
        for known in homes
    ]
    if command.startswith("tee"):
        found += [_judge_own_home(path, place) for path in dict.fromkeys((spelled, real))]
    verdicts = {one.verdict for one in found}
    return Judgement(
        verdict="block" if "block" in verdicts else "ask" if "ask" in verdicts else "safe",
        reasons=tuple(dict.fromkeys(reason for one in found for reason in one.reasons)),
        rules=tuple(dict.fromkeys(rule for one in found for rule in one.rules)),
    ), real


def _judge_own_home(path: str, place: Workplace) -> Judgement:
    """Ask about writing to the home of Hermes, wherever it is, but not to a workspace inside of it."""
    home = str(Home.locate().root)
    homes = {home, _real(home)}
    open_to_all = {place.workspace, _real(place.workspace)} - homes
    if any(_is_below(path, one) for one in homes) and not any(_is_below(path, one) for one in open_to_all):
        from tools.shell_guard.granting import Rule

        reason = f"it writes to {from_home(path, place)}, which controls Hermes itself"
        return Judgement(verdict="ask", reasons=(reason,), rules=(Rule("write-start-up", path),))
    return Judgement(verdict="safe")


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # below /proc/…/root of another user, which the tool cannot read either
        return path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
