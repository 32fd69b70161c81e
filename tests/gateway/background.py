"""Real processes in the background, started by somebody in a chat, and a look at what is told of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.clock import now_ms
from gateway.messages import Sender, SessionKey
from gateway.processes.watcher import Watchers
from gateway.store import turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.processes import StoredProcesses
from tests.gateway.scene import rows
from tests.gateway.store.exchange import begin
from tests.gateway.store.rows import ANN, KEY
from tools.backends import background
from tools.backends.background import BackgroundProcesses
from tools.backends.base import Command, ProcessBackends
from tools.backends.local import LocalBackend
from tools.process_book import Process

_LOOK_AGAIN_SECONDS = 0.01
HOLDER = "telegram:dm:42/ann"


@dataclass
class Background:
    """What is started here is started in a turn of `key`, by `sender`."""

    db: Database
    backend: LocalBackend
    folder: Path
    key: SessionKey = KEY
    sender: Sender = ANN
    started: list[Process] = field(default_factory=list)

    async def start(self, command: str, **options: Any) -> Process:
        """In a turn that is over when this returns."""
        turn = await self.db.write(lambda tx: begin(tx, command, key=self.key, sender=self.sender))
        process = await self.spawn(command, task_id=turn.session_id, **options)
        await self.db.write(lambda tx: turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED))
        return process

    async def spawn(self, command: str, *, task_id: str, holder: str = HOLDER, **options: Any) -> Process:
        process = Process(
            handle=await self.backend.spawn(Command(text=command)),
            holder=holder,
            task_id=task_id,
            command=command,
            workdir=str(self.folder),
            started_ms=now_ms(),
            **options,
        )
        self.started.append(process)
        await StoredProcesses(self.db).add(process)
        return process

    async def ended(self, *started: Process) -> None:
        async with asyncio.timeout(10):
            while any(background.is_running(process.handle) for process in started or self.started):
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def wrote(self, process: Process, size_bytes: int) -> None:
        async with asyncio.timeout(10):
            while background.status(process.handle).output_bytes < size_bytes:
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def due(self) -> None:
        """As if everything had been told long ago."""
        await self.db.write(lambda tx: tx.execute("UPDATE processes SET told_ms = 0"))

    def goes_on(self, name: str) -> None:
        """For a command that waits for this file."""
        (self.folder / name).touch()

    async def said(self) -> list[str]:
        """What the chats were told, the oldest first."""
        found = await rows(self.db, "SELECT json_extract(parts, '$[0].text') FROM outbox ORDER BY id")
        return [text for (text,) in found]

    async def noted(self) -> list[tuple[str, str]]:
        """What the agent was told: how, and what."""
        sql = """SELECT kind, (SELECT group_concat(json_extract(value, '$.text'), char(10)) FROM json_each(parts))
                   FROM inbox WHERE kind IN ('process', 'wake') ORDER BY id"""
        return [(kind, text) for kind, text in await rows(self.db, sql)]


def until(name: str) -> str:
    """A shell that waits for the file, for a command to go on when a test says so."""
    return f"while [ ! -e {name} ]; do sleep 0.01; done"


@asynccontextmanager
async def in_background(db: Database, folder: Path) -> AsyncIterator[Background]:
    folder.mkdir()
    stage = Background(db, LocalBackend(workspace=folder, outputs=folder / "outputs"), folder)
    try:
        yield stage
    finally:
        await asyncio.gather(*(BackgroundProcesses().kill(process.handle) for process in stage.started))


def make_watchers(db: Database, **options: Any) -> Watchers:
    """Patient with nobody: what has ended is told with the next look, what was written when it is due."""
    chosen: dict[str, Any] = {"role_of": lambda tx, message: "member"}
    chosen |= {"shortest_interval_seconds": 30.0, "gather_seconds": 0.0, "backends": backends_polled_every(0.02)}
    return Watchers(db=db, **(chosen | options))


def backends_polled_every(seconds: float) -> ProcessBackends:
    local = BackgroundProcesses()
    local.poll_seconds = seconds
    return {"local": local}


def state_of(tx: Transaction, process: Process) -> str:
    row = tx.one("SELECT state FROM processes WHERE id = ?", process.id)
    return str(row["state"]) if row is not None else ""
