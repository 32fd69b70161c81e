"""Ways back: an older schema or an older copy, with nobody else in the file, and nothing ever deleted."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import StoreCorrupt, StoreUnavailable
from gateway.store.db.backup import before_changes, make_backup, schema_of
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.connection import connect
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.restore import only_user, restore, undo_upgrade
from gateway.store.db.schema import find_schema_damage, migrations
from tests.gateway.store.conftest import Clock
from tests.gateway.store.others import HOLDS_THE_FILE, other
from tests.gateway.store.rows import notes_in, went_back_ms
from tests.gateway.store.sample import converse, read_all
from tests.thorough import a_few_of

OLD = 5
_COUNT = "UPDATE meta SET value = value + 1 WHERE name = 'commits' RETURNING value"
NEWEST = max(migrations())


@pytest.fixture(autouse=True)
def _database(path: Path, made: None) -> None:
    converse(path, range(4))


def add_note(path: Path, text: str) -> None:
    """As the gateway does: counted inside and marked outside."""
    with closing(connect(path, busy_timeout_seconds=5)) as connection:
        connection.execute("INSERT INTO notices (at_ms, text) VALUES (0, ?)", (text,))
        commits = connection.execute(_COUNT).fetchall()[0][0]
    with closing(CommitCounter(path)) as mark:
        mark.write(commits)


def test_taken_back_the_schema_is_the_older_one_and_the_newer_state_is_kept(path: Path, care: BackupPolicy) -> None:
    before = read_all(path)
    kept = undo_upgrade(path, care, OLD)
    assert schema_of(path) == OLD
    with closing(sqlite3.connect(path)) as connection:
        assert find_schema_damage(connection) == ""
    after = read_all(path)
    assert after.rows == {table: rows for table, rows in before.rows.items() if table in after.rows}
    assert before_changes(care.backups) == [kept]
    assert schema_of(kept) == NEWEST
    assert prepare(path, care, repair=True) == []  # and forward again, with nothing to tell
    assert read_all(path) == before


@pytest.mark.parametrize(
    "way_back", [lambda path, care: undo_upgrade(path, care, OLD), lambda path, care: restore(path, path, care)]
)
def test_nobody_else_may_have_the_file_open(
    path: Path, care: BackupPolicy, way_back: Callable[[Path, BackupPolicy], Path | None]
) -> None:
    before = read_all(path)
    with other(HOLDS_THE_FILE, str(path), "SELECT * FROM meta") as holder:
        holder.wait_for("ready")
        with pytest.raises(StoreUnavailable, match=r"a chat in a terminal.*nothing was changed"):
            way_back(path, care)
    assert read_all(path) == before


def test_meanwhile_nobody_gets_in(path: Path, care: BackupPolicy) -> None:
    with only_user(path, care), pytest.raises(StoreUnavailable, match="locked by another process"):
        prepare(path, care, repair=False)
    assert prepare(path, care, repair=False) == []


def test_a_restored_copy_takes_the_place_of_what_was_there_and_that_is_kept(path: Path, care: BackupPolicy) -> None:
    add_note(path, "in the copy")
    copy = make_backup(path, care.backups, keep=1)
    add_note(path, "after it")
    replaced = restore(path, copy, care)
    assert notes_in(path) == ["in the copy"]
    assert replaced is not None
    assert replaced.name.startswith("replaced-")
    assert notes_in(replaced) == ["in the copy", "after it"]
    assert copy.exists()
    assert prepare(path, care, repair=True) == []  # no word of lost commits: it was meant so


@pytest.mark.parametrize("loss", ["", "damaged"])
def test_a_restored_copy_knows_from_when_on_its_cursors_can_be_trusted(
    path: Path, care: BackupPolicy, clock: Clock, loss: str
) -> None:
    assert went_back_ms(path) == 0
    copy = make_backup(path, care.backups, keep=1)
    clock.forward(hours=1)
    if loss:
        path.write_bytes(b"no database" * 1000)
    restore(path, copy, care)
    assert went_back_ms(path) == clock.ms
    assert went_back_ms(copy) == 0


def test_a_copy_of_an_older_schema_can_be_restored(path: Path, care: BackupPolicy) -> None:
    undo_upgrade(path, care, OLD)
    copy = make_backup(path, care.backups, keep=1)
    prepare(path, care, repair=True)
    restore(path, copy, care)
    assert schema_of(path) == OLD


def test_so_can_one_while_the_file_is_too_new_for_us(path: Path, care: BackupPolicy) -> None:
    copy = make_backup(path, care.backups, keep=1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    restore(path, copy, care)
    assert schema_of(path) == NEWEST


@pytest.mark.parametrize("loss", ["damaged", "gone", "gone, its log is there"])
def test_a_file_that_is_damaged_or_gone_is_replaced_and_kept(path: Path, care: BackupPolicy, loss: str) -> None:
    add_note(path, "in the copy")
    copy = make_backup(path, care.backups, keep=1)
    if loss == "damaged":
        path.write_bytes(b"\xa5" * 9000)
    else:
        path.unlink()
    if loss == "gone, its log is there":
        Path(f"{path}-wal").write_bytes(b"a log without its database")
    aside = restore(path, copy, care)
    assert notes_in(path) == ["in the copy"]
    assert prepare(path, care, repair=True) == []
    kept = {"damaged": ["state.db"], "gone": [], "gone, its log is there": ["state.db-wal"]}[loss]
    assert (sorted(file.name for file in aside.iterdir()) if aside else []) == kept


def make_newer(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")


def make_foreign(copy: Path) -> None:
    copy.unlink()
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda copy: copy.write_bytes(b""), "it is empty"),
        (lambda copy: copy.write_bytes(b"nonsense" * 1000), "file is not a database"),
        (make_newer, rf"a newer Hermes wrote it \(schema {NEWEST + 1}\)"),
        (make_foreign, "is not that of schema 0"),
    ],
)
def test_what_is_no_sound_copy_is_refused(
    path: Path, care: BackupPolicy, spoil: Callable[[Path], object], problem: str
) -> None:
    copy = make_backup(path, care.backups, keep=1)
    spoil(copy)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=f"cannot be restored: .*{problem}.*Nothing was changed"):
        restore(path, copy, care)
    assert path.read_bytes() == before
    assert list(care.backups.iterdir()) == [copy]


GOES_BACK = """
import functools, sqlite3, sys
from pathlib import Path
from gateway.store.db import restore, schema, upgrade
from gateway.store.db.prepare import BackupPolicy

