"""The files of a remote place, by calls of the helper there. Links are followed: the place itself is the limit."""

import errno
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.backends.base import (
    Command,
    FileContent,
    FileFacts,
    FileKind,
    FileLine,
    FileRefused,
    Finished,
    FolderEntry,
    Found,
    LinesRead,
    Search,
    WrittenFile,
)
from tools.backends.files import MAX_LOOKED_AT_BYTES, refused
from tools.backends.remote.calls import SHORT_CALL_SECONDS, CallRefused, HelperAnswer, PlaceFailed
from tools.backends.search import BadSearch, Searcher, search_command
from tools.content import in_bytes
from tools.opening import REASONS

HOME = "/~"  # the home of the user that commands run as, which only the place knows
_KINDS: dict[str, FileKind] = {"f": "file", "d": "folder", "l": "link", "o": "other"}
_TRANSFER_BYTES_PER_SECOND = 100_000
_OWN_WORDS = {
    "changed": "it has changed since it was read; read it again",
    "large": "it is too large",
    "protected": "it is write-protected; change its permissions with a command first",
}


class RemoteFiles:
    def __init__(
        self, ask: Callable[..., Awaitable[HelperAnswer]], run: Callable[[Command], Awaitable[Finished]]
    ) -> None:
        self._ask_helper = ask
        self._run = run

    async def look(self, path: str) -> FileFacts | None:
        answer = await self._ask("look", path)
        return _read_facts(answer) if answer.facts else None

    async def read(self, path: str, *, max_bytes: int) -> FileContent:
        seconds = SHORT_CALL_SECONDS + max_bytes / _TRANSFER_BYTES_PER_SECOND
        answer = await self._ask("content", path, {"most": max_bytes}, seconds=seconds)
        return FileContent(content=answer.sections["content"], facts=_read_facts(answer))

    async def read_lines(self, path: str, *, first: int, count: int) -> LinesRead:
        answer = await self._ask("lines", path, {"first": first, "count": count})
        *lines, last = answer.sections["lines"].decode("utf-8", "replace").split("\n")[:-1]
        read = (line.partition(":") for line in lines)
        return LinesRead(
            lines=tuple(FileLine(text=text.rstrip("\r"), left_out_bytes=int(cut)) for cut, _, text in read),
            total_lines=int(last.removeprefix("total:")),
            counted_all=_read_facts(answer).size_bytes <= MAX_LOOKED_AT_BYTES,
        )

    async def write(self, path: str, content: bytes, *, expected_version: str = "") -> WrittenFile:
        seconds = SHORT_CALL_SECONDS + len(content) / _TRANSFER_BYTES_PER_SECOND
        answer = await self._ask("write", path, {"expected": expected_version}, data=content, seconds=seconds)
        written = answer.sections["path"].decode("utf-8", "replace")
        return WrittenFile(path=written, created=answer.facts["created"] == ["1"])

    async def list_folder(self, path: str, *, max_entries: int) -> Sequence[FolderEntry]:
        answer = await self._ask("list", path, {"most": max_entries})
        entries = answer.sections["entries"].decode("utf-8", "surrogateescape").split("\0")[:-1]
        found = (FolderEntry(name=entry[1:], kind=_KINDS[entry[0]]) for entry in entries)
        return sorted(found, key=lambda entry: entry.name)

    async def search(self, search: Search) -> Found:
        if await self.look(search.path) is None:
            raise refused(search.path, REASONS[errno.ENOENT])
        told = await self._run(search_command(text='printf "%s\\0" "$HOME"; command -v rg'))
        home, _, ripgrep = told.output.partition("\0")
        is_at_home = search.path == HOME or search.path.startswith(f"{HOME}/")
        path = home + search.path.removeprefix(HOME) if is_at_home else search.path
        searcher = Searcher(ripgrep="rg" if ripgrep.strip() else "", run=self._run)
        try:
            return await searcher.search(search, Path(path))
        except BadSearch as error:
            raise FileRefused(str(error)) from error

    async def _ask(self, op: str, path: str, values: Mapping[str, Any] = {}, **options: Any) -> HelperAnswer:
        if "\0" in path or not path.startswith("/"):
            raise refused(path, "that is not a valid path of a file")
        try:
            return await self._ask_helper(op, {"path": path, **values}, **options)
        except PlaceFailed as error:
            raise FileRefused(str(error), reason=str(error).rstrip(".")) from error
        except CallRefused as error:
            raise refused(path, _describe_reason(str(error))) from error


def _describe_reason(word: str) -> str:
    name, _, size = word.partition(" ")
    if name == "binary":
        return f"it is a binary file of {in_bytes(int(size or 0))}; inspect it with a command"
    return _OWN_WORDS.get(name) or REASONS.get(getattr(errno, name, 0), name)


def _read_facts(answer: HelperAnswer) -> FileFacts:
    mode, size, *version = answer.facts["facts"]
    kind = stat.S_IFMT(int(mode, 16))
    named: FileKind = "file" if kind == stat.S_IFREG else "folder" if kind == stat.S_IFDIR else "other"
    return FileFacts(kind=named, size_bytes=int(size), version=" ".join(version))
