"""Delete rows that are old enough, as `tables.py` declares, and files that nothing refers to any more.

Rows are found on a snapshot and deleted in short transactions that check again: the writer is never held for long.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from gateway.clock import now_ms
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.tables import INBOX_OPEN, TABLES, Table
from hermes_config.settings import RetentionSettings
from tools.content import Media, load_parts

T = TypeVar("T")

BATCH_ROWS = 500

_DAY_MS = 86_400_000
_READ_ROWS = 2_000
_GRACE_MS = _DAY_MS  # a file is there before the row that refers to it
_HAS_FILE = "instr(parts, '\"sha256\"')"
_FILES_IN = {table.name: table.keep_days.time for table in TABLES if table.has_parts and table.keep_days}


async def delete_old_rows(db: Database, keep: RetentionSettings) -> dict[str, int]:
    """Delete rows that are too old; return their number by table, without tables that lost none."""
    gone: Counter[str] = Counter()
    for table in TABLES:
        for find, condition in _find_rules(table, keep):
            gone[table.name] += await _delete_all(db, table, find, condition)
    unused = {"turns": "TRUE"}  # rows that go when nothing refers to them any more
    if keep.messages_days:
        unused["sessions"] = f"updated_ms < {_cutoff(keep.messages_days)}"
    for name, condition in unused.items():
        [table] = [one for one in TABLES if one.name == name]
        find = f"SELECT id FROM {name} WHERE {condition} AND {table.deletable} LIMIT {BATCH_ROWS}"  # noqa: S608
        gone[name] = await _delete_all(db, table, find, condition)
    return {table: count for table, count in gone.items() if count}


async def delete_unused_files(db: Database, files: MediaFiles, *, media_days: int = 0) -> int:
    """Delete files that no row refers to, and those last used too long ago; return their number."""
    seen, last_used_ms = await references(db)
    known = await db.read(lambda tx: {row["sha256"]: row["created_ms"] for row in tx.all("SELECT * FROM media")})
    too_old_ms = _cutoff(media_days) if media_days else 1
    youngest_ms = now_ms() - _GRACE_MS
    unused = [
        sha256
        for sha256, created_ms in known.items()
        if created_ms < youngest_ms and last_used_ms.get(sha256, 0) < too_old_ms
    ]
    deleted = 0
    for batch in batches(unused):
        deleted += await delete_files(db, files, batch, seen=seen, before_ms=youngest_ms)
    used = last_used_ms.keys() | known.keys()
    return deleted + await asyncio.to_thread(files.remove_strays, used, before_ms=youngest_ms)


async def references(db: Database) -> tuple[dict[str, int], dict[str, int]]:
    """Return how far each table was read, and when each file, by its hash, was last referred to."""
    seen = dict.fromkeys(_FILES_IN, 0)
    last_used_ms: dict[str, int] = {}
    for table, time in _FILES_IN.items():
        query = f"""SELECT id, {time} AS at_ms, CASE WHEN {_HAS_FILE} THEN parts ELSE '[]' END AS parts
                      FROM {table} WHERE id > ? ORDER BY id LIMIT {_READ_ROWS}"""  # noqa: S608
        while rows := await db.read(lambda tx, query=query, after=seen[table]: tx.all(query, after)):  # type: ignore[misc]
            seen[table] = rows[-1]["id"]
            for row in rows:
                for sha256 in hashes_in(row["parts"]):
                    last_used_ms[sha256] = max(row["at_ms"], last_used_ms.get(sha256, 0))
    return seen, last_used_ms


async def delete_files(
    db: Database, files: MediaFiles, hashes: Iterable[str], *, seen: dict[str, int], before_ms: int
) -> int:
    """Delete the row and the file of each hash, unless it came into use after `seen`; return their number.

    The rows go first: an interruption between the two leaves stray files, never rows without a file.
    """

    def remove_files() -> None:
        for sha256 in gone:
            files.remove(sha256, before_ms=before_ms)

    gone = await db.write(partial(_delete_media_rows, hashes=hashes, seen=seen, before_ms=before_ms))
    await asyncio.to_thread(remove_files)
    return len(gone)


def delete_row(tx: Transaction, table: Table, key: str | int, condition: str = "TRUE") -> int:
    """Delete a row unless others still refer to it; return how many were deleted."""
    deletable = f"{table.name} WHERE {table.key} = ? AND {table.deletable} AND ({condition})"
    if table.before_delete:
        if not tx.exists(f"SELECT 1 FROM {deletable}", key):  # noqa: S608
            return 0
        for statement in table.before_delete:
            tx.execute(statement, key)
    return tx.execute(f"DELETE FROM {deletable}", key)  # noqa: S608


def delete_rows(tx: Transaction, table: Table, keys: Iterable[str | int], condition: str = "TRUE") -> int:
    return sum(delete_row(tx, table, key, condition) for key in keys)


def hashes_in(parts: str) -> set[str]:
    return {part.sha256 for part in load_parts(parts) if isinstance(part, Media) and part.sha256}


def batches(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    return (ids[start : start + BATCH_ROWS] for start in range(0, len(ids), BATCH_ROWS))


def _find_rules(table: Table, keep: RetentionSettings) -> Iterator[tuple[str, str]]:
    """Yield, for each rule of a table, a query for some old rows, and the condition that makes them old."""
    if (kept := table.keep_days) is None:
        return
    # The page shows its chats from inbox and outbox: there these rows are the conversation, and stay as long as it.
    is_page = "account = 'web'"
    days = {kept.when: getattr(keep, kept.days)}
    if kept.in_timeline:
        days = {
            f"{kept.when} AND NOT {is_page}": getattr(keep, kept.days),
            f"{kept.when} AND {is_page}": keep.messages_days,
        }
    for condition, limit in days.items():
        if limit:
            cutoff_ms = _cutoff(limit)
            old = f"{kept.time} < {cutoff_ms} AND ({condition})"
            # Row ids grow with time: reading stops at the first young row, however long the table is.
            young = f"SELECT rowid FROM {table.name} WHERE {kept.time} >= {cutoff_ms} ORDER BY rowid LIMIT 1"  # noqa: S608
            find = f"""SELECT {table.key} AS id FROM {table.name} WHERE {old} AND rowid < COALESCE(({young}), 1 << 62)
                        ORDER BY rowid LIMIT {BATCH_ROWS}"""  # noqa: S608
            yield find, old


async def _delete_all(db: Database, table: Table, find: str, condition: str) -> int:
    """Find and delete in batches until nothing is left, or nothing can be deleted."""
    deleted = 0
    while rows := await db.read(lambda tx: tx.all(find)):
        keys = [row["id"] for row in rows]
        gone = await db.write(partial(delete_rows, table=table, keys=keys, condition=condition))
        deleted += gone
        if not gone:
            break
    return deleted


def _delete_media_rows(tx: Transaction, *, hashes: Iterable[str], seen: dict[str, int], before_ms: int) -> list[str]:
    in_use: set[str] = set()
    for table, last in seen.items():
        # Waiting messages get their files only when their turn begins.
        waiting = f"OR {INBOX_OPEN}" if table == "inbox" else ""
        query = f"SELECT parts FROM {table} WHERE (id > ? {waiting}) AND {_HAS_FILE}"  # noqa: S608
        in_use.update(*(hashes_in(row["parts"]) for row in tx.all(query, last)))
    query = "DELETE FROM media WHERE sha256 = ? AND created_ms < ?"
    return [sha256 for sha256 in hashes if sha256 not in in_use and tx.execute(query, sha256, before_ms)]


def _cutoff(days: int) -> int:
    return now_ms() - days * _DAY_MS
