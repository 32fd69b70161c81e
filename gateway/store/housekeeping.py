"""Periodic work: end conversations whose time has come, delete old rows and files."""

import asyncio
import sqlite3
from dataclasses import dataclass
from functools import partial

import structlog

from gateway.errors import StoreUnavailable
from gateway.policies.resets import Resets
from gateway.store import sessions
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.retention import batches, delete_old_rows, delete_unused_files
from hermes_config.settings import RetentionSettings

log = structlog.get_logger()

_SWEEP_SECONDS = 300.0
_SWEEPS_BETWEEN_CLEANINGS = 12 * 6  # every six hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    db: Database
    resets: Resets
    retention: RetentionSettings
    files: MediaFiles

    async def run(self) -> None:
        """Sweep periodically until cancelled. Failed work is retried with the next sweep."""
        sweeps = 0
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            try:
                await self.end_sessions()
                if sweeps % _SWEEPS_BETWEEN_CLEANINGS == 0:
                    await self.delete_old()
                sweeps += 1
            except (StoreUnavailable, sqlite3.Error, OSError) as error:
                log.error("housekeeping failed", problem=str(error))

    async def end_sessions(self) -> int:
        due = await self.db.read(partial(sessions.list_due, resets=self.resets))
        ended = 0
        for batch in batches(due):
            ended += await self.db.write(partial(sessions.end_due, ids=batch, resets=self.resets))
        if ended:
            log.info("conversations ended by themselves", count=ended)
        return ended

    async def delete_old(self) -> None:
        gone = await delete_old_rows(self.db, self.retention)
        files = await delete_unused_files(self.db, self.files, media_days=self.retention.media_days)
        if gone or files:
            log.info("old rows deleted", files=files, **gone)
