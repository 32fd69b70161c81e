"""A file that may not be written: said in words, changed by nobody, and used again once it may be."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.store.rows import notes, put_note
from tests.privileges import bound_by_file_modes, give_up_override


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    prepare(path, BackupPolicy(backups=tmp_path / "backups"), repair=True)
    return path


@pytest.fixture
def care(tmp_path: Path) -> BackupPolicy:
    return BackupPolicy(backups=tmp_path / "backups", busy_timeout_seconds=0.1)


def test_a_read_only_file_is_explained_and_left_alone(path: Path, care: BackupPolicy) -> None:
    before = path.read_bytes()
    path.chmod(0o400)
    with bound_by_file_modes():
        with pytest.raises(StoreUnavailable, match="read-only"):
            prepare(path, care, repair=True)
        assert prepare(path, care, repair=False) == []  # a command that only looks may look
    assert path.read_bytes() == before
    assert not care.backups.exists()  # it was not taken for damaged
    path.chmod(0o600)
    with bound_by_file_modes():
        assert prepare(path, care, repair=True) == []


@pytest.mark.parametrize("closed", ["the file", "the folder"])
def test_what_may_not_be_read_is_not_taken_for_damaged_or_gone(path: Path, care: BackupPolicy, closed: str) -> None:
    which, mode = (path, 0o600) if closed == "the file" else (path.parent, 0o700)
    before = path.read_bytes()
    which.chmod(0)
    try:
        for repair in (True, False):
            with bound_by_file_modes(), pytest.raises(StoreUnavailable):
                prepare(path, care, repair=repair)
    finally:
        which.chmod(mode)
    assert path.read_bytes() == before
    assert not care.backups.exists()
    assert prepare(path, care, repair=True) == []


async def test_a_connection_that_was_read_only_is_made_anew(path: Path) -> None:
    """SQLite opens a file it may not write for reading, and that connection stays so for good."""
    with bound_by_file_modes():
        path.chmod(0o400)
        db = await open_database(path, busy_timeout_seconds=0.1)
        with pytest.raises(StoreUnavailable, match="read-only"):
            await db.write(lambda tx: put_note(tx, "refused"))
        assert "read-only" in db.problem
        assert await db.read(notes) == []
        path.chmod(0o600)
        async with asyncio.timeout(10):
            await db.write_when_possible(lambda tx: put_note(tx, "taken"))
        assert db.problem == ""
        assert await db.read(notes) == ["taken"]
        await db.close()


def test_a_program_started_without_the_right_to_overlook_modes_is_bound_by_them(path: Path) -> None:
    """Of the tests themselves: otherwise those above would pass for root whatever the store did."""
    path.chmod(0)
    reading = [sys.executable, "-c", "import sys; open(sys.argv[1])", str(path)]
    bound = subprocess.run(reading, preexec_fn=give_up_override, capture_output=True, text=True, check=False)
    assert "PermissionError" in bound.stderr
    with bound_by_file_modes(), pytest.raises(PermissionError):
        path.read_bytes()
