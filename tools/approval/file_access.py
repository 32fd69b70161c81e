"""Decide whether a human must approve reading or writing a file, by the same rules as for commands.

Links on this machine are followed, so that a harmless name does not lead to a secret.
"""

import asyncio
import functools
import shlex
from collections.abc import Iterable

from tools.approval.changed_files import note_beginning
from tools.approval.command import from_home, own_folders, real_path, where
from tools.approval.gate import NobodyNeedsToBeAsked, Question, bound_to
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


async def find_guarded(paths: Iterable[str], searched: str, context: ToolContext) -> set[str]:
    """Return the files below a searched folder that `file_read` would ask about, so that a search reveals none.

    None if the folder itself was asked about: whoever approved that meant its files.
    """
    place = context.workplace
    if place is None or place.backend.isolates or isinstance(context.gate, NobodyNeedsToBeAsked):
        return set()

    def judge_all() -> set[str]:
        if _judge("cat --", searched, place)[0].verdict != "safe":
            return set()
        return {path for path in set(paths) if _judge("cat --", path, place)[0].verdict != "safe"}

    return await asyncio.to_thread(judge_all)


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
    real = real_path(spelled) if place.backend.shares_host_files else spelled
    home = place.backend.home
    homes = dict.fromkeys((home, real_path(home) if place.backend.shares_host_files else home))
    guarded, is_open = own_folders(place, for_reading=command.startswith("cat"))
    found = [
        judge(
            f"{command} {shlex.quote(path)}",
            cwd=place.current_folder,
            home=known,
            is_there=lambda path: False,
            guarded=guarded,
            open_folders=is_open,
        )
        for path in dict.fromkeys((spelled, real))
        for known in homes
    ]
    return functools.reduce(Judgement.including, found), real
