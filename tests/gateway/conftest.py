"""A database of its own for each test, and background processes over it."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.processes.watcher import Watchers
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.background import Background, in_background, make_watchers


@pytest.fixture(scope="session")
def new_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a new store, to be copied: making one takes ten times as long."""
    folder = tmp_path_factory.mktemp("new_store")
    prepare(folder / "state.db", BackupPolicy(backups=folder / "backups"), repair=False)
    return folder


@pytest.fixture
async def db(tmp_path: Path, new_store: Path) -> AsyncIterator[Database]:
    """Gives up on a locked file soon, so that tests can make it unavailable."""
    shutil.copytree(new_store, tmp_path, dirs_exist_ok=True)
    opened = await open_database(tmp_path / "state.db", busy_timeout_seconds=0.05)
    yield opened
    await opened.close()


@pytest.fixture
async def stage(db: Database, tmp_path: Path) -> AsyncIterator[Background]:
    async with in_background(db, tmp_path / "work") as stage:
        yield stage


@pytest.fixture
def watchers(db: Database) -> Watchers:
    return make_watchers(db)
