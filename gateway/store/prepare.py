"""What is done to the database file before it is opened: check, restore, migrate, and say what was found."""

import shutil
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.clock import for_people, now_ms
from gateway.errors import StoreUnavailable
from gateway.store.backup import find_damage, make_backup, newest_sound_backup
from gateway.store.connection import connect, translated
from gateway.store.mark import Mark
from gateway.store.migrate import migrate, migrations, schema_version
from gateway.store.search import index_is_damaged, rebuild_index


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How the file is looked after."""

    backups: Path
    backups_kept: int = 7
    full_check_max_mb: int = 256  # a larger file gets the quick check alone
    busy_timeout_seconds: float = 5.0


def prepare(path: Path, care: Care, *, repair: bool) -> list[str]:
    """Makes the file ready to open; gives what the operator must be told, which is also kept as notices.

    With `repair` (the gateway, which holds the lock on the home) a damaged file is moved aside and the newest
    sound backup put in its place. Without it (a command beside the gateway) damage raises StoreCorrupt.
    Blocks: call it in a thread.
    """
    try:
        return _prepare(path, care, repair)
    except sqlite3.Error as error:
        raise translated(error, path) or error from error
    except OSError as error:
        raise StoreUnavailable(f"{path.name} cannot be made ready: {error.strerror or error}.") from error


def _prepare(path: Path, care: Care, repair: bool) -> list[str]:
    notices: list[str] = []
    mark = Mark(path)
    if repair:
        notices += _restore_if_damaged(path, care, mark)
    reached = mark.read()  # before the database is asked: another process may commit in between
    mark.write(reached)  # first of all: by this file a database cut short while it was made is known as ours
    path.touch(mode=0o600)
    connection = connect(path, busy_timeout_seconds=care.busy_timeout_seconds)
    try:
        _migrate_with_backup(connection, path, care)
        if repair:
            notices += _mend_search(connection) + _compare(connection, mark, reached)
        with connection:
            connection.executemany(
                "INSERT INTO notices (at_ms, text) VALUES (?, ?)", [(now_ms(), notice) for notice in notices]
            )
    finally:
        connection.close()
        mark.close()
    return notices


def _restore_if_damaged(path: Path, care: Care, mark: Mark) -> list[str]:
    if not path.exists():
        return _restore_if_lost(path, care, mark)
    thorough = path.stat().st_size <= care.full_check_max_mb * 1_000_000
    damage = find_damage(path, thorough=thorough)
    if not damage:
        return []
    aside = care.backups / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S_%f}"
    aside.mkdir(parents=True, mode=0o700)
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        if file.exists():
            shutil.move(file, aside / file.name)
    return [f"state.db was damaged ({damage}). It was moved to backups/{aside.name}. {_restore(path, care, mark)}"]


def _restore_if_lost(path: Path, care: Care, mark: Mark) -> list[str]:
    if mark.read() == 0:
        return []  # a new home
    for leftover in (Path(f"{path}-wal"), Path(f"{path}-shm")):
        leftover.unlink(missing_ok=True)  # would be replayed into whatever file takes the name
    return [f"state.db is gone. {_restore(path, care, mark)}"]


def _restore(path: Path, care: Care, mark: Mark) -> str:
    copy = newest_sound_backup(care.backups)
    mark.write(0)
    if copy is None:
        return "There was no sound backup, so Hermes starts empty: earlier conversations are not there."
    restored = path.with_suffix(".db.restoring")
    shutil.copyfile(copy, restored)
    restored.chmod(0o600)
    restored.rename(path)
    taken = for_people(int(copy.stat().st_mtime * 1000))
    return f"The backup of {taken} was restored: what came in after that may be missing and may need asking again."


def _migrate_with_backup(connection: sqlite3.Connection, path: Path, care: Care) -> None:
    if 0 < schema_version(connection) < max(migrations()):
        make_backup(path, care.backups, keep=care.backups_kept)
    migrate(connection)


def _mend_search(connection: sqlite3.Connection) -> list[str]:
    if not index_is_damaged(connection):
        return []
    rebuild_index(connection)
    return ["The search index was damaged and has been rebuilt. Nothing is missing."]


def _compare(connection: sqlite3.Connection, mark: Mark, reached: int) -> list[str]:
    commits = int(connection.execute("SELECT value FROM meta WHERE name = 'commits'").fetchone()[0])
    mark.write(commits)
    if commits >= reached:
        return []
    return [
        f"state.db has lost its last {reached - commits} commits: its log (state.db-wal) was cut or replaced "
        "while Hermes was off. Messages accepted just before that may be missing and may need asking again."
    ]
