"""A real database in a temporary folder, and a clock that stands still until it is told to move."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.store.db.connection import Transaction, connect
from gateway.store.db.prepare import BackupPolicy


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
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The codes that were hashed, by a quick hash: the slow one has a test of its own."""
    seen: list[str] = []

    def hash_quickly(code: str, salt: bytes) -> bytes:
        seen.append(code)
        return hashlib.sha256(salt + code.encode()).digest()

    monkeypatch.setattr("gateway.policies.pairing.fingerprint", hash_quickly)
    return seen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def care(tmp_path: Path) -> BackupPolicy:
    return BackupPolicy(backups=tmp_path / "backups", busy_timeout_seconds=0.1)


@pytest.fixture
def made(tmp_path: Path, new_store: Path) -> None:
    """Put a new store there, as the first start would make it."""
    shutil.copytree(new_store, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def tx(path: Path, new_store: Path) -> Iterator[Transaction]:
    """One open transaction, for what a unit of work does; the database thread has tests of its own."""
    shutil.copy(new_store / path.name, path)
    connection = connect(path, busy_timeout_seconds=1)
    connection.execute("BEGIN")
    yield Transaction(connection)
    connection.execute("ROLLBACK")
    connection.close()
