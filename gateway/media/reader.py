"""Read a file or a fetched web page in a child process with limits on time, memory and output."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import BinaryIO

import structlog

from gateway.media.kinds import Way, detect_format
from gateway.media.reading import Reading
from tools.builtin.web import PageText
from tools.url_guard import FetchedDocument

log = structlog.get_logger()

CHILDREN_AT_ONCE = 2
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_HEAD_BYTES = 2_000
_MAX_ABOUT_BYTES = 10_000
_MAX_TITLE_CHARS, _MAX_PROBLEM_CHARS = 100, 300
_TOO_SLOW = Reading(problem="reading it took too long")
_BROKEN = Reading(problem="it is damaged, or built to be unreadable")
_NOT_NOW = Reading(problem="it could not be opened just now")
# Characters that could upset a terminal or a database; line breaks and tabs stay.
_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, *range(0xD800, 0xE000)], " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentReader:
    max_text_chars: int = 60_000
    timeout_seconds: float = 20.0
    memory_mb: int = 512
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CHILDREN_AT_ONCE))

    async def read(self, path: Path, way: Way) -> Reading:
        """Return the text of a file, or the reason why there is none. Raises nothing but CancelledError."""
        async with self.places:
            try:
                file = await asyncio.to_thread(path.open, "rb")
                with file:
                    return await self._read(file, way)
            except OSError as error:
                log.warning("file could not be read", problem=str(error))
                return _NOT_NOW

    async def read_content(self, content: bytes, way: Way) -> Reading:
        """Return the text of a document that is in no file."""
        async with self.places:
            with await asyncio.to_thread(write_temporary, content) as file:
                return await self._read(file, way)

    def command(self, way: Way) -> list[str]:
        limits = (self.max_text_chars, ceil(self.timeout_seconds), self.memory_mb * 1_000_000)
        # -I: neither the environment nor the current folder decides which modules are loaded.
        return [sys.executable, "-I", "-m", "gateway.media.child", way, *map(str, limits)]

    async def _read(self, file: BinaryIO, way: Way) -> Reading:
        limit = _MAX_ABOUT_BYTES + 4 * self.max_text_chars
        try:
            answer = await run_child(self.command(way), file, timeout_seconds=self.timeout_seconds, max_bytes=limit)
        except TimeoutError:
            log.info("reading a file took too long", way=way)
            return _TOO_SLOW
        return _BROKEN if answer is None else self._parse_answer(answer)

    def _parse_answer(self, answer: bytes) -> Reading:
        """Parse the child's answer, trusting it no more than the file, which may have taken the child over."""
        about, _, text = answer.partition(b"\n")
        try:
            match json.loads(about):
                case {"title": str(title), "problem": str(problem), "partial": bool(partial)}:
                    return Reading(
                        text=text.decode("utf-8", "replace").translate(_CONTROLS)[: self.max_text_chars],
                        partial=partial,
                        title=title.translate(_CONTROLS)[:_MAX_TITLE_CHARS],
                        problem=problem.translate(_CONTROLS)[:_MAX_PROBLEM_CHARS],
                    )
        except (ValueError, RecursionError):
            log.info("the reader of a file was ended by its limits")
        return _BROKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPages:
    reader: DocumentReader

    async def read(self, page: FetchedDocument) -> PageText:
        form = detect_format(page.content)
        is_html = "html" in page.content_type or _HTML.match(page.content[:_HEAD_BYTES])
        if is_html and form.read_as == "text":
            address = page.url.replace("\n", "").encode("utf-8", "replace")
            found = await self.reader.read_content(address + b"\n" + page.content, "html")
        elif form.read_as:
            found = await self.reader.read_content(page.content, form.read_as)
        else:
            return PageText(problem=form.problem or f"it is no text but {form.title}")
        return PageText(text=found.text, problem=found.problem, partial=found.partial)


async def run_child(command: list[str], file: BinaryIO, *, timeout_seconds: float, max_bytes: int) -> bytes | None:
    """Return what a child process makes of a file; None when that is too much. Raises TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=file,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    assert process.stdout is not None
    answer = bytearray()
    try:
        async with asyncio.timeout(timeout_seconds):
            while chunk := await process.stdout.read(65_536):
                answer += chunk
                if len(answer) > max_bytes:
                    return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads its own session
        await asyncio.shield(process.wait())
    return bytes(answer)


def write_temporary(content: bytes) -> BinaryIO:
    """Return an open file without a name. Blocks."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
    file.write(content)
    file.seek(0)
    return file
