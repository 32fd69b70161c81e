"""Prepare the database file before it is opened: check, restore, migrate, and report what was found."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from gateway.clock import for_people, now_ms
from gateway.store.db.backup import BackupPolicy as BackupPolicy
from gateway.store.db.backup import find_damage, newest_sound_backup, stamp, sync
from gateway.store.db.commit_counter import CommitCounter, break_seal, check_not_lost, is_lost
from gateway.store.db.connection import connect, translate_errors
from gateway.store.db.schema import migrate, migrations, schema_version
from gateway.store.db.upgrade import upgrade
from gateway.store.restored import record_going_back
from gateway.store.search_index import index_is_damaged, rebuild_index


def prepare(path: Path, policy: BackupPolicy, *, repair: bool) -> list[str]:
    """Make the file ready to open; return notices for the operator, which are also stored.

    With `repair` (the gateway, which holds the lock on the home) a damaged file is moved aside and replaced by the
    newest sound backup. Without it (a command beside the gateway) damage raises StoreCorrupt. Blocks: call it in a
    thread.
    """
    with translate_errors(path), closing(CommitCounter(path)) as counter:
        _make_siblings_writable(path)
        restored, notices = _repair(path, policy) if repair else (False, [])
        if not repair:
            check_not_lost(path)
        reached = counter.read()  # before the database is read: another process may commit in between
        counter.write(reached)  # first: this file identifies a half-made database as ours
        path.touch(mode=0o600)
        with closing(connect(path, busy_timeout_seconds=policy.busy_timeout_seconds)) as connection:
            if 0 < schema_version(connection) < max(migrations()):
                upgrade(connection, policy)
            migrate(connection)
            commits = int(connection.execute("SELECT value FROM meta WHERE name = 'commits'").fetchone()[0])
            if not restored and commits < reached:  # a restored one lags behind for a reported reason
                record_going_back(connection)
                notices.append(
                    f"state.db has lost its last {reached - commits} commits: its log (state.db-wal) was cut or "
                    f"replaced while Hermes was off. {_describe_gap('just before that')}"
                )
            connection.executemany(
                "INSERT INTO notices (at_ms, text) VALUES (?, ?)", [(now_ms(), notice) for notice in notices]
            )
        counter.write(commits)  # last: if interrupted before this, the next start reports the same again
    return notices


def _make_siblings_writable(path: Path) -> None:
    """Make the log files writable: those SQLite created while the database was read-only would stay so."""
    for sibling in siblings(path):
        if path.exists() and sibling.exists() and sibling.stat().st_mode != path.stat().st_mode:
            sibling.chmod(stat.S_IMODE(path.stat().st_mode))


def siblings(path: Path) -> tuple[Path, Path]:
    return Path(f"{path}-wal"), Path(f"{path}-shm")


def _repair(path: Path, policy: BackupPolicy) -> tuple[bool, list[str]]:
    """Repair the file; return whether a backup replaced it, and notices for the operator."""
    if is_lost(path):
        for leftover in siblings(path):
            leftover.unlink(missing_ok=True)  # would be replayed into whatever file takes the name
        return True, [f"state.db is gone. {_restore(path, policy)}"]
    if not path.exists():
        return False, []  # a new home
    thorough = path.stat().st_size <= policy.full_check_max_mb * 1_000_000
    if break_seal(path) and not thorough:
        return False, []
    notices: list[str] = []
    damage = find_damage(path, thorough=thorough)
    if not damage:
        damage, notices = _repair_search(path, policy)
    if not damage:
        return False, notices
    aside = move_aside(path, policy.backups)
    return True, [f"state.db was damaged ({damage}). It was moved to backups/{aside.name}. {_restore(path, policy)}"]


def move_aside(path: Path, backups: Path) -> Path:
    """Move a damaged file and its log aside; return the folder they are in."""
    backups.mkdir(mode=0o700, exist_ok=True)
    aside = backups / f"damaged-{stamp()}"
    aside.mkdir(mode=0o700)
    for file in (path, *siblings(path)):
        if file.exists():
            shutil.move(file, aside / file.name)
    return aside


def put_in_place(copy: Path, path: Path) -> None:
    """Make a copy the database, and record in it that messages it does not know may have been answered."""
    restored = path.with_suffix(".db.restoring")
    shutil.copyfile(copy, restored)
    restored.chmod(0o600)
    with closing(sqlite3.connect(restored, isolation_level=None)) as connection:
        record_going_back(connection)
    sync(restored)
    restored.rename(path)
    sync(path.parent)


def _restore(path: Path, policy: BackupPolicy) -> str:
    copy = newest_sound_backup(policy.backups)
    if copy is None:
        return "There was no sound backup, so Hermes starts empty: earlier conversations are not there."
    put_in_place(copy, path)
    taken = for_people(int(copy.stat().st_mtime * 1000))
    return f"The backup of {taken} was restored. {_describe_gap('then')}"


def _describe_gap(since: str) -> str:
    return (
        f"Messages from {since} until {for_people(now_ms())} may be missing; they are not answered again, so ask once "
        "more for what you still need."
    )


def _repair_search(path: Path, policy: BackupPolicy) -> tuple[str, list[str]]:
    """Repair the search index; return damage that cannot be repaired, and notices about what was."""
    with closing(connect(path, busy_timeout_seconds=policy.busy_timeout_seconds)) as connection:
        if not 0 < schema_version(connection) <= max(migrations()) or not index_is_damaged(connection):
            return "", []
        if not rebuild_index(connection):
            return "the search index cannot be rebuilt", []
    return "", ["The search index was damaged and has been rebuilt. Nothing is missing."]
