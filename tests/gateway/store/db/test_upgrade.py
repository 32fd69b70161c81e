"""Upgrades: tried on a copy, made whole or not at all, nothing of anybody's lost, and the state before kept."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.errors import StoreUnavailable, UpgradeFailed
from gateway.store.db import upgrade as upgrades
from gateway.store.db.backup import before_changes, make_backup, schema_of
from gateway.store.db.connection import connect
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.db.schema import migrations, schema_version, undo, undo_scripts
from tests.gateway.store.filling import ROWS, make_database
from tests.gateway.store.others import other
from tests.gateway.store.sample import read_all
from tests.thorough import a_few_of

OLD = 5
NEWEST = max(migrations())


@pytest.fixture(autouse=True)
def _old_database(path: Path) -> None:
    make_database(path, OLD)


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(path, busy_timeout_seconds=1)) as connection:
        yield connection


def add_note(path: Path, text: str) -> None:
    with closing(connect(path, busy_timeout_seconds=5)) as connection:
        connection.execute("INSERT INTO notices (at_ms, text) VALUES (0, ?)", (text,))


def files(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def add_step(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    newer = {**migrations(), NEWEST + 1: script}
    for module in ("prepare", "upgrade", "schema"):
        monkeypatch.setattr(f"gateway.store.db.{module}.migrations", lambda: newer)


@pytest.mark.parametrize("repair", [True, False])
def test_an_older_database_is_brought_up_to_date_and_its_state_before_kept(
    path: Path, care: BackupPolicy, repair: bool
) -> None:
    with closing(connect(path, busy_timeout_seconds=1)) as connection:
        connection.execute("UPDATE sessions SET prompt = NULL")  # the one value that upgrades rewrite: test_migrate.py
    before = read_all(path)
    assert prepare(path, care, repair=repair) == []
    assert schema_of(path) == NEWEST
    assert {table: rows for table, rows in read_all(path).rows.items() if table in before.rows} == before.rows
    [kept] = before_changes(care.backups)
    assert kept.name.startswith(f"before-schema-{NEWEST:04}-")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert schema_of(kept) == OLD
    assert read_all(kept) == before
    assert files(care.backups) == [kept.name]


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("INSERT INTO nowhere VALUES (1);", "no such table: nowhere"),
        ("CREATE TABLE c (x", "ends in the middle of a statement"),
        ("DELETE FROM messages;", f"the table messages had {ROWS} rows and would have 0"),
        ("-- Rows change in: people\nDELETE FROM people;", "would refer to rows that are not there"),
        ("INSERT INTO messages_search (messages_search) VALUES ('delete-all');", "table messages_search_docsize had"),
        ("UPDATE messages_search_data SET block = x'00000000' WHERE id > 10;", "the search index would be damaged"),
        ("CREATE TABLE sqlite_mine (x);", "reserved"),
    ],
)
def test_what_fails_on_the_copy_leaves_the_file_as_it_was(
    path: Path, care: BackupPolicy, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    with closing(connect(path, busy_timeout_seconds=1)) as connection:
        connection.execute("UPDATE identities SET person_id = 'id 1'")  # one reference that leads somewhere
    before = path.read_bytes()
    add_step(monkeypatch, script)
    with pytest.raises(UpgradeFailed, match=rf"from schema {OLD} to {NEWEST + 1}: .*{problem}.*Nothing was changed"):
        prepare(path, care, repair=True)
    assert path.read_bytes() == before
    assert files(care.backups) == []


def test_what_fails_on_the_file_alone_is_taken_back(
    connection: sqlite3.Connection, path: Path, care: BackupPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others wrote after the rehearsal may be what it stumbles over."""
    add_step(monkeypatch, "CREATE UNIQUE INDEX notices_once ON notices (text);")
    with upgrades.one_at_a_time(care.backups):
        upgrades.rehearse(connection, care, NEWEST + 1)
        add_note(path, "text 1")
        before = read_all(path)
        with pytest.raises(UpgradeFailed, match="UNIQUE constraint failed"):
            upgrades.change(connection, care, NEWEST + 1)
    assert schema_version(connection) == OLD
    assert read_all(path) == before
    assert files(care.backups) == []


def test_what_others_commit_between_rehearsal_and_change_is_kept(
    connection: sqlite3.Connection, path: Path, care: BackupPolicy
) -> None:
    """And whoever had the file open goes on."""
    with closing(connect(path, busy_timeout_seconds=1)) as another, upgrades.one_at_a_time(care.backups):
        another.execute("SELECT * FROM notices").fetchall()
        upgrades.rehearse(connection, care, NEWEST)
        another.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'in between')")
        upgrades.change(connection, care, NEWEST)
        another.execute("INSERT INTO notices (at_ms, text) VALUES (0, 'after it')")
    texts = [row[0] for row in connection.execute("SELECT text FROM notices ORDER BY id DESC LIMIT 2")]
    assert texts == ["after it", "in between"]


