"""Open SQLite connections with our settings, and translate SQLite's errors into ours."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import aiosqlite

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
        except sqlite3.Error:
            raise  # probably concerns the file, and then the whole unit
        except Exception as error:  # noqa: BLE001 contained: it concerns only this part
            self._connection.execute("ROLLBACK TO part")
            outcome = error
        self._connection.execute("RELEASE part")
        return outcome

    def count(self, sql: str, *values: Value) -> int:
        row = self.one(sql, *values)
        return int(row[0]) if row is not None else 0


class SqliteConnection(aiosqlite.Connection):
    """aiosqlite's connection and thread, with one more method.

    aiosqlite hops to its thread for every statement; we hop once for a whole piece of work.
    """

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return cast(T, await self._execute(work, self._conn))  # type: ignore[no-untyped-call]


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


async def open_connection(path: Path, *, busy_timeout_seconds: float, read_only: bool = False) -> SqliteConnection:
    def connector() -> sqlite3.Connection:
        connection = connect(path, busy_timeout_seconds=busy_timeout_seconds)
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        return connection

    opening = SqliteConnection(connector, iter_chunk_size=64)
    try:
        return cast(SqliteConnection, await opening)
    except sqlite3.Error:
        opening._thread.join()  # already ending; without a join it may report to a closed loop
        raise


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise our errors for those of a failing database or disk."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate_error(error, path) or error from error
    except OSError as error:
        raise StoreUnavailable(f"{path.name} cannot be made ready: {error.strerror or error}.") from error


def translate_error(error: sqlite3.Error, path: Path) -> GatewayError | None:
    """Return our error for a failing database; None for a mistake in a statement, which is a bug."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT:
        return StoreCorrupt(f"{path.name} is damaged ({error}). Restart the gateway: it restores the newest backup.")
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"{path.name} cannot be used: {_UNAVAILABLE[code]} ({error}).")
    return None
