"""Copies: taken while the database is in use, checked, rotated, and found again when they are needed."""

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from gateway.store.db.backup import (
    backup_is_due,
    backups,
    find_damage,
    keep_before_change,
    list_copies,
    make_backup,
    newest_sound_backup,
    write_copy,
)
from gateway.store.db.connection import connect
from gateway.store.db.schema import migrations
from tests.gateway.store.conftest import Clock
from tests.gateway.store.damage import empty_an_index, scribble
from tests.gateway.store.others import other
from tests.gateway.store.rows import notes_in

DAY_SECONDS = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


pytestmark = pytest.mark.usefixtures("made")


def write(path: Path, *texts: str) -> None:
    connection = connect(path, busy_timeout_seconds=1)
    connection.executemany("INSERT INTO notices (at_ms, text) VALUES (0, ?)", [(text,) for text in texts])
    connection.close()


def test_a_copy_holds_everything_and_only_its_owner_may_read_it(path: Path, folder: Path) -> None:
    write(path, "a", "b")
    copy = make_backup(path, folder, keep=3)
    assert notes_in(copy) == ["a", "b"]
    assert find_damage(copy, thorough=True) == ""
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_copy_includes_what_is_still_in_the_log(path: Path, folder: Path) -> None:
    writer = connect(path, busy_timeout_seconds=1)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'in the log')")
    assert notes_in(make_backup(path, folder, keep=3)) == ["in the log"]
    writer.close()


def test_copies_are_taken_while_others_write_and_are_of_one_moment(path: Path, folder: Path) -> None:
    """The writer keeps two tables equal; a copy that mixes moments would show them unequal."""
    stop = threading.Event()

    def write_pairs() -> None:
        connection = connect(path, busy_timeout_seconds=5)
        number = 0
        while not stop.is_set():
            number += 1
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO notices (at_ms, text) VALUES (?, hex(randomblob(2000)))", (number,))
            connection.execute("INSERT INTO cursors VALUES ('a', ?, '')", (str(number),))
            connection.execute("COMMIT")
        connection.close()

    writing = threading.Thread(target=write_pairs)
    writing.start()
    try:
        copies = [make_backup(path, folder, keep=9) for _ in range(4)]
    finally:
        stop.set()
        writing.join()
    counts = []
    for copy in copies:
        connection = sqlite3.connect(copy)
        one, other_one = (connection.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in ("notices", "cursors"))
        connection.close()
        assert one == other_one
        counts.append(one)
    assert counts == sorted(counts)


def test_the_oldest_go(path: Path, folder: Path) -> None:
    made = [make_backup(path, folder, keep=3) for _ in range(5)]
    assert backups(folder) == [made[4], made[3], made[2]]
    assert sorted(folder.iterdir()) == sorted(made[2:])


def test_a_damaged_database_gives_no_copy(path: Path, folder: Path) -> None:
    write(path, *("x" * 3000 for _ in range(50)))
    good = make_backup(path, folder, keep=1)
    size = path.stat().st_size
    for offset in range(8192, size, 4096):
        scribble(path, offset)
    with pytest.raises(sqlite3.DatabaseError):
        make_backup(path, folder, keep=1)
    assert list(folder.iterdir()) == [good]


KILLED_WHILE_COPYING = """
import sys
from pathlib import Path
from gateway.store.db import backup

def stop_here(path, **_):
    print("ready", flush=True)
    sys.stdin.readline()

backup.find_damage = stop_here
backup.make_backup(Path(sys.argv[1]), Path(sys.argv[2]), keep=1)
"""


