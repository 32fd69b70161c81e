"""The store's two verbs: `read` and `write`.

A unit of work is a plain function over a `Transaction`, so it cannot await anything while it holds the database. One
writer takes all waiting units to the database thread at once and commits them together: each succeeds or fails on its
own, and they share one fsync.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import aiosqlite
import structlog

from gateway.errors import GatewayError, StoreCorrupt, StoreUnavailable
from gateway.store.db.commit_counter import CommitCounter
from gateway.store.db.connection import Transaction, connect, translate_error

T = TypeVar("T")
Unit = Callable[[Transaction], T]

_READERS = 2
_MAX_BATCH = 1_000
_TICKS = 4
_RETRY_SECONDS = 0.5
_ROOM_BYTES = 1_000_000

log = structlog.get_logger()


class SqliteConnection(aiosqlite.Connection):
    """aiosqlite's connection and thread, with one more method.

    aiosqlite hops to its thread for every statement; we hop once for a whole piece of work.
    """

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return cast(T, await self._execute(work, self._conn))  # type: ignore[no-untyped-call]


async def _open(path: Path, *, busy_timeout_seconds: float, read_only: bool = False) -> SqliteConnection:
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


@dataclass(slots=True)
class _Waiting:
    unit: Unit[Any]
    future: asyncio.Future[Any]


class Database:
    """An open database, made by `open_database`. `close` first writes the waiting units."""

    def __init__(
        self, path: Path, writer: SqliteConnection, readers: Sequence[SqliteConnection], busy_timeout_seconds: float
    ):
        self.path = path
        self.problem = ""  # why the last write failed; empty when it did not
        self.is_damaged = False  # whether any read or write has met damage
        self._full = False  # whether it failed because the disk is full
        self._busy_timeout_seconds = busy_timeout_seconds
        self._writer = writer
        self._readers: asyncio.Queue[SqliteConnection] = asyncio.Queue()
        for reader in readers:
            self._readers.put_nowait(reader)
        self._counter = CommitCounter(path)
        self._reopened = 0
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._writing = asyncio.create_task(self._write_batches(), name="database writer")

    async def write(self, unit: Unit[T]) -> T:
        """Run the unit in a transaction and return after its commit.

        Raises StoreUnavailable when nothing could be written; an exception from the unit undoes that unit alone.
        """
        if self._closing:
            raise StoreUnavailable(f"{self.path.name} is closed.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(unit, future))
        self._wake.set()
        return await future

    async def write_when_possible(self, unit: Unit[T]) -> T:
        """Write, and retry while the store is unavailable: for work that is already accepted."""
        while True:
            try:
                return await self.write(unit)
            except StoreUnavailable:
                if self._closing:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)

    async def read(self, query: Unit[T]) -> T:
        """Run the query on one snapshot. Writing in it fails."""
        reader = await self._readers.get()
        try:
            return await reader.run(lambda connection: _on_snapshot(connection, query))
        except sqlite3.Error as error:
            failure = translate_error(error, self.path)
            self.is_damaged |= isinstance(failure, StoreCorrupt)
            raise failure or error from error
        finally:
            self._readers.put_nowait(reader)

    async def version(self) -> int:
        """Return a number that changes when another process has written; -1 while it is unknown."""
        # SQLite's count restarts with every connection: alone, it would miss a write during a reopening.
        reopened = self._reopened
        try:
            return (reopened << 32) + await self._writer.run(
                lambda connection: int(connection.execute("PRAGMA data_version").fetchone()[0])
            )
        except sqlite3.Error:
            return -1

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        await self._writing
        await self._writer.close()
        for _ in range(_READERS):
            reader = await self._readers.get()
            await reader.close()
        self._counter.close()

    async def _write_batches(self) -> None:
        while self._waiting or not self._closing:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                for _ in range(_TICKS):  # lets callers add their next units to the same commit
                    await asyncio.sleep(0)
                taken, self._waiting = self._waiting[:_MAX_BATCH], self._waiting[_MAX_BATCH:]
                await self._write_batch([waiting for waiting in taken if not waiting.future.done()])

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        units = [waiting.unit for waiting in batch]
        try:
            outcomes = await self._writer.run(lambda connection: _commit_together(connection, units, self._counter))
        except Exception as error:  # contained: without the writer, everybody would wait for ever
            if not isinstance(error, sqlite3.Error):
                log.exception("writing failed")
            failure = self._failed(error) if isinstance(error, sqlite3.Error) else error
            for waiting in batch:
                _settle(waiting.future, failure)
            await self._reopen()
        else:
            if self.problem and not self._is_still_full():
                log.info("store is back")
                self.problem = ""
            for waiting, outcome in zip(batch, outcomes, strict=True):
                _settle(waiting.future, outcome)

    def _failed(self, error: sqlite3.Error) -> GatewayError:
        failure = translate_error(error, self.path) or StoreCorrupt(f"{self.path.name}: {error}")
        self.is_damaged |= isinstance(failure, StoreCorrupt)
        if not self.problem:
            log.warning("store is unavailable", problem=str(failure))
        self.problem = str(failure)
        self._full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
        return failure

    def _is_still_full(self) -> bool:
        """Return whether the disk is still full: a small write may fit in the log while every message is refused."""
        if not self._full:
            return False
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            return False
        return disk.f_bavail * disk.f_frsize < _ROOM_BYTES

    async def _reopen(self) -> None:
        # A connection that was opened read-only, or lost its file, never recovers.
        try:
            fresh = await _open(self.path, busy_timeout_seconds=self._busy_timeout_seconds)
            old, self._writer = self._writer, fresh
            self._reopened += 1
            await old.close()
        except Exception:  # contained: without the writer, everybody would wait for ever
            log.exception("store not reopened")


async def open_database(path: Path, *, busy_timeout_seconds: float = 5.0) -> Database:
    """Open a database that `prepare` has made ready."""
    opened: list[SqliteConnection] = []
    try:
        for read_only in (False, *(True for _ in range(_READERS))):
            connection = await _open(path, busy_timeout_seconds=busy_timeout_seconds, read_only=read_only)
            opened.append(connection)
    except sqlite3.Error as error:
        for connection in opened:
            await connection.close()
        raise translate_error(error, path) or error from error
    return Database(path, opened[0], opened[1:], busy_timeout_seconds)


@dataclass(frozen=True, slots=True)
class _Done:
    value: Any


def _commit_together(
    connection: sqlite3.Connection, units: Sequence[Unit[Any]], counter: CommitCounter
) -> list[_Done | Exception]:
    connection.execute("BEGIN IMMEDIATE")
    before = connection.total_changes
    try:
        tx = Transaction(connection)
        outcomes = [tx.attempt(lambda unit=unit: _Done(unit(tx))) for unit in units]  # type: ignore[misc]
        if connection.total_changes == before:  # nothing changed: nothing to sync or count
            connection.execute("COMMIT")
            return outcomes
        counted = connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'commits' RETURNING value")
        commits = counted.fetchall()[0][0]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    try:
        counter.write(commits)
    except OSError as error:  # it may lag behind; a commit must not be reported as failed and so repeated
        log.warning("commit counter not written", problem=error.strerror)
    return outcomes


def _on_snapshot(connection: sqlite3.Connection, query: Unit[T]) -> T:
    connection.execute("BEGIN")
    try:
        return query(Transaction(connection))
    finally:
        if connection.in_transaction:  # SQLite rolls back by itself when reading fails
            connection.execute("ROLLBACK")


def _settle(future: asyncio.Future[Any], outcome: _Done | Exception) -> None:
    if future.done():  # the caller gave up waiting; the unit is written all the same
        return
    if isinstance(outcome, _Done):
        future.set_result(outcome.value)
    else:
        future.set_exception(outcome)
