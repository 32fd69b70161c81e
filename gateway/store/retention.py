"""Delete rows that are old enough, as `tables.py` declares, and files that nothing refers to any more.

Rows are found on a snapshot and deleted in short transactions that check again: the writer is never held for long.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gateway.clock import now_ms
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.tables import TABLES, Table
from tools.content import Media, load_parts

T = TypeVar("T")

BATCH_ROWS = 500

_DAY_MS = 86_400_000
_READ_ROWS = 2_000
_GRACE_MS = _DAY_MS  # a file is there before the row that refers to it
_FILES_IN = {table.name: table.keep_days.time for table in TABLES if table.has_parts and table.keep_days}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Days for which rows and files are kept; 0 means for ever."""

    messages_days: int = 0
    inbox_days: int = 90
    outbox_days: int = 90
    trail_days: int = 90
    overheard_days: int = 7
    pairing_days: int = 90
    spending_days: int = 400
    media_days: int = 0
    # Its chats are shown from inbox and outbox: there these rows are the conversation, and stay as long as it does.
    timeline_account: str = "web"


async def delete_old_rows(db: Database, keep: Retention) -> dict[str, int]:
    """Delete rows that are too old; return their number by table, without tables that lost none."""
    gone: Counter[str] = Counter()
    for rule in _rules(keep):
        gone[rule.table.name] += await _delete_all(db, partial(_find_old, rule=rule), partial(_delete_old, rule=rule))
    turns, sessions = (table for name in ("turns", "sessions") for table in TABLES if table.name == name)
    gone["turns"] = await _delete_all(db, partial(_find_unused, table=turns), partial(delete_row, table=turns))
    if keep.messages_days:
        old = f"updated_ms < {_cutoff(keep.messages_days)}"
        find = partial(_find_unused, table=sessions, condition=old)
        gone["sessions"] = await _delete_all(db, find, partial(delete_row, table=sessions))
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
    for table in _FILES_IN:
        while rows := await db.read(partial(_page, table=table, after=seen[table])):
            seen[table] = rows[-1][0]
            for _, at_ms, parts in rows:
                last_used_ms |= {sha256: max(at_ms, last_used_ms.get(sha256, 0)) for sha256 in hashes_in(parts)}
    return seen, last_used_ms


async def delete_files(
    db: Database, files: MediaFiles, hashes: Iterable[str], *, seen: dict[str, int], before_ms: int
) -> int:
    """Delete the row and the file of each hash, unless it came into use after `seen`; return their number.

    The rows go first: an interruption between the two leaves stray files, never rows without a file.
    """
    gone = await db.write(partial(_delete_media_rows, hashes=hashes, seen=seen, before_ms=before_ms))
    await asyncio.to_thread(_remove_each, files, gone, before_ms)
    return len(gone)


def delete_row(tx: Transaction, table: Table, key: str | int, condition: str = "TRUE") -> int:
    """Delete a row unless others still refer to it; return how many were deleted."""
    deletable = f"{table.key} = ? AND {table.deletable} AND ({condition})"
    if table.before_delete:
        if tx.one(f"SELECT 1 FROM {table.name} WHERE {deletable}", key) is None:  # noqa: S608
            return 0
        for statement in table.before_delete:
            tx.execute(statement, key)
    return tx.execute(f"DELETE FROM {table.name} WHERE {deletable}", key)  # noqa: S608


def hashes_in(parts: str) -> set[str]:
    return {part.sha256 for part in load_parts(parts) if isinstance(part, Media) and part.sha256}


def batches(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    return (ids[start : start + BATCH_ROWS] for start in range(0, len(ids), BATCH_ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    table: Table
    time: str
    condition: str
    before_ms: int


def _rules(keep: Retention) -> Iterator[_Rule]:
    is_page = f"account = '{keep.timeline_account}'"
    for table in TABLES:
        if (kept := table.keep_days) is None:
            continue
        days: int = getattr(keep, kept.days)
        by_condition = {kept.when: days}
        if kept.in_timeline:
            by_condition = {f"{kept.when} AND NOT {is_page}": days, f"{kept.when} AND {is_page}": keep.messages_days}
        for condition, limit in by_condition.items():
            if limit:
                before_ms = _cutoff(limit)
                old = f"{kept.time} < {before_ms} AND ({condition})"
                yield _Rule(table=table, time=kept.time, condition=old, before_ms=before_ms)


async def _delete_all(db: Database, find: Callable[[Transaction], list[T]], delete: Callable[..., int]) -> int:
    """Find and delete in batches until nothing is left, or nothing can be deleted."""
    deleted = 0
    while keys := await db.read(find):
        gone = await db.write(lambda tx, keys=keys: sum(delete(tx, key=key) for key in keys))  # type: ignore[misc]
        deleted += gone
        if not gone:
            break
    return deleted


def _find_old(tx: Transaction, *, rule: _Rule) -> list[str | int]:
    # Row ids grow with time: reading stops at the first young row, however long the table is.
    name = rule.table.name
    rows = tx.all(
        f"""SELECT id FROM {name} WHERE {rule.condition}
               AND rowid < COALESCE((SELECT rowid FROM {name} WHERE {rule.time} >= ? ORDER BY rowid LIMIT 1), 1 << 62)
             ORDER BY rowid LIMIT ?""",  # noqa: S608
        rule.before_ms,
        BATCH_ROWS,
    )
    return [row["id"] for row in rows]


def _delete_old(tx: Transaction, *, rule: _Rule, key: str | int) -> int:
    return delete_row(tx, rule.table, key, rule.condition)


def _find_unused(tx: Transaction, *, table: Table, condition: str = "TRUE") -> list[str]:
    query = f"SELECT id FROM {table.name} WHERE {condition} AND {table.deletable} LIMIT ?"  # noqa: S608
    return [row["id"] for row in tx.all(query, BATCH_ROWS)]


def _page(tx: Transaction, *, table: str, after: int) -> list[tuple[int, int, str]]:
    rows = tx.all(
        f"""SELECT id, {_FILES_IN[table]} AS at_ms,
                   CASE WHEN instr(parts, '"sha256"') THEN parts ELSE '[]' END AS parts
              FROM {table} WHERE id > ? ORDER BY id LIMIT ?""",  # noqa: S608
        after,
        _READ_ROWS,
    )
    return [(row["id"], row["at_ms"], row["parts"]) for row in rows]


def _delete_media_rows(tx: Transaction, *, hashes: Iterable[str], seen: dict[str, int], before_ms: int) -> list[str]:
    in_use = _used_since(tx, seen)
    return [
        sha256
        for sha256 in hashes
        if sha256 not in in_use
        and tx.execute("DELETE FROM media WHERE sha256 = ? AND created_ms < ?", sha256, before_ms)
    ]


def _remove_each(files: MediaFiles, hashes: Iterable[str], before_ms: int) -> None:
    for sha256 in hashes:
        files.remove(sha256, before_ms=before_ms)


def _used_since(tx: Transaction, seen: dict[str, int]) -> set[str]:
    used: set[str] = set()
    for table, last in seen.items():
        # Waiting messages get their files only when their turn begins.
        waiting = "OR state <> 'done'" if table == "inbox" else ""
        query = f"SELECT parts FROM {table} WHERE (id > ? {waiting}) AND instr(parts, '\"sha256\"')"  # noqa: S608
        for row in tx.all(query, last):
            used |= hashes_in(row["parts"])
    return used


def _cutoff(days: int) -> int:
    return now_ms() - days * _DAY_MS
