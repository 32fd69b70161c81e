"""What tests of backends see of processes: whether one is there, by a word in its command line."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

_numbers = count(1)


def nap() -> str:
    """A command that sleeps for so odd a time that nobody else does."""
    return f"sleep 7{os.getpid()}.{next(_numbers)}"


def is_there(command: str) -> bool:
    wanted = command.encode().replace(b" ", b"\0")
    return any(wanted in line for _, line in command_lines())


def inherited(word: str) -> list[int]:
    """Who has the word in its environment: whatever a command has started, unless it has cleaned up there."""
    found = []
    for pid, _ in command_lines():
        with suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def command_lines() -> Iterator[tuple[int, bytes]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                yield int(folder.name), (folder / "cmdline").read_bytes()


async def until(condition: Callable[[], object], *, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
