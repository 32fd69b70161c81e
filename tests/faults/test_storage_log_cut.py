"""The log beside the database, cut or gone after a kill: SQLite says nothing about it, we do."""

import shutil
from pathlib import Path

import pytest

from gateway.store.db.backup import make_backup
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.store.others import other
from tests.gateway.store.rows import notes_in

COMMITS = 30
WRITES_AND_WAITS = """
import asyncio, sys
from pathlib import Path
from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare

async def main():
    path = Path(sys.argv[1])
    prepare(path, BackupPolicy(backups=path.parent / "backups"), repair=True)
    db = await open_database(path)
    for number in range(int(sys.argv[2])):
        text = f"{number} " + "x" * 3000
        await db.write(lambda tx: tx.execute("INSERT INTO notices (at_ms, text) VALUES (0, ?)", text))
    print("ready", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a writer that was killed before anything moved from the log into the database."""
    home = tmp_path_factory.mktemp("killed")
    with other(WRITES_AND_WAITS, str(home / "state.db"), str(COMMITS)) as writer:
        writer.wait_for("ready")
        writer.kill()
    assert (home / "state.db-wal").stat().st_size > COMMITS * 3000
    return home


@pytest.fixture
def home(killed: Path, tmp_path: Path) -> Path:
    home = tmp_path / "home"
    shutil.copytree(killed, home)
    return home


def ours(path: Path) -> list[str]:
    return [note for note in notes_in(path) if note.endswith("x")]


def test_a_kill_alone_loses_nothing_and_nothing_is_said(home: Path) -> None:
    path = home / "state.db"
    assert prepare(path, BackupPolicy(backups=home / "backups"), repair=True) == []
    assert len(ours(path)) == COMMITS


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_cut_log_is_told_with_the_number_of_lost_commits(home: Path, share: float) -> None:
    path, log = home / "state.db", home / "state.db-wal"
    with log.open("r+b") as file:
        file.truncate(int(log.stat().st_size * share))
    [notice] = prepare(path, BackupPolicy(backups=home / "backups"), repair=True)
    left = len(ours(path)) if share else 0
    assert left < COMMITS
    if share:
        assert f"lost its last {COMMITS - left} commits" in notice
    assert "may be missing" in notice
    assert notes_in(path)[-1] == notice
    assert prepare(path, BackupPolicy(backups=home / "backups"), repair=True) == []  # told once


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_flipped_byte_in_the_log_is_told(home: Path, share: float) -> None:
    """Each piece of the log has a checksum: SQLite takes what stands before the broken one and no more."""
    path, log = home / "state.db", home / "state.db-wal"
    content = bytearray(log.read_bytes())
    content[int(len(content) * share)] ^= 0x10
    log.write_bytes(content)
    [notice] = prepare(path, BackupPolicy(backups=home / "backups"), repair=True)
    assert f"lost its last {COMMITS - len(ours(path))} commits" in notice


def test_a_log_that_is_gone_is_told(home: Path) -> None:
    path = home / "state.db"
    (home / "state.db-wal").unlink()
    (home / "state.db-shm").unlink(missing_ok=True)
    [notice] = prepare(path, BackupPolicy(backups=home / "backups"), repair=True)
    assert "may be missing" in notice


def test_a_database_that_is_gone_is_restored_from_its_backup(home: Path) -> None:
    path, care = home / "state.db", BackupPolicy(backups=home / "backups")
    make_backup(path, care.backups, keep=1)
    path.unlink()
    [notice] = prepare(path, care, repair=True)
    assert "state.db is gone" in notice
    assert len(ours(path)) == COMMITS
    assert not (home / "state.db-wal").exists() or not (home / "state.db-wal").stat().st_size


def test_a_database_that_is_gone_without_a_backup_is_told(home: Path) -> None:
    path = home / "state.db"
    path.unlink()
    [notice] = prepare(path, BackupPolicy(backups=home / "backups"), repair=True)
    assert "state.db is gone" in notice
    assert "starts empty" in notice
    assert notes_in(path) == [notice]
