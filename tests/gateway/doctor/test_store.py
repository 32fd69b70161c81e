"""The database and its backups, as the doctor tells them."""

import sqlite3
from pathlib import Path

import pytest

from gateway.doctor import service
from gateway.doctor.facts import gather
from gateway.store.db.prepare import BackupPolicy, prepare
from gateway.store.outbox import Notice
from hermes_config.places import Home
from tests.gateway.doctor.scene import HOUR_MS, NOW_MS, facts_of, run_check, summary_of
from tests.gateway.store.damage import scribble


def made(root: Path) -> Home:
    prepare(root / "state.db", BackupPolicy(backups=root / "backups"), repair=False)
    return Home(root)


def test_a_sound_database(root: Path) -> None:
    facts = gather(made(root))
    assert [level for level, _ in run_check(service.check_database, facts)] == ["ok"]
    assert [level for level, _ in run_check(service.check_backups, facts)] == ["warn"]  # none yet


def test_no_database_yet_is_fine(root: Path) -> None:
    facts = gather(Home(root))
    assert [level for level, _ in run_check(service.check_database, facts)] == ["ok"]
    assert run_check(service.check_backups, facts) == []
    assert list(root.iterdir()) == []


def test_damage_is_a_finding(root: Path) -> None:
    scribble(made(root).database, 4096)
    [(level, text)] = run_check(service.check_database, gather(Home(root)))
    assert level == "bad"
    assert "is damaged" in text
    assert "restores the newest backup" in text


def test_a_database_that_was_deleted_is_bad(root: Path) -> None:
    home = made(root)
    with sqlite3.connect(home.database) as database:
        database.execute("UPDATE meta SET value = value + 1 WHERE name = 'commits'")
    database.close()
    prepare(home.database, BackupPolicy(backups=home.backups), repair=False)  # the mark follows
    home.database.unlink()
    [(level, text)] = run_check(service.check_database, gather(home))
    assert (level, "state.db is gone" in text) == ("bad", True)


@pytest.mark.parametrize(("version", "level"), [(999, "bad"), (1, "warn")])
def test_a_database_of_another_version(root: Path, version: int, level: str) -> None:
    home = made(root)
    if version == 1:
        facts = facts_of(root, store=summary_of(access=None))
    else:
        database = sqlite3.connect(home.database)
        database.execute(f"PRAGMA user_version = {version}")
        database.close()
        facts = gather(home)
    assert [found for found, _ in run_check(service.check_database, facts)] == [level]


@pytest.mark.parametrize(("hours", "level"), [(1, "ok"), (47, "ok"), (49, "warn")])
def test_an_old_backup(root: Path, hours: int, level: str) -> None:
    facts = facts_of(root, store=summary_of(), backup_ms=(NOW_MS - hours * HOUR_MS,))
    assert [found for found, _ in run_check(service.check_backups, facts)] == [level]


def test_notices_are_told_while_they_are_news(root: Path) -> None:
    new = Notice(id=2, at_ms=NOW_MS - HOUR_MS, text="The backup was restored.")
    old = Notice(id=1, at_ms=NOW_MS - 200 * HOUR_MS, text="Long ago.")
    [(level, text)] = run_check(service.list_notices, facts_of(root, store=summary_of(notices=(new, old))))
    assert (level, "The backup was restored." in text) == ("warn", True)
