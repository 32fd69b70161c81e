"""Find the files that a command may run and that were changed during its conversation, and read them.

The start of a conversation is kept in memory: after a restart, files that commands made before it no longer count as
new. Files of file_write and file_patch do, since the conversation records them.
"""

import asyncio
import os
import posixpath
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from tools.approval.taint import runs_project
from tools.backends.base import FileRefused, Workplace

MAX_BYTES = 200_000
UNREAD = "\0"  # the text of a file that is too large or one too many: like a program, it cannot be read
_MAX_FILES = 50
_MAX_VISITED = 5_000
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target"})
_MAX_WORDS = 60
# Files that no program of a project runs.
_DATA = (".log", ".txt", ".md", ".csv", ".html", ".css", ".png", ".jpg", ".svg", ".pdf", ".lock", ".pyc", ".o", ".xml")
_MAX_TASKS = 1_000
_began: OrderedDict[str, float] = OrderedDict()  # when each conversation first used a tool that asks


def note_beginning(task_id: str) -> float:
    """Return when the conversation first used a tool that asks; record it on the first call."""
    began = _began.setdefault(task_id, time.time() - 1)  # clocks of file systems are coarse
    while len(_began) > _MAX_TASKS:
        _began.popitem(last=False)
    return began


async def changed_files(
    argvs: Sequence[Sequence[str]], folder: str, written: Sequence[str], place: Workplace, task_id: str
) -> dict[str, str]:
    """Return the texts by absolute path, without missing files; the text of an unreadable one is `UNREAD`."""
    since = note_beginning(task_id)
    paths = dict.fromkeys(_locate(reversed(written), (folder, place.current_folder, place.workspace), place))
    if place.backend.shares_host_files:
        paths |= dict.fromkeys(await asyncio.to_thread(_find_newer, argvs, folder, place, since))
    found: dict[str, str] = {}
    for path in paths:
        try:
            if (facts := await place.backend.files.look(path)) is None or facts.kind != "file":
                continue
            is_readable = len(found) < _MAX_FILES and facts.size_bytes <= MAX_BYTES
            read = (await place.backend.files.read(path, max_bytes=MAX_BYTES)).content if is_readable else b"\0"
        except FileRefused:
            continue
        found[path] = read.decode("utf-8", "replace")
    return found


def _find_newer(argvs: Sequence[Sequence[str]], folder: str, place: Workplace, since: float) -> list[str]:
    entered = [argv[1] for argv in argvs if argv[0] == "cd" and len(argv) > 1]
    folders = [folder, *_locate(entered, (folder,), place)]
    words = list(dict.fromkeys(word for argv in argvs for word in argv))[:_MAX_WORDS]
    named = [path for path in _locate(words, folders, place) if _is_newer(path, since)]
    walked = dict.fromkeys(folders) if any(map(runs_project, argvs)) else {}
    return [*named, *(path for at in walked for path in _find_loaded(at, since))]


def _find_loaded(folder: str, since: float) -> Iterator[str]:
    """Yield the new files of a project that a program may load."""
    visited = 0
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        for name in files:
            visited += 1
            path = posixpath.join(at, name)
            if not path.endswith(_DATA) and _is_newer(path, since):
                yield path
        if visited > _MAX_VISITED:
            return


def _locate(paths: Iterable[str], folders: Sequence[str], place: Workplace) -> Iterator[str]:
    for path in paths:
        if path.startswith("~/"):
            path = place.backend.home + path[1:]
        if path and "\0" not in path:
            yield from dict.fromkeys(posixpath.normpath(posixpath.join(folder, path)) for folder in folders)


def _is_newer(path: str, since: float) -> bool:
    try:
        facts = (os.lstat(path), os.stat(path))  # a link to a program is as new as the link
    except (OSError, ValueError):
        return False
    # A changed time of change is itself a change.
    return max(time for one in facts for time in (one.st_mtime, one.st_ctime)) >= since
