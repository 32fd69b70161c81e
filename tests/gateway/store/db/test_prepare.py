"""What is done to the file before it is opened; nothing is lost without a word."""

import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from gateway.errors import StoreCorrupt, StoreUnavailable
from gateway.store.db.backup import before_changes, make_backup
from gateway.store.db.commit_counter import CommitCounter, seal
from gateway.store.db.connection import connect
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.schema import migrate, migrations
from tests.gateway.store.damage import empty_an_index
from tests.gateway.store.others import HOLDS_THE_FILE, other
from tests.gateway.store.rows import notes_in, went_back_ms

pytestmark = pytest.mark.usefixtures("made")


def write(path: Path, *texts: str) -> None:
    """As the gateway does: counted inside and marked outside."""
    connection = connect(path, busy_timeout_seconds=1)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO notices (at_ms, text) VALUES (0, ?)", [(text,) for text in texts])
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'commits'")
    connection.execute("COMMIT")
    commits = connection.execute("SELECT value FROM meta").fetchone()[0]
    connection.close()
    mark = CommitCounter(path)
    mark.write(commits)
    mark.close()


def destroy(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_new_home_is_made_without_a_word(path: Path, care: BackupPolicy) -> None:
    assert prepare(path, care, repair=True) == []
    assert prepare(path, care, repair=False) == []
    assert notes_in(path) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_sound_file_is_left_as_it_is(path: Path, care: BackupPolicy) -> None:
    write(path, "a")
    assert prepare(path, care, repair=True) == []
    assert notes_in(path) == ["a"]
    assert went_back_ms(path) == 0
    assert not care.backups.exists()


def test_a_damaged_file_is_kept_and_the_newest_sound_backup_restored(path: Path, care: BackupPolicy) -> None:
    write(path, "in the backup")
    make_backup(path, care.backups, keep=5)
    write(path, "in a damaged backup")
    destroy(make_backup(path, care.backups, keep=5))
    write(path, "after that")
    destroy(path)
    damaged = path.read_bytes()

    [notice] = prepare(path, care, repair=True)

    assert "state.db was damaged (file is not a database)" in notice
    assert "may be missing" in notice
    assert went_back_ms(path) > 0
    [aside] = care.backups.glob("damaged-*")
    assert aside.name in notice
    assert (aside / "state.db").read_bytes() == damaged
    assert notes_in(path) == ["in the backup", notice]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(aside.stat().st_mode) == 0o700
    assert prepare(path, care, repair=True) == []  # told once


def test_without_a_backup_it_starts_empty_and_says_so(path: Path, care: BackupPolicy) -> None:
    write(path, "gone")
    destroy(path)
    [notice] = prepare(path, care, repair=True)
    assert "no sound backup" in notice
    assert "starts empty" in notice
    assert notes_in(path) == [notice]
    assert stat.S_IMODE(care.backups.stat().st_mode) == 0o700
    assert prepare(path, care, repair=True) == []


@pytest.mark.parametrize("loss", ["deleted", "emptied"])
def test_a_file_that_is_gone_is_restored_and_said_to_be(path: Path, care: BackupPolicy, loss: str) -> None:
    write(path, "in the backup")
    make_backup(path, care.backups, keep=5)
    write(path, "after that")
    if loss == "deleted":
        path.unlink()
        Path(f"{path}-wal").write_bytes(b"a log without its database")
    else:
        path.write_bytes(b"")
    with pytest.raises(StoreCorrupt, match="gone"):
        prepare(path, care, repair=False)
    [notice] = prepare(path, care, repair=True)
    assert "state.db is gone" in notice
    assert notes_in(path) == ["in the backup", notice]


def test_a_command_beside_the_gateway_repairs_nothing(path: Path, care: BackupPolicy) -> None:
    write(path, "a")
    destroy(path)
    damaged = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="damaged"):
        prepare(path, care, repair=False)
    assert path.read_bytes() == damaged
    assert not care.backups.exists()


@pytest.mark.parametrize(("step", "told"), [("shutil.copyfile", ""), ("now_ms", "lost its last 1 commits")])
def test_cut_short_during_the_repair_the_next_start_goes_on_and_tells(
    path: Path, care: BackupPolicy, monkeypatch: pytest.MonkeyPatch, step: str, told: str
) -> None:
    write(path, "in the backup")
    make_backup(path, care.backups, keep=5)
    write(path, "after that")
    destroy(path)

    def plug_pulled(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"gateway.store.db.prepare.{step}", plug_pulled)
        with pytest.raises(KeyboardInterrupt):
            prepare(path, care, repair=True)
    [notice] = prepare(path, care, repair=True)
    assert told in notice
    assert notes_in(path) == ["in the backup", notice]


@pytest.mark.parametrize("repair", [True, False])
def test_lost_commits_are_told_once_by_whoever_comes_first(path: Path, care: BackupPolicy, repair: bool) -> None:
    """A command that wrote first would move the mark back, and the gateway would notice nothing."""
    write(path, "a")
    older = path.read_bytes()
    write(path, "b")
    write(path, "c")
    path.write_bytes(older)
    [notice] = prepare(path, care, repair=repair)
    assert "lost its last 2 commits" in notice
    assert notes_in(path) == ["a", notice]
    assert went_back_ms(path) > 0
    assert prepare(path, care, repair=True) == []


