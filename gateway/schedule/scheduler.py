"""Waits until the next job is due and begins its run. Between due times nothing happens."""

import asyncio
import contextlib
import sqlite3
from dataclasses import dataclass, field

import structlog

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.errors import StoreUnavailable
from gateway.schedule.runs import RunStarter
from gateway.store import cron
from gateway.store.db.database import Database

log = structlog.get_logger()

_TRY_AGAIN_SECONDS = 5.0  # when the store could not be read


@dataclass(slots=True, kw_only=True)
class Scheduler:
    db: Database
    starter: RunStarter
    changes: Changes = field(default_factory=Changes)
    looks: int = 0  # how often it looked at the store
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Look again: a job was made or changed, or the clock was set."""
        self._changed.set()

    async def run(self) -> None:
        """Begin runs when they are due, until cancelled."""
        while True:
            self._changed.clear()
            try:
                due_ms = await self.look()
                wait_seconds = None if due_ms is None else max(0.0, (due_ms - now_ms()) / 1000)
            except (StoreUnavailable, sqlite3.Error) as error:
                log.warning("jobs not looked at", problem=str(error))
                wait_seconds = _TRY_AGAIN_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._changed.wait()

    async def look(self) -> int | None:
        """Begin the runs that are due; return when the next one will be."""
        self.looks += 1
        while (due_ms := await self.db.read(cron.next_due_ms)) is not None and due_ms <= now_ms():
            begun = await self.db.write(self.starter.run_due)
            log.info("jobs due", count=begun)
            self.changes.notify("inbox", "outbox")
        return due_ms
