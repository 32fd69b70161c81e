"""The other end of the local socket, as a script would be."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def write(self, **line: Any) -> None:
        await self.write_raw(json.dumps(line).encode() + b"\n")

    async def write_raw(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def read(self, *, seconds: float = 60.0) -> Line | None:
        """The next line; None when the other side has closed."""
        async with asyncio.timeout(seconds):
            raw = await self._reader.readline()
        line: Line | None = json.loads(raw) if raw else None
        return line

    async def ask(self, **line: Any) -> Line | None:
        await self.write(**line)
        return await self.read()

    async def say(self, text: str, *, message_id: str, chat: str = "main") -> None:
        """Sends a message and waits until it is taken."""
        ack = await self.ask(type="message", id=message_id, chat=chat, text=text)
        assert ack == {"type": "ack", "id": message_id, "chat": chat}

    async def hear(self) -> Line:
        """The next message to us, acked."""
        message = await self.read()
        assert message is not None
        assert message["type"] == "message", message
        await self.write(type="ack", key=message["key"])
        return message

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return  # the other side was faster


@asynccontextmanager
async def connect(path: Path) -> AsyncIterator[Client]:
    async with asyncio.timeout(60):
        while True:
            try:
                client = Client(*await asyncio.open_unix_connection(path))
                break
            except ConnectionRefusedError:  # the file is there a moment before anybody listens
                await asyncio.sleep(0.01)
    try:
        yield client
    finally:
        await client.close()
