"""What is done to a database that nobody else uses: going back to an older schema, or to an older copy.

Whoever calls holds the lock on the home; `only_user` keeps out everybody else, such as a chat in a terminal.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.errors import StoreCorrupt, StoreUnavailable
from gateway.store.db.backup import BackupPolicy, find_damage, find_unfit, stamp, write_copy
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.connection import errors_told
from gateway.store.db.prepare import move_aside, put_in_place, siblings
from gateway.store.db.upgrade import change, one_at_a_time
from gateway.store.restored import record_going_back


def take_back(path: Path, care: BackupPolicy, to: int) -> Path:
    """Brings the database to an older schema, rehearsed before; gives the copy of the state before that."""
    with errors_told(path), one_at_a_time(care.backups), only_user(path, care) as connection:
        return change(connection, care, to)


def restore(path: Path, copy: Path, care: BackupPolicy) -> Path | None:
    """Puts a copy in the place of the database; gives where that is now, None when there was none."""
    with errors_told(path), one_at_a_time(care.backups):
        if problem := find_unfit(copy):
            raise StoreCorrupt(f"{copy.name} cannot be restored: {problem}. Nothing was changed.")
        if path.exists() and path.stat().st_size and not find_damage(path, thorough=True):
            return _exchange(path, copy, care)
        there = any(file.exists() for file in (path, *siblings(path)))
        aside = move_aside(path, care.backups) if there else None
        _lower_mark(path, copy)
        put_in_place(copy, path)
        return aside


def _exchange(path: Path, copy: Path, care: BackupPolicy) -> Path:
    replaced = care.backups / f"replaced-{stamp()}.db"
    with only_user(path, care) as connection, closing(sqlite3.connect(copy, isolation_level=None)) as source:
        write_copy(connection, replaced)
        _lower_mark(path, copy)
        # Into the file, not in its place: whoever opens it at this moment waits, and then finds the copy.
        source.backup(connection)
        record_going_back(connection)
    return replaced


@contextmanager
def only_user(path: Path, care: BackupPolicy) -> Iterator[sqlite3.Connection]:
    """Nobody else can open the file meanwhile. Raises StoreUnavailable when somebody has it open."""
    connection = sqlite3.connect(path, timeout=care.busy_timeout_seconds, isolation_level=None)
    try:
        # Asked for before the first look at the log, this needs the file to be open nowhere else.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        _lock(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
        yield connection
    finally:
        connection.close()


def _lock(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise StoreUnavailable(
            f"Another process, such as a chat in a terminal, has {path.name} open. End it and try again; "
            "nothing was changed."
        ) from error


def _lower_mark(path: Path, copy: Path) -> None:
    """Before the copy is there: a mark that lags behind says nothing, one that is ahead says that commits were lost."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        commits = int(connection.execute("SELECT value FROM meta WHERE name = 'commits'").fetchone()[0])
    with closing(CommitCounter(path)) as mark:
        mark.write(commits)
