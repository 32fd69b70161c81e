"""Search files without ripgrep, as a program: the query is JSON on stdin, the answer JSON on stdout.

It goes from folder to folder by open descriptors and follows no link, so that nobody can redirect it by changing the
folders meanwhile.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.backends.globs import IgnoreRule, name_matches, parse_ignore_file, verdict
from tools.backends.search import MAX_MATCHES_PER_FILE, MAX_SEARCHED_FILE_BYTES, MAX_SHOWN_LINE_CHARS
from tools.opening import FILE, LISTED_FOLDER, folder_held

IGNORE_FILES = (".gitignore", ".ignore")  # the later one takes precedence
_MAX_DEPTH = 64
_MAX_IGNORE_FILE_BYTES = 200_000
_LOOK_BYTES = 8_192

Ignores = tuple[tuple[tuple[str, ...], dict[str, tuple[IgnoreRule, ...]]], ...]
"""From the nearest folder to the farthest: its path, and the rules of each kind of file in it."""


Closed = frozenset[tuple[str, ...]]
"""Files and folders that are never opened, by the parts of their paths."""


@dataclass(slots=True, kw_only=True)
class Answer:
    limit: int
    matches: list[dict[str, Any]] = field(default_factory=list)
    more: int = 0
    counted_all: bool = True

    def add(self, path: str, number: int = 0, text: str = "") -> None:
        if len(self.matches) < self.limit:
            self.matches.append({"path": path, "line_number": number, "text": text[:MAX_SHOWN_LINE_CHARS]})
        else:
            self.more += 1


def main() -> None:
    query = json.load(sys.stdin)
    try:
        answer = _search(query)
    except re.error as error:
        told = f"The pattern is not a valid regular expression: {error}. Escape characters that are meant literally."
        print(json.dumps({"problem": told}))  # noqa: T201  # our answer
        return
    found = {"matches": answer.matches, "more": answer.more, "counted_all": answer.counted_all}
    print(json.dumps(found))  # noqa: T201


def _search(query: dict[str, Any]) -> Answer:
    answer = Answer(limit=query["limit"])
    where, spelled = Path(query["where"]), query["spelled"]
    expression = re.compile(query["pattern"]) if query["target"] == "content" else None
    closed = frozenset(Path(path).parts[1:] for path in query["closed"])
    for inside, descriptor in _files(where, Path(query["inside"]), closed):
        try:
            path = f"{spelled.rstrip('/')}/{inside}" if inside else spelled
            if expression is not None:
                _search_file(descriptor, expression, path, answer)
            elif name_matches(query["pattern"], inside or where.name):
                answer.add(path)
        finally:
            os.close(descriptor)
    return answer


def _search_file(descriptor: int, expression: re.Pattern[str], path: str, answer: Answer) -> None:
    if os.fstat(descriptor).st_size > MAX_SEARCHED_FILE_BYTES:
        return
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(MAX_SEARCHED_FILE_BYTES)
    if b"\0" in content[:_LOOK_BYTES]:
        return
    count = 0
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), start=1):
        if expression.search(line):
            answer.add(path, number, line.rstrip("\r"))
            count += 1
        if count >= MAX_MATCHES_PER_FILE:
            answer.counted_all = False
            return


def _files(where: Path, inside: Path, closed: Closed) -> Iterator[tuple[str, int]]:
    """Yield each file below with its relative path, opened; the caller closes it."""
    with folder_held(where.parent) as parent:
        if not stat.S_ISDIR(os.stat(where.name or ".", dir_fd=parent, follow_symlinks=False).st_mode):
            yield "", os.open(where.name, FILE, dir_fd=parent)
            return
        descriptor = os.open(where.name or ".", LISTED_FOLDER, dir_fd=parent)
    yield from _below(descriptor, (), where.parts[1:], _read_parent_rules(where, inside), closed)


def _below(
    folder: int, path: tuple[str, ...], above: tuple[str, ...], ignores: Ignores, closed: Closed
) -> Iterator[tuple[str, int]]:
    """Yield the files below an open folder, and close it at the end."""
    try:
        here = (*above, *path)
        ignores = ((here, _rules_in(folder)), *ignores)
        with os.scandir(folder) as found:
            entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
        for name, is_folder in entries:
            if name.startswith(".") or (*here, name) in closed:
                continue
            if _is_ignored((*here, name), ignores, is_folder=is_folder):
                continue
            with suppress(OSError):  # skip what is gone, changed or not readable
                if not is_folder:
                    if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                        yield "/".join((*path, name)), os.open(name, FILE, dir_fd=folder)
                elif len(path) < _MAX_DEPTH:
                    inner = os.open(name, LISTED_FOLDER, dir_fd=folder)
                    yield from _below(inner, (*path, name), above, ignores, closed)
    finally:
        os.close(folder)


def _read_parent_rules(where: Path, inside: Path) -> Ignores:
    """Return the rules of the folders above, up to the root of the search; .gitignore only up to the repository."""
    found: list[tuple[tuple[str, ...], dict[str, tuple[IgnoreRule, ...]]]] = []
    in_repository = not (where / ".git").exists()
    for folder in where.parents:
        if not folder.is_relative_to(inside):
            break
        with suppress(OSError), folder_held(folder) as held:
            rules = _rules_in(held)
            found.append((folder.parts[1:], rules if in_repository else {".ignore": rules[".ignore"]}))
            in_repository = in_repository and not (folder / ".git").exists()
    return tuple(found)


def _rules_in(folder: int) -> dict[str, tuple[IgnoreRule, ...]]:
    return {name: _rules(name, folder) for name in IGNORE_FILES}


def _rules(name: str, folder: int) -> tuple[IgnoreRule, ...]:
    try:
        descriptor = os.open(name, FILE, dir_fd=folder)
    except OSError:
        return ()
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ()
        return parse_ignore_file(file.read(_MAX_IGNORE_FILE_BYTES).decode("utf-8", "replace"))


def _is_ignored(path: tuple[str, ...], ignores: Ignores, *, is_folder: bool) -> bool:
    for name in reversed(IGNORE_FILES):
        for folder, rules in ignores:
            said = verdict(rules.get(name, ()), path[len(folder) :], is_folder=is_folder)
            if said is not None:
                return said
    return False


if __name__ == "__main__":
    main()
