"""What backends whose commands run on this machine have in common: their keepers look after what was started."""

import asyncio
from pathlib import Path

from tools.backends import supervised
from tools.backends.base import OutputChunk, ProcessStatus, Spawned


class KeepingBackend:
    """All of `Backend` that is the same wherever the command itself runs."""

    @property
    def outputs(self) -> Path:
        """The folder of what commands write, on our side."""
        raise NotImplementedError

    async def standing(self, spawned: Spawned) -> ProcessStatus:
        return await asyncio.to_thread(supervised.standing, spawned)

    async def output(self, spawned: Spawned, *, since: int = 0, max_bytes: int = 200_000) -> OutputChunk:
        return await asyncio.to_thread(supervised.output, spawned, since=since, max_bytes=max_bytes)

    async def send(self, spawned: Spawned, data: bytes) -> None:
        supervised.send(spawned, data)

    async def resize(self, spawned: Spawned, *, columns: int, rows: int) -> None:
        await asyncio.to_thread(supervised.resize, spawned, columns=columns, rows=rows)

    async def kill(self, spawned: Spawned) -> None:
        await supervised.kill(spawned)

    async def keep(self, text: str) -> str:
        return await asyncio.to_thread(supervised.keep, text, self.outputs)

    async def forget(self, spawned: Spawned) -> None:
        await asyncio.to_thread(supervised.forget, spawned)

    async def close(self) -> None:
        """Spawned children and what they write stay."""
