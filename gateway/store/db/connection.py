"""Open SQLite connections with our settings, and translate SQLite's errors into ours."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gateway.errors import GatewayError, StoreCorrupt, StoreUnavailable

T = TypeVar("T")
Row = sqlite3.Row
Value = str | int | float | bytes | None

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked by another process",
    sqlite3.SQLITE_PERM: "access is not permitted",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_IOERR: "reading or writing failed",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
}
_LOOK_AGAIN_SECONDS = 0.01
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class Transaction:
    """Runs the statements of one unit of work; a unit cannot await."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: Value) -> int:
        """Run a statement; return the number of rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def one(self, sql: str, *values: Value) -> Row | None:
        """Return the first row, or None. All rows are fetched, so a RETURNING statement has run to its end."""
        rows = self.all(sql, *values)
        return rows[0] if rows else None

    def all(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def attempt(self, part: Callable[[], T]) -> T | Exception:
        """Run a part of the unit that may fail on its own: its changes are then undone, and the error is returned."""
        self._connection.execute("SAVEPOINT part")
        try:
            outcome: T | Exception = part()
        except Exception as error:  # contained: it concerns only the caller of this part
            if is_of_the_file(error) or not self._connection.in_transaction:
                raise
            self._connection.execute("ROLLBACK TO part")
            outcome = error
        self._connection.execute("RELEASE part")
        return outcome

    def read_one(self, cls: type[T], sql: str, *values: Value) -> T | None:
        """Return the first row as `build` makes it, or None."""
        row = self.one(sql, *values)
        return build(cls, row) if row is not None else None

    def read_all(self, cls: type[T], sql: str, *values: Value) -> list[T]:
        return [build(cls, row) for row in self.all(sql, *values)]

    def value(self, sql: str, *values: Value) -> Any | None:
        """Return the first column of the first row, or None."""
        row = self.one(sql, *values)
        return row[0] if row is not None else None

    def count(self, sql: str, *values: Value) -> int:
        """Return the number in the first column of the first row; 0 without one."""
        return int(self.value(sql, *values) or 0)

    def exists(self, sql: str, *values: Value) -> bool:
        return self._connection.execute(sql, values).fetchone() is not None

    def insert(self, table: str, on_conflict: str = "", /, **values: Value) -> int | None:
        """Insert a row; return its row id, None when `on_conflict` (such as DO NOTHING) changed nothing."""
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        conflict = f" ON CONFLICT {on_conflict}" if on_conflict else ""
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks}){conflict}"  # noqa: S608
        inserted = self._connection.execute(sql, tuple(values.values()))
        return inserted.lastrowid if inserted.rowcount else None


def build(cls: type[T], row: Row, **more: Any) -> T:
    """Build a dataclass from the columns that are named like its fields; `more` wins over them."""
    columns = row.keys()
    names = (field.name for field in fields(cls) if field.name in columns)  # type: ignore[arg-type]
    return cls(**{name: row[name] for name in names} | more)


def connect(path: Path, *, busy_timeout_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout_seconds, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        # One damaged character must not make its row, and with it the whole inbox, unreadable.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        _use_write_ahead_log(connection, busy_timeout_seconds)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection, busy_timeout_seconds: float) -> None:
    # SQLite does not wait for this by itself: of two processes that open a new file at once, one would fail.
    deadline = time.monotonic() + busy_timeout_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise our errors for those of a failing database or disk."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path) or error from error
    except OSError as error:
        raise StoreUnavailable(f"{path.name} cannot be made ready: {error.strerror or error}.") from error


def is_of_the_file(error: Exception) -> bool:
    """Return whether an error concerns the database or its disk, and so the whole transaction."""
    return isinstance(error, sqlite3.Error) and translate_error(error, Path()) is not None


def translate_error(error: sqlite3.Error, path: Path) -> GatewayError | None:
    """Return our error for a failing database; None for a mistake in a statement, which is a bug."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT:
        return StoreCorrupt(f"{path.name} is damaged ({error}). Restart the gateway: it restores the newest backup.")
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"{path.name} cannot be used: {_UNAVAILABLE[code]} ({error}).")
    return None