def test_a_damaged_search_index_is_rebuilt_and_nothing_is_lost(path: Path, care: BackupPolicy) -> None:
    connection = connect(path, busy_timeout_seconds=1)
    add_message(connection, "findme")
    connection.execute("UPDATE messages_search_data SET block = x'00000000' WHERE id > 10")
    connection.close()
    [notice] = prepare(path, care, repair=True)
    assert "search index was damaged and has been rebuilt" in notice
    connection = connect(path, busy_timeout_seconds=1)
    found = connection.execute("SELECT rowid FROM messages_search WHERE messages_search MATCH 'findme'").fetchall()
    connection.close()
    assert len(found) == 1


def test_lost_commits_are_told_also_when_the_search_index_was_mended(path: Path, care: BackupPolicy) -> None:
    connection = connect(path, busy_timeout_seconds=1)
    add_message(connection, "findme")
    connection.execute("UPDATE messages_search_data SET block = x'00000000' WHERE id > 10")
    connection.close()
    write(path, "b")
    mark = CommitCounter(path)
    mark.write(5)
    mark.close()
    told = prepare(path, care, repair=True)
    assert len(told) == 2
    assert "lost its last 4 commits" in told[1]


def test_a_search_index_beyond_repair_is_damage(path: Path, care: BackupPolicy) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_master SET sql = replace(sql, 'block', 'brick') WHERE name = 'messages_search_data'"
    )
    connection.commit()
    connection.close()
    [notice] = prepare(path, care, repair=True)
    assert "search index cannot be rebuilt" in notice
    assert prepare(path, care, repair=True) == []


def test_before_a_migration_a_backup_is_made(path: Path, care: BackupPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, "before")
    newer = {**migrations(), max(migrations()) + 1: "-- Rows change in: notices\nDELETE FROM notices;"}
    for module in ("prepare", "upgrade", "schema"):
        monkeypatch.setattr(f"gateway.store.db.{module}.migrations", lambda: newer)
    prepare(path, care, repair=True)
    assert notes_in(path) == []
    [copy] = before_changes(care.backups)
    assert notes_in(copy) == ["before"]


def test_a_large_file_gets_the_quick_check_alone(tmp_path: Path, path: Path, care: BackupPolicy) -> None:
    write(path, "a")
    empty_an_index(path)
    quick = BackupPolicy(backups=tmp_path / "backups", full_check_max_mb=0)
    assert prepare(path, quick, repair=True) == []
    assert len(prepare(path, care, repair=True)) == 1


@pytest.mark.parametrize("changed", [True, False])
def test_a_large_file_that_was_closed_in_an_orderly_way_is_checked_if_it_changed_or_cannot_be_used(
    path: Path, care: BackupPolicy, changed: bool
) -> None:
    write(path, "a")
    large = BackupPolicy(backups=care.backups, full_check_max_mb=0)
    seal(path)
    before = path.stat()
    destroy(path)
    if not changed:  # as a disk that goes bad
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(StoreCorrupt, match="Restart the gateway"):
            prepare(path, large, repair=True)
    [notice] = prepare(path, large, repair=True)
    assert "was damaged" in notice


def test_a_file_that_cannot_be_used_now_is_not_taken_for_damaged(path: Path, care: BackupPolicy) -> None:
    """And however often it is tried, nothing stays open."""
    write(path, "a")
    with other(HOLDS_THE_FILE, str(path)) as holder:
        holder.wait_for("ready")
        before = open_files()
        for repair in (True, False, True, False):
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                prepare(path, care, repair=repair)
        assert open_files() == before
    assert prepare(path, care, repair=True) == []
    assert notes_in(path) == ["a"]


def test_a_directory_in_the_files_place_is_explained(path: Path, care: BackupPolicy) -> None:
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be"):
        prepare(path, care, repair=True)


def test_an_interrupted_creation_is_finished(tmp_path: Path, care: BackupPolicy) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    mark = CommitCounter(fresh / "state.db")
    mark.write(0)
    mark.close()
    (fresh / "state.db").touch()
    assert prepare(fresh / "state.db", care, repair=True) == []


def test_an_older_home_is_brought_up_to_date(tmp_path: Path, care: BackupPolicy) -> None:
    old = tmp_path / "old.db"
    connection = connect(old, busy_timeout_seconds=1)
    migrate(connection, {1: migrations()[1]})
    connection.close()
    assert prepare(old, care, repair=True) == []
    assert prepare(old, care, repair=True) == []
    shutil.rmtree(care.backups, ignore_errors=True)


def add_message(connection: sqlite3.Connection, text: str) -> None:
    connection.execute(
        """INSERT INTO sessions (id, key, platform, account, kind, chat, thread, user_id, created_ms, updated_ms)
           VALUES ('s', 'k', 'p', '', '', 'c', '', '', 0, 0)"""
    )
    connection.execute(
        """INSERT INTO messages (session_id, role, parts, search_text, created_ms) VALUES ('s', 'user', '[]', ?, 0)""",
        (text,),
    )
