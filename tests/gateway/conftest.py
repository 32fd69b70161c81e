"""A database of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.database import Database, open_database
from gateway.store.prepare import Care, prepare


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """Gives up on a locked file soon, so that tests can make it unavailable."""
    path = tmp_path / "state.db"
    prepare(path, Care(backups=tmp_path / "backups"), repair=False)
    opened = await open_database(path, busy_timeout_seconds=0.05)
    yield opened
    await opened.close()
