"""What a change of schema would do is known before, and asking changes nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import StoreCorrupt, StoreTooNew
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.restore import undo_upgrade
from gateway.store.db.schema import migrations
from gateway.store.db.upgrade import UndoTarget, find_undo_target, preview_losses, preview_upgrade
from tests.gateway.store.filling import ROWS, make_database

OLD = 5
NEWEST = max(migrations())


def test_an_older_database_is_tried_on_a_copy(path: Path, care: BackupPolicy) -> None:
    make_database(path, OLD)
    before = path.read_bytes()
    found = preview_upgrade(path, care)
    assert (found.schema, found.newest, found.problem) == (OLD, NEWEST, "")
    assert found.room is not None
    assert found.room.is_enough
    assert found.room.needed_bytes > 2 * path.stat().st_size
    assert path.read_bytes() == before
    assert list(care.backups.iterdir()) == []


def test_one_that_would_not_survive_it_is_told(path: Path, care: BackupPolicy) -> None:
    make_database(path, OLD)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE spending (x)")
    assert "is damaged (the definition of the table spending" in preview_upgrade(path, care).problem


def test_one_that_is_up_to_date_needs_nothing(path: Path, care: BackupPolicy) -> None:
    prepare(path, care, repair=True)
    found = preview_upgrade(path, care)
    assert (found.schema, found.problem, found.room) == (NEWEST, "", None)


def test_one_that_is_too_new_is_told(path: Path, care: BackupPolicy) -> None:
    prepare(path, care, repair=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    assert f"hermes state undo --to {NEWEST}" in preview_upgrade(path, care).problem
    with pytest.raises(StoreTooNew):
        find_undo_target(path, care)


def test_the_usual_way_back_is_to_where_it_was_before_the_last_upgrade(path: Path, care: BackupPolicy) -> None:
    make_database(path, OLD)
    assert find_undo_target(path, care) == UndoTarget(found=OLD, oldest=OLD, usual=OLD - 1)
    prepare(path, care, repair=True)
    assert find_undo_target(path, care) == UndoTarget(found=NEWEST, oldest=OLD, usual=OLD)
    undo_upgrade(path, care, NEWEST - 1)
    prepare(path, care, repair=True)
    assert find_undo_target(path, care).usual == NEWEST - 1


def test_without_a_copy_from_before_it_is_one_step(path: Path, care: BackupPolicy) -> None:
    prepare(path, care, repair=True)
    assert find_undo_target(path, care) == UndoTarget(found=NEWEST, oldest=OLD, usual=NEWEST - 1)


def test_what_would_be_lost_is_counted(path: Path, care: BackupPolicy) -> None:
    make_database(path, NEWEST)
    lost = {one.table: one.count for one in preview_losses(path, care, OLD)}
    assert lost.items() >= {"spending": ROWS, "processes": ROWS}.items()
    assert "messages" not in lost


def test_an_emptied_file_is_left_for_the_gateway_to_restore(path: Path, care: BackupPolicy) -> None:
    prepare(path, care, repair=True)
    with closing(CommitCounter(path)) as mark:
        mark.write(7)
    path.write_bytes(b"")
    for look in (preview_upgrade, find_undo_target):
        with pytest.raises(StoreCorrupt, match=r"is gone\. Start the gateway"):
            look(path, care)
    assert path.read_bytes() == b""


def test_values_that_go_back_into_older_columns_are_not_lost(path: Path, care: BackupPolicy) -> None:
    make_database(path, 10)
    assert not [one for one in preview_losses(path, care, 9) if one.column == "handle"]
    undo_upgrade(path, care, 9)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM processes").fetchone()[0] == ROWS
