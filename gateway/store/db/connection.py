"""One SQLite connection as we want it, and what its errors mean to us."""

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
    """What a unit of work may do: plain statements, no awaiting."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, *values: Value) -> int:
        """Runs a statement; gives the number of rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def one(self, sql: str, *values: Value) -> Row | None:
        """The first row, or None. All rows are fetched, so a RETURNING statement has run to its end."""
        rows = self.all(sql, *values)
        return rows[0] if rows else None

    def all(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def attempt(self, part: Callable[[], T]) -> T | Exception:
        """Runs a part of the unit that may fail without the rest: then nothing of it is kept, and the error given."""
        self._connection.execute("SAVEPOINT part")
        try:
            outcome: T | Exception = part()
        except sqlite3.Error:
            raise  # of the file, most likely, and then of the whole unit
        except Exception as error:  # noqa: BLE001 contained: it belongs to the part alone
            self._connection.execute("ROLLBACK TO part")
            outcome = error
        self._connection.execute("RELEASE part")
        return outcome

    def count(self, sql: str, *values: Value) -> int:
        row = self.one(sql, *values)
        return int(row[0]) if row is not None else 0


class SqliteConnection(aiosqlite.Connection):
    """aiosqlite's connection and thread, with one method more.

    aiosqlite hops to its thread for every statement; we hop once for a whole piece of work.
    """

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return cast(T, await self._execute(work, self._conn))  # type: ignore[no-untyped-call]


def connect(path: Path, *, busy_timeout_seconds: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout_seconds, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        # One damaged character must not make its row, and with it the whole inbox, impossible to read.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        _use_write_ahead_log(connection, busy_timeout_seconds)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection, busy_timeout_seconds: float) -> None:
    # For this SQLite does not wait by itself: of two who open a new file at once, one would fail.
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
        opening._thread.join()  # at its end already; left alone, it may report to a loop that is closed by then
        raise


@contextmanager
def errors_told(path: Path) -> Iterator[None]:
    """Raises ours for what a failing database or disk raises."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) or error from error
    except OSError as error:
        raise StoreUnavailable(f"{path.name} cannot be made ready: {error.strerror or error}.") from error


def translated(error: sqlite3.Error, path: Path) -> GatewayError | None:
    """Our error for a failing database; None for a mistake in a statement, which is a bug."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT:
        return StoreCorrupt(f"{path.name} is damaged ({error}). Restart the gateway: it restores the newest backup.")
    if code in _UNAVAILABLE:
        return StoreUnavailable(f"{path.name} cannot be used: {_UNAVAILABLE[code]} ({error}).")
    return None
