"""Reversible changes of schema: rehearsed on a copy, then made in one transaction, with a copy kept from before.

The change is a transaction in the file; the copy does not replace the file. Another process may have the file open: it
would go on writing to the replaced file, into a log that has the name of the new one's. A transaction survives any kill
as all or nothing, and it includes whatever others committed since the copy was made.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import GatewayError, StoreUnavailable, UpgradeFailed
from gateway.store.db.backup import (
    BackupPolicy,
    before_changes,
    find_damage,
    find_restore_problem,
    forget_old_changes,
    keep_before_change,
    schema_of,
    vacuum_into,
)
from gateway.store.db.commit_counter import check_not_lost
from gateway.store.db.connection import connect, translate_error, translate_errors
from gateway.store.db.schema import (
    Lost,
    Unsound,
    check_not_newer,
    count_rows,
    example,
    find_losses,
    migrate,
    migrations,
    schema_version,
    undo,
    undo_scripts,
)
from gateway.store.search_index import index_is_damaged
from tools.content import in_bytes

_SPARE_BYTES = 1_000_000
_REHEARSAL = "rehearsal.partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    needed_bytes: int
    free_bytes: int

    @property
    def is_enough(self) -> bool:
        return self.needed_bytes <= self.free_bytes


def upgrade(connection: sqlite3.Connection, policy: BackupPolicy) -> None:
    """Bring a database to the newest schema. Raises UpgradeFailed or StoreUnavailable: then nothing was changed."""
    with one_at_a_time(policy.backups):
        if schema_version(connection) < (newest := max(migrations())):  # otherwise another process was faster
            rehearse(connection, policy, newest)
            change(connection, policy, newest)


def rehearse(connection: sqlite3.Connection, policy: BackupPolicy, to: int) -> list[Lost]:
    """Make the change on a copy and check that it is sound; return what it would lose. One at a time."""
    version, needed = schema_version(connection), room(connection, policy.backups)
    if not needed.is_enough:
        raise StoreUnavailable(
            f"Changing state.db from schema {version} to {to} needs {in_bytes(needed.needed_bytes)} "
            f"of room for copies in {policy.backups}, and there are {in_bytes(needed.free_bytes)}. Make room. "
            "Nothing was changed: the version of Hermes that used it so far goes on working."
        )
    copy = policy.backups / _REHEARSAL
    _remove_rehearsal(policy)  # a kill may have left one
    try:
        vacuum_into(connection, copy)
        with _report_failed_change(version, to):
            return _try(copy, policy, to)
    finally:
        _remove_rehearsal(policy)


def change(connection: sqlite3.Connection, policy: BackupPolicy, to: int) -> Path:
    """Make the rehearsed change; return the copy made before it. One at a time."""
    with _report_failed_change(schema_version(connection), to):
        kept = keep_before_change(connection, policy.backups, to=to)
        try:
            _apply(connection, to)
        except Exception:
            kept.unlink()  # nothing was changed; repeated failures would push out the copies worth keeping
            raise
    forget_old_changes(policy.backups, keep=policy.upgrade_backups_kept)
    return kept


def oldest_reachable(found: int) -> int:
    """Return the oldest schema to which there is a way back."""
    scripts = undo_scripts()
    while found in scripts:
        found -= 1
    return found


def room(connection: sqlite3.Connection, folder: Path) -> Room:
    """Return the room needed for one copy beside the file and a log that may grow as large as the file."""
    pages, page_bytes = (connection.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    disk = os.statvfs(folder)
    return Room(needed_bytes=2 * pages * page_bytes + _SPARE_BYTES, free_bytes=disk.f_bavail * disk.f_frsize)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time change the schema; others wait. The lock ends with its process."""
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _try(copy: Path, policy: BackupPolicy, to: int) -> list[Lost]:
    losses: list[Lost] = []
    with closing(connect(copy, busy_timeout_seconds=policy.busy_timeout_seconds)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # the copy is thrown away
        if to < schema_version(connection):
            undoes = [script for number, script in undo_scripts().items() if number > to]
            with example(script for number, script in sorted(migrations().items()) if number <= to) as older:
                losses = list(find_losses(connection, older, undoes))
        before, searchable = count_rows(connection).rows, not index_is_damaged(connection)
        _apply(connection, to)
        after = count_rows(connection).rows
        if searchable and index_is_damaged(connection):
            raise Unsound("the search index would be damaged")
    if damage := find_damage(copy, thorough=copy.stat().st_size <= policy.full_check_max_mb * 1_000_000):
        raise Unsound(damage)
    fewer = [Lost(table=name, count=rows - after.get(name, rows)) for name, rows in before.items()]
    return [lost for lost in (*losses, *fewer) if lost.count > 0]


def _apply(connection: sqlite3.Connection, to: int) -> None:
    if to < schema_version(connection):
        undo(connection, to)
    else:
        migrate(connection)


@contextmanager
def _report_failed_change(found: int, to: int) -> Iterator[None]:
    """Raise UpgradeFailed when the change itself fails; a disk that is full meanwhile says nothing about it."""
    try:
        yield
    except (Unsound, ValueError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and isinstance(translate_error(error, Path("state.db")), StoreUnavailable):
            raise
        raise UpgradeFailed(
            f"state.db cannot be brought from schema {found} to {to}: {error}. "
            "Nothing was changed: the version of Hermes that used it so far goes on working. Please report this."
        ) from error


def _remove_rehearsal(policy: BackupPolicy) -> None:
    for leftover in policy.backups.glob(f"{_REHEARSAL}*"):  # including SQLite's log files
        leftover.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePreview:
    schema: int
    newest: int  # known to this version
    problem: str  # why it cannot be used or upgraded; empty when it can
    room: Room | None  # disk space the upgrade needs; None when there is nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTarget:
    """The schemas to which a database can go back."""

    found: int
    oldest: int
    usual: int  # the schema before the last upgrade


def preview_upgrade(path: Path, policy: BackupPolicy) -> UpgradePreview:
    """Report what the next start would find and do."""
    newest = max(migrations())
    with translate_errors(path):
        damage = find_damage(path, thorough=True)
    if damage:
        problem = f"{path.name} is damaged ({damage}). Start the gateway: it restores the newest sound backup."
        return UpgradePreview(schema=0, newest=newest, problem=problem, room=None)
    problem, needed = "", None
    with _open_alone(path, policy) as connection:
        found = schema_version(connection)
        if found != newest:
            needed = room(connection, policy.backups)
            try:
                check_not_newer(connection, newest)
                rehearse(connection, policy, newest)
            except GatewayError as error:
                problem = str(error)
    return UpgradePreview(schema=found, newest=newest, problem=problem, room=needed)


def find_undo_target(path: Path, policy: BackupPolicy) -> UndoTarget:
    """Return the schemas it can go back to. Raises StoreTooNew when only a newer version can do it."""
    with _open_alone(path, policy) as connection:
        check_not_newer(connection, max(migrations()))
        found = schema_version(connection)
    oldest = oldest_reachable(found)
    kept = (schema_of(copy) for copy in before_changes(policy.backups) if not find_restore_problem(copy))
    usual = next((schema for schema in kept if oldest <= schema < found), found - 1)
    return UndoTarget(found=found, oldest=oldest, usual=usual)


def preview_losses(path: Path, policy: BackupPolicy, to: int) -> list[Lost]:
    """Return what going back would lose. Raises UpgradeFailed when it would not work."""
    with _open_alone(path, policy) as connection:
        return rehearse(connection, policy, to)


@contextmanager
def _open_alone(path: Path, policy: BackupPolicy) -> Iterator[sqlite3.Connection]:
    """Open the database while nobody else changes the schema. Raises StoreCorrupt when the file was emptied."""
    with translate_errors(path), one_at_a_time(policy.backups):
        check_not_lost(path)
        with closing(connect(path, busy_timeout_seconds=policy.busy_timeout_seconds)) as connection:
            yield connection
