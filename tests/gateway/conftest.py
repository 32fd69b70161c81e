"""A database of its own for each test, and background processes over it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.processes.watcher import Watchers
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.background import Background, in_background, make_watchers


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """Gives up on a locked file soon, so that tests can make it unavailable."""
    path = tmp_path / "state.db"
    prepare(path, BackupPolicy(backups=tmp_path / "backups"), repair=False)
    opened = await open_database(path, busy_timeout_seconds=0.05)
    yield opened
    await opened.close()


@pytest.fixture
async def stage(db: Database, tmp_path: Path) -> AsyncIterator[Background]:
    async with in_background(db, tmp_path / "work") as stage:
        yield stage


@pytest.fixture
def watchers(db: Database) -> Watchers:
    return make_watchers(db)