def test_what_a_kill_left_half_done_is_no_backup_and_goes_in_time(path: Path, folder: Path) -> None:
    good = make_backup(path, folder, keep=1)
    with other(KILLED_WHILE_COPYING, str(path), str(folder)) as process:
        process.wait_for("ready")
        process.kill()
    [partial] = [entry for entry in folder.iterdir() if entry != good]
    assert newest_sound_backup(folder) == good
    newer = make_backup(path, folder, keep=1)
    assert partial.exists()  # it may be another process's that is still at work
    os.utime(partial, (partial.stat().st_atime, partial.stat().st_mtime - 2 * DAY_SECONDS))
    newest = make_backup(path, folder, keep=1)
    assert list(folder.iterdir()) == [newest]
    assert newest != newer


@pytest.mark.parametrize("damage", ["emptied", "cut", "scribbled", "no database at all", "index only"])
def test_a_sound_copy_is_found_behind_a_damaged_one(path: Path, folder: Path, damage: str) -> None:
    write(path, *(f"{n} {'x' * 500}" for n in range(200)))
    sound = make_backup(path, folder, keep=5)
    broken = make_backup(path, folder, keep=5)
    if damage == "emptied":
        broken.write_bytes(b"")
    elif damage == "cut":
        os.truncate(broken, broken.stat().st_size // 2)
    elif damage == "scribbled":
        scribble(broken, 4096 * 3)
    elif damage == "no database at all":
        broken.write_bytes(b"not a database" * 1000)
    else:
        empty_an_index(broken)
    assert newest_sound_backup(folder) == sound


def test_without_a_sound_copy_there_is_none(folder: Path) -> None:
    assert newest_sound_backup(folder) is None
    folder.mkdir()
    (folder / "state-20260101T000000_000000.db").write_bytes(b"broken")
    assert newest_sound_backup(folder) is None


def test_what_a_newer_version_wrote_is_not_restored(path: Path, folder: Path) -> None:
    """It would stop the start. One from before an upgrade is as good as any."""
    connection = connect(path, busy_timeout_seconds=1)
    before = keep_before_change(connection, folder, to=1)
    connection.close()
    newer = make_backup(path, folder, keep=5)
    assert newest_sound_backup(folder) == newer
    connection = sqlite3.connect(newer)
    connection.execute(f"PRAGMA user_version = {max(migrations()) + 1}")
    connection.close()
    assert newest_sound_backup(folder) == before


def test_a_backup_is_due_after_its_time(path: Path, folder: Path, clock: Clock) -> None:
    assert backup_is_due(folder, 24)
    copy = make_backup(path, folder, keep=1)
    os.utime(copy, (clock.ms / 1000, clock.ms / 1000))
    assert not backup_is_due(folder, 24)
    clock.forward(hours=23.9)
    assert not backup_is_due(folder, 24)
    clock.forward(hours=0.2)
    assert backup_is_due(folder, 24)


def test_the_quick_check_does_not_look_at_indexes_and_the_thorough_one_does(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    empty_an_index(path)
    assert find_damage(path) == ""
    assert find_damage(path, thorough=True) != ""


def test_a_copy_that_cannot_be_opened_does_not_hide_the_others(path: Path, folder: Path) -> None:
    sound = make_backup(path, folder, keep=5)
    closed = make_backup(path, folder, keep=5)
    connect(closed, busy_timeout_seconds=1).close()  # it has a log now
    Path(f"{closed}-wal").mkdir()  # which cannot be read
    (folder / "state-9.db").symlink_to("nowhere")
    (folder / "before-schema-9.db").mkdir()
    assert newest_sound_backup(folder) == sound
    listed = {copy.name: copy.problem for copy in list_copies(folder)}
    assert listed == {closed.name: "it cannot be opened (unable to open database file)", sound.name: ""}


def test_nobody_else_may_read_a_copy_while_it_is_written(path: Path, folder: Path) -> None:
    write(path, *("a" * 1_000 for _ in range(500)))
    modes: set[int] = set()

    def look() -> None:
        modes.update(stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir())

    source = connect(path, busy_timeout_seconds=1)
    source.set_progress_handler(look, 1_000)
    write_copy(source, folder / "state-1.db")
    source.close()
    assert modes == {0o600}
