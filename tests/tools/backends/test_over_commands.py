"""Files over nothing but commands, as a backend behind ssh or docker has to do it: the protocol allows for that."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from tools.backends.base import (
    Backend,
    Command,
    FileContent,
    FileFacts,
    FileLine,
    FileRefused,
    Files,
    FolderEntry,
    Found,
    LinesRead,
    Match,
    Search,
    Workplace,
    WrittenFile,
)
from tools.backends.local import LocalBackend
from tools.base import ToolContext, ToolFailed
from tools.loading import load_builtin


@dataclass(frozen=True)
class OverCommands:
    backend: LocalBackend

    async def _said(self, text: str, path: str, *, stdin: bytes = b"") -> str:
        command = Command(
            text=f"exec 2>/dev/null; {text}", stdin=stdin, max_output_chars=10_000_000, keeps_output=False
        )
        finished = await self.backend.run(command)
        if finished.exit_code:
            raise FileRefused(f"{path}: there is no such file.", reason="there is no such file")
        return finished.output

    async def look(self, path: str) -> FileFacts | None:
        try:
            size, version = (await self._said(f"stat -c '%s %i:%s:%y' {quote(path)}", path)).split(" ", 1)
        except FileRefused:
            return None
        return FileFacts(kind="file", size_bytes=int(size), version=version)

    async def read(self, path: str, *, max_bytes: int) -> FileContent:
        facts = await self.look(path)
        content = base64.b64decode(await self._said(f"head -c {max_bytes} {quote(path)} | base64", path))
        assert facts is not None
        return FileContent(content=content, facts=facts)

    async def read_lines(self, path: str, *, first: int, count: int) -> LinesRead:
        total = int(await self._said(f"wc -l < {quote(path)}", path))
        text = await self._said(f"sed -n {first},{first + count - 1}p {quote(path)}", path)
        return LinesRead(
            lines=tuple(FileLine(text=line) for line in text.splitlines()), total_lines=total, counted_all=True
        )

    async def write(self, path: str, content: bytes, *, expected_version: str = "") -> WrittenFile:
        before = await self.look(path)
        if expected_version and (before is None or before.version != expected_version):
            raise FileRefused(f"{path}: it has changed since it was read.")
        there = quote(path)
        await self._said(
            f'mkdir -p "$(dirname {there})" && cat > {there}.tmp && mv {there}.tmp {there}', path, stdin=content
        )
        return WrittenFile(path=path, created=before is None)

    async def list_folder(self, path: str, *, max_entries: int) -> Sequence[FolderEntry]:
        names = (await self._said(f"ls -A {quote(path)} | head -n {max_entries}", path)).splitlines()
        return [FolderEntry(name=name, kind="file") for name in names]

    async def search(self, search: Search) -> Found:
        lines = (
            await self._said(f"grep -rn -e {quote(search.pattern)} {quote(search.path)}", search.path)
        ).splitlines()
        found = [line.split(":", 2) for line in lines]
        return Found(
            matches=tuple(Match(path=path, line_number=int(number), text=text) for path, number, text in found)
        )


class FarAway(LocalBackend):
    """A backend whose files can be reached by its commands alone."""

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace=workspace)
        self.files: Files = OverCommands(LocalBackend(workspace=workspace))  # type: ignore[assignment]


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return FarAway(tmp_path)


async def test_the_file_tools_need_no_more_than_a_command_channel(backend: Backend, tmp_path: Path) -> None:
    place = Workplace(backend=backend, workspace=str(tmp_path), current_folder=str(tmp_path))
    tools = {tool.name: tool for tool in load_builtin()}

    async def ask(name: str, **arguments: str) -> Any:
        return await tools[name].run(json.dumps(arguments), ToolContext(task_id="one", workplace=place))

    awkward = "one\n'two' $HOME `x`\nthree é\n"
    assert (await ask("file_write", path="a b/notes.txt", content=awkward))["created"]
    assert (tmp_path / "a b" / "notes.txt").read_text() == awkward
    assert (await ask("file_patch", path="a b/notes.txt", old_string="three", new_string="3"))["replacements"] == 1
    assert (await ask("file_read", path="a b/notes.txt"))["content"].splitlines()[2] == "     3|3 é"
    assert (await ask("file_search", pattern="two"))["matches"][0]["line"] == 2
    with pytest.raises(FileRefused, match=r"no such file\. Did you mean `notes.txt`"):
        await ask("file_read", path="a b/note.txt")


async def test_a_backend_that_keeps_no_processes_says_so(backend: Backend, tmp_path: Path) -> None:
    backend.keeps_processes = False  # type: ignore[misc]
    place = Workplace(backend=backend, workspace=str(tmp_path), current_folder=str(tmp_path))
    [terminal] = [tool for tool in load_builtin() if tool.name == "terminal"]
    with pytest.raises(ToolFailed, match="cannot run in the background here"):
        await terminal.run('{"command": "ls", "background": true}', ToolContext(task_id="one", workplace=place))