def stop_here(*_):
    print("ready", flush=True)
    sys.stdin.readline()

class Slow(sqlite3.Connection):
    def backup(self, target):
        super().backup(target, pages=20, progress=stop_here)

path, copy, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
care = BackupPolicy(backups=path.parent / "backups")
if step == "half of the copy is in the file":
    sqlite3.connect = functools.partial(sqlite3.connect, factory=Slow)
elif step == "what was there is kept":
    restore._lower_counter = stop_here
elif step == "the schema is changed, not committed":
    schema.find_difference = stop_here
elif step == "the state before is kept":
    upgrade._apply = stop_here
restore.undo_upgrade(path, care, 5) if str(copy) == "." else restore.restore(path, copy, care)
"""


@pytest.mark.parametrize("step", ["what was there is kept", "half of the copy is in the file"])
def test_killed_while_restoring_the_file_is_what_it_was(path: Path, care: BackupPolicy, step: str) -> None:
    copy = make_backup(path, care.backups, keep=1)
    converse(path, range(4, 30))
    before = read_all(path)
    with other(GOES_BACK, str(path), str(copy), step) as process:
        process.wait_for("ready")
        process.kill()
    assert prepare(path, care, repair=True) == []
    assert read_all(path) == before
    restore(path, copy, care)
    restored, copied = read_all(path).rows, read_all(copy).rows
    assert {**restored, "meta": None} == {**copied, "meta": None}


@pytest.mark.parametrize("step", a_few_of(["the state before is kept", "the schema is changed, not committed"], 1))
def test_killed_while_going_back_the_file_is_what_it_was(path: Path, care: BackupPolicy, step: str) -> None:
    before = read_all(path)
    with other(GOES_BACK, str(path), ".", step) as process:
        process.wait_for("ready")
        process.kill()
    assert prepare(path, care, repair=True) == []
    assert read_all(path) == before
    undo_upgrade(path, care, OLD)
    assert schema_of(path) == OLD
