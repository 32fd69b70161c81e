"""Which files a command names were written or changed in its conversation, and what is in them.

Kept in memory: after a restart of ours, files that commands made before it are not known to be new any more; those that
file_write and file_patch made are, since the conversation tells of them.
"""

import asyncio
import os
import posixpath
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from tools.backends.base import FileRefused, Workplace
from tools.command_guard import judge

MAX_BYTES = 200_000
_MAX_FILES = 50
_MAX_WORDS = 60
_MAX_TASKS = 1_000
_began: OrderedDict[str, float] = OrderedDict()  # when each conversation first used a tool that asks


def note_beginning(task_id: str) -> float:
    """When the conversation began, as far as we have seen it."""
    began = _began.setdefault(task_id, time.time() - 1)  # clocks of file systems are coarse
    while len(_began) > _MAX_TASKS:
        _began.popitem(last=False)
    return began


async def changed_files(
    command: str, folder: str, written: Sequence[str], place: Workplace, task_id: str
) -> dict[str, str]:
    """By absolute path. What cannot be read is left out: then the command cannot run it either."""
    since = note_beginning(task_id)
    paths = dict.fromkeys(_located(reversed(written), (folder, place.current_folder, place.workspace), place))
    if place.backend.name == "local":
        paths |= dict.fromkeys(await asyncio.to_thread(_newer, command, folder, place, since))
    found: dict[str, str] = {}
    for path in list(paths)[:_MAX_FILES]:
        try:
            read = await place.backend.files.read(path, max_bytes=MAX_BYTES)
        except FileRefused:
            continue
        found[path] = read.content.decode("utf-8", "replace")
    return found


def _newer(command: str, folder: str, place: Workplace, since: float) -> list[str]:
    argvs = judge(command, cwd=folder, home=place.backend.home).argv
    entered = [argv[1] for argv in argvs if argv[0] == "cd" and len(argv) > 1]
    folders = [folder, *_located(entered, (folder,), place)]
    words = list(dict.fromkeys(word for argv in argvs for word in argv if not word.startswith("-")))[:_MAX_WORDS]
    return [path for path in _located(words, folders, place) if _is_newer(path, since)]


def _located(paths: Iterable[str], folders: Sequence[str], place: Workplace) -> Iterator[str]:
    for path in paths:
        if path == "~" or path.startswith("~/"):
            path = place.backend.home + path[1:]
        if path and "\0" not in path:
            yield from dict.fromkeys(posixpath.normpath(posixpath.join(folder, path)) for folder in folders)


def _is_newer(path: str, since: float) -> bool:
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return False
    return max(facts.st_mtime, facts.st_ctime) >= since  # a changed time of change is itself a change
