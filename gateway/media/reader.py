"""Read a file in a child process with limits on time, memory and output."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import BinaryIO

import structlog

from gateway.media.kinds import Way
from gateway.media.reading import Reading

log = structlog.get_logger()

CHILDREN_AT_ONCE = 2
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

    def command(self, way: Way) -> list[str]:
        limits = (self.max_text_chars, ceil(self.timeout_seconds), self.memory_mb * 1_000_000)
        # -I: neither the environment nor the current folder decides which modules are loaded.
        return [sys.executable, "-I", "-m", "gateway.media.child", way, *map(str, limits)]

    async def _read(self, file: BinaryIO, way: Way) -> Reading:
        process = await asyncio.create_subprocess_exec(
            *self.command(way),
            stdin=file,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self.timeout_seconds):
                answer = await _read_at_most(process, _MAX_ABOUT_BYTES + 4 * self.max_text_chars)
        except TimeoutError:
            log.info("reading a file took too long", way=way)
            return _TOO_SLOW
        finally:
            await _end(process)
        return self._parse_answer(answer)

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


async def _read_at_most(process: asyncio.subprocess.Process, max_bytes: int) -> bytes:
    assert process.stdout is not None
    answer = b""
    while chunk := await process.stdout.read(65_536):
        answer += chunk
        if len(answer) > max_bytes:
            return b""
    return answer


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it leads its own session
    await asyncio.shield(process.wait())
