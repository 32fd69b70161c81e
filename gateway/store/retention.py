"""What is old enough to go: rows by kind and age, and files that nothing refers to any more.

Looking happens on a snapshot, deleting in short transactions that look again: the writer is never held for long.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from gateway.clock import now_ms
from gateway.store.db.connection import Transaction, Value
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from tools.content import Media, load_parts

T = TypeVar("T")

BATCH_ROWS = 500

_DAY_MS = 86_400_000
_READ_ROWS = 2_000
_GRACE_MS = _DAY_MS  # a file is there before the row that refers to it
_SHOWING_FILES = {"inbox": "accepted_ms", "messages": "created_ms", "outbox": "created_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """In days; 0 means for ever."""

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
    """Gives the number of rows that went, by table; nothing of tables that lost none."""
    gone: dict[str, int] = {}
    for rule in _rules(keep):
        gone[rule.table] = gone.get(rule.table, 0) + await _apply(db, rule)
    gone["turns"] = await _delete_all(db, _turns_without_messages, _delete_turn)
    if keep.messages_days:
        find = partial(_empty_sessions, before_ms=_cutoff(keep.messages_days))
        gone["sessions"] = await _delete_all(db, find, delete_session)
    return {table: count for table, count in gone.items() if count}


async def delete_unused_files(db: Database, files: MediaFiles, *, media_days: int = 0) -> int:
    """Files that no row refers to, and those that were last used too long ago; gives their number."""
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
    """How far each table was read, and by the hash of a file when a row last referred to it."""
    seen = dict.fromkeys(_SHOWING_FILES, 0)
    last_used_ms: dict[str, int] = {}
    for table in _SHOWING_FILES:
        while rows := await db.read(partial(_page, table=table, after=seen[table])):
            seen[table] = rows[-1][0]
            for _, at_ms, parts in rows:
                last_used_ms |= {sha256: max(at_ms, last_used_ms.get(sha256, 0)) for sha256 in hashes_in(parts)}
    return seen, last_used_ms


async def delete_files(
    db: Database, files: MediaFiles, hashes: Iterable[str], *, seen: dict[str, int], before_ms: int
) -> int:
    """Takes row and file of each, unless it has come into use since the tables were read so far; gives their number.

    The rows go first: what is cut off between the two leaves strays, never rows without a file.
    """
    gone = await db.write(partial(_delete_media_rows, hashes=hashes, seen=seen, before_ms=before_ms))
    await asyncio.to_thread(_remove_each, files, gone, before_ms)
    return len(gone)


def delete_session(tx: Transaction, session_id: str) -> int:
    """One that nothing but its own list and what was allowed in it refers to."""
    tx.execute("DELETE FROM todos WHERE task_id = ?", session_id)
    tx.execute("DELETE FROM approval_rules WHERE session_id = ?", session_id)
    tx.execute("UPDATE sessions SET parent_id = NULL WHERE parent_id = ?", session_id)
    return tx.execute("DELETE FROM sessions WHERE id = ?", session_id)


def detach_message(tx: Transaction, inbox_id: int) -> None:
    """The transcript outlives the row of the inbox, and still knows whose words these are."""
    tx.execute(
        """UPDATE messages SET person_id = (SELECT person_id FROM inbox WHERE id = ?), inbox_id = NULL
            WHERE inbox_id = ?""",
        inbox_id,
        inbox_id,
    )


def hashes_in(parts: str) -> set[str]:
    return {part.sha256 for part in load_parts(parts) if isinstance(part, Media) and part.sha256}


def batches(ids: Sequence[T]) -> Iterator[Sequence[T]]:
    return (ids[start : start + BATCH_ROWS] for start in range(0, len(ids), BATCH_ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    table: str
    time: str
    days: int
    condition: str = "TRUE"
    values: tuple[Value, ...] = ()  # of the condition


_DELIVERED = "state NOT IN ('ready', 'sending', 'unsure')"
_NOT_AT_WORK = "NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = messages.turn_id AND t.state <> 'done')"


def _rules(keep: Retention) -> list[_Rule]:
    page = (keep.timeline_account,)
    rules = [
        _Rule(table="trail", time="at_ms", days=keep.trail_days),
        _Rule(table="overheard", time="sent_ms", days=keep.overheard_days),
        _Rule(table="pairing_requests", time="expires_ms", days=keep.pairing_days),
        _Rule(table="pairing_invites", time="expires_ms", days=keep.pairing_days),
        _Rule(table="pairing_failures", time="at_ms", days=keep.pairing_days),
        _Rule(table="spending", time="at_ms", days=keep.spending_days, condition="settled"),
        _Rule(table="approvals", time="asked_ms", days=keep.trail_days, condition="state <> 'waiting'"),
        _Rule(table="messages", time="created_ms", days=keep.messages_days, condition=_NOT_AT_WORK),
    ]
    for table, time, days, over in (
        ("outbox", "created_ms", keep.outbox_days, _DELIVERED),
        ("inbox", "accepted_ms", keep.inbox_days, "state = 'done'"),
    ):
        rules.append(_Rule(table=table, time=time, days=days, condition=f"{over} AND account <> ?", values=page))
        rules.append(
            _Rule(table=table, time=time, days=keep.messages_days, condition=f"{over} AND account = ?", values=page)
        )
    return [rule for rule in rules if rule.days]


async def _apply(db: Database, rule: _Rule) -> int:
    before_ms = _cutoff(rule.days)
    find = partial(_old, rule=rule, before_ms=before_ms)
    return await _delete_all(db, find, partial(_delete_old, rule=rule, before_ms=before_ms))


async def _delete_all(
    db: Database, find: Callable[[Transaction], list[T]], delete: Callable[[Transaction, T], int]
) -> int:
    """Finds and deletes until there is nothing left, or nothing that would go."""
    deleted = 0
    while ids := await db.read(find):
        gone = await db.write(partial(_delete_each, ids=ids, delete=delete))
        deleted += gone
        if not gone:
            break
    return deleted


def _delete_each(tx: Transaction, ids: list[T], delete: Callable[[Transaction, T], int]) -> int:
    return sum(delete(tx, one) for one in ids)


def _old(tx: Transaction, *, rule: _Rule, before_ms: int) -> list[int]:
    # Ids grow with time: nothing beyond the first young row is read, however long the table is.
    rows = tx.all(
        f"""SELECT id FROM {rule.table} WHERE {rule.time} < ? AND ({rule.condition})
               AND id < COALESCE((SELECT id FROM {rule.table} WHERE {rule.time} >= ? ORDER BY id LIMIT 1), 1 << 62)
             ORDER BY id LIMIT ?""",  # noqa: S608
        before_ms,
        *rule.values,
        before_ms,
        BATCH_ROWS,
    )
    return [row["id"] for row in rows]


def _delete_old(tx: Transaction, row_id: int, *, rule: _Rule, before_ms: int) -> int:
    if rule.table == "inbox":
        detach_message(tx, row_id)
    return tx.execute(
        f"DELETE FROM {rule.table} WHERE id = ? AND {rule.time} < ? AND ({rule.condition})",  # noqa: S608
        row_id,
        before_ms,
        *rule.values,
    )


def _turns_without_messages(tx: Transaction) -> list[str]:
    rows = tx.all(
        """SELECT id FROM turns t WHERE state = 'done' AND NOT EXISTS (SELECT 1 FROM inbox WHERE turn_id = t.id)
            LIMIT ?""",
        BATCH_ROWS,
    )
    return [row["id"] for row in rows]


def _delete_turn(tx: Transaction, turn_id: str) -> int:
    return tx.execute("DELETE FROM turns WHERE id = ?", turn_id)


def _empty_sessions(tx: Transaction, *, before_ms: int) -> list[str]:
    rows = tx.all(
        """SELECT id FROM sessions s WHERE updated_ms < ? AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = s.id)
              AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id) LIMIT ?""",
        before_ms,
        BATCH_ROWS,
    )
    return [row["id"] for row in rows]


def _page(tx: Transaction, *, table: str, after: int) -> list[tuple[int, int, str]]:
    rows = tx.all(
        f"""SELECT id, {_SHOWING_FILES[table]} AS at_ms,
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
        # What waits in the inbox is given its files only when its turn comes.
        waiting = "OR state <> 'done'" if table == "inbox" else ""
        query = f"SELECT parts FROM {table} WHERE (id > ? {waiting}) AND instr(parts, '\"sha256\"')"  # noqa: S608
        for row in tx.all(query, last):
            used |= hashes_in(row["parts"])
    return used


def _cutoff(days: int) -> int:
    return now_ms() - days * _DAY_MS
