"""A real database in a temporary folder, and a clock that stands still until it is told to move."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.store.db.connection import Transaction, connect
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.schema import migrate


@dataclass
class Clock:
    """Stands in for the process's clock in `gateway.clock`."""

    ms: int = 1_790_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def forward(self, *, hours: float = 0, seconds: float = 0) -> None:
        self.ms += int(hours * 3_600_000 + seconds * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("gateway.clock._process_clock", clock)
    return clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def care(tmp_path: Path) -> BackupPolicy:
    return BackupPolicy(backups=tmp_path / "backups", busy_timeout_seconds=0.1)


@pytest.fixture
def tx(path: Path) -> Iterator[Transaction]:
    """One open transaction, for what a unit of work does; the database thread has tests of its own."""
    connection = connect(path, busy_timeout_seconds=1)
    migrate(connection)
    connection.execute("BEGIN")
    yield Transaction(connection)
    connection.execute("ROLLBACK")
    connection.close()


@pytest.fixture
async def db(path: Path, care: BackupPolicy) -> AsyncIterator[Database]:
    prepare(path, care, repair=True)
    db = await open_database(path, busy_timeout_seconds=0.1)
    yield db
    await db.close()