def test_without_room_nothing_is_begun(path: Path, care: BackupPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    full = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr("gateway.store.db.upgrade.os.statvfs", lambda _: full)
    with pytest.raises(
        StoreUnavailable, match=r"needs .* MB of room .* there are 4 KB\. Make room.*Nothing was changed"
    ):
        prepare(path, care, repair=True)
    assert path.read_bytes() == before
    assert files(care.backups) == []


def test_the_state_before_upgrades_outlives_the_daily_rotation(tmp_path: Path, path: Path) -> None:
    care = BackupPolicy(backups=tmp_path / "backups", upgrade_backups_kept=2)
    kept = []
    for _ in range(3):
        prepare(path, care, repair=False)
        kept.append(before_changes(care.backups)[0])
        with closing(connect(path, busy_timeout_seconds=1)) as connection:
            undo(connection, OLD)
    newest = [make_backup(path, care.backups, keep=1) for _ in range(2)][-1]
    assert files(care.backups) == sorted(copy.name for copy in (kept[1], kept[2], newest))


UPGRADES = """
import sys
from pathlib import Path
from gateway.store.db import backup, schema, upgrade
from gateway.store.db.prepare import BackupPolicy, prepare

def stop_before(module, name, times):
    original, calls = getattr(module, name), []
    def stop(*arguments, **named):
        calls.append(name)
        if len(calls) == times:
            print("ready", flush=True)
            sys.stdin.readline()
        return original(*arguments, **named)
    setattr(module, name, stop)

path, module, name, times = Path(sys.argv[1]), *sys.argv[2:]
stop_before({"backup": backup, "schema": schema, "upgrade": upgrade}[module], name, int(times))
prepare(path, BackupPolicy(backups=path.parent / "backups", busy_timeout_seconds=10), repair=True)
"""
STEPS = {
    "the file is changed, not committed": ("schema", "find_difference", 2, OLD),
    "the copy is made": ("upgrade", "_try", 1, OLD),
    "the copy is changed": ("schema", "find_difference", 1, OLD),
    "the state before is copied": ("backup", "sync", 1, OLD),
    "the copy is checked": ("upgrade", "find_damage", 1, OLD),
    "the state before is kept": ("upgrade", "_apply", 2, OLD),
    "the change is committed": ("upgrade", "forget_old_changes", 1, NEWEST),
}


@pytest.mark.parametrize("step", a_few_of(list(STEPS), 2))
def test_killed_at_any_step_the_next_start_goes_on(path: Path, care: BackupPolicy, step: str) -> None:
    module, name, times, reached = STEPS[step]
    before = read_all(path)
    with other(UPGRADES, str(path), module, name, str(times)) as process:
        process.wait_for("ready")
        process.kill()
    assert schema_of(path) == reached
    add_note(path, "after the kill")

    assert prepare(path, care, repair=True) == []

    assert schema_of(path) == NEWEST
    after = read_all(path)
    assert after.rows["messages"] == before.rows["messages"]
    assert len(after.rows["notices"]) == ROWS + 1
    assert {schema_of(copy) for copy in before_changes(care.backups)} == {OLD}
    assert not [name for name in files(care.backups) if ".partial" in name]


def test_those_who_start_together_wait_for_the_one_who_upgrades(path: Path, care: BackupPolicy) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(other(UPGRADES, str(path), "upgrade", "_try", "1"))
        first.wait_for("ready")
        second = stack.enter_context(other(UPGRADES, str(path), "upgrade", "one_at_a_time", "1"))
        second.wait_for("ready")
        second.tell()
        assert first.finish() == 0
        assert second.finish() == 0
    assert schema_of(path) == NEWEST
    assert len(before_changes(care.backups)) == 1


def test_the_oldest_schema_that_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    assert upgrades.oldest_reachable(NEWEST) == OLD
    assert upgrades.oldest_reachable(3) == 3
    without_last = {number: script for number, script in undo_scripts().items() if number != NEWEST}
    monkeypatch.setattr("gateway.store.db.upgrade.undo_scripts", lambda: without_last)
    assert upgrades.oldest_reachable(NEWEST) == NEWEST


def test_a_rehearsal_says_what_going_back_would_lose(path: Path, care: BackupPolicy) -> None:
    prepare(path, care, repair=True)
    with closing(connect(path, busy_timeout_seconds=1)) as connection, upgrades.one_at_a_time(care.backups):
        assert upgrades.rehearse(connection, care, OLD) == []
        connection.execute("INSERT INTO spending VALUES (1, 'k', 0, '', '', '', '', '', 0, 0, 0, 0, 0, 0)")
        [lost] = upgrades.rehearse(connection, care, OLD)
    assert (lost.table, lost.column, lost.count) == ("spending", "", 1)
    assert os.listdir(care.backups) == [before_changes(care.backups)[0].name]
