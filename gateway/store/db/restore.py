"""Return a database to an older schema or an older copy, while nobody else uses it.

The caller holds the lock on the home; `only_user` keeps out everybody else, such as a chat in a terminal.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gateway.errors import StoreCorrupt, StoreUnavailable
from gateway.store.db.backup import BackupPolicy, find_damage, find_restore_problem, stamp, write_copy
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.connection import translate_errors
from gateway.store.db.prepare import move_aside, put_in_place, siblings
from gateway.store.db.upgrade import change, one_at_a_time
from gateway.store.restored import record_going_back


def undo_upgrade(path: Path, policy: BackupPolicy, to: int) -> Path:
    """Undo a rehearsed upgrade: bring the database to an older schema. Return the copy made before."""
    with translate_errors(path), one_at_a_time(policy.backups), only_user(path, policy) as connection:
        return change(connection, policy, to)


def restore(path: Path, copy: Path, policy: BackupPolicy) -> Path | None:
    """Replace the database with a copy; return where the old one is now, None when there was none."""
    with translate_errors(path), one_at_a_time(policy.backups):
        if problem := find_restore_problem(copy):
            raise StoreCorrupt(f"{copy.name} cannot be restored: {problem}. Nothing was changed.")
        if path.exists() and path.stat().st_size and not find_damage(path, thorough=True):
            return _exchange(path, copy, policy)
        there = any(file.exists() for file in (path, *siblings(path)))
        aside = move_aside(path, policy.backups) if there else None
        _lower_counter(path, copy)
        put_in_place(copy, path)
        return aside


def _exchange(path: Path, copy: Path, policy: BackupPolicy) -> Path:
    replaced = policy.backups / f"replaced-{stamp()}.db"
    with only_user(path, policy) as connection, closing(sqlite3.connect(copy, isolation_level=None)) as source:
        write_copy(connection, replaced)
        _lower_counter(path, copy)
        # Written into the file instead of replacing it: whoever opens it now waits, and then finds the copy.
        source.backup(connection)
        record_going_back(connection)
    return replaced


@contextmanager
def only_user(path: Path, policy: BackupPolicy) -> Iterator[sqlite3.Connection]:
    """Keep others from opening the file. Raises StoreUnavailable when somebody has it open."""
    with closing(sqlite3.connect(path, timeout=policy.busy_timeout_seconds, isolation_level=None)) as connection:
        # Set before the log is first read, this fails if any other process has the file open.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
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
        connection.execute("PRAGMA synchronous = FULL")
        yield connection


def _lower_counter(path: Path, copy: Path) -> None:
    """Lower the commit count before the copy is in place: a count that is ahead would mean lost commits."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        commits = int(connection.execute("SELECT value FROM meta WHERE name = 'commits'").fetchone()[0])
    with closing(CommitCounter(path)) as counter:
        counter.write(commits)
