"""Inspect the database from outside, without writing to it.

Imports little: commands that ask one question start with it.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from gateway.clock import now_ms
from gateway.store.db.commit_counter import check_not_lost
from gateway.store.db.connection import Transaction, translate_errors
from gateway.store.db.schema import check_not_newer, migrations, schema_version
from gateway.store.tables import (
    APPROVAL_WAITING,
    ASKING,
    INBOX_WAITING,
    OUTBOX_OPEN,
    PAIRING_PENDING,
    PROCESS_RUNNING,
    TURN_OPEN,
)

T = TypeVar("T")

_BUSY_SECONDS = 5.0


def peek(path: Path, query: Callable[[Transaction], T], otherwise: T) -> T:
    """Run one query without changing the database; return `otherwise` when there is none or its schema is older.

    Raises StoreTooNew or StoreUnavailable. Blocks.
    """
    if not is_there(path):
        return otherwise
    newest = max(migrations())
    with _read_only(path) as connection:
        check_not_newer(connection, newest)
        return query(Transaction(connection)) if schema_version(connection) == newest else otherwise


def has_older_schema(path: Path) -> bool:
    """Return whether the next start will upgrade the database. Blocks."""
    if not is_there(path):
        return False
    with _read_only(path) as connection:
        return schema_version(connection) < max(migrations())


def is_there(path: Path) -> bool:
    """Return whether there is a database. Raises StoreCorrupt when there was one."""
    check_not_lost(path)
    return path.exists() and path.stat().st_size > 0


@contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    with translate_errors(path):
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
        try:
            connection.row_factory = sqlite3.Row
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield connection
        finally:
            connection.close()


_COUNTED = {
    # Not edits and the like: they wait for the next message.
    "waiting": f"inbox INDEXED BY inbox_open WHERE {INBOX_WAITING} AND kind IN ({ASKING})",
    "running": f"turns WHERE {TURN_OPEN}",
    "undelivered": f"outbox INDEXED BY outbox_open WHERE {OUTBOX_OPEN}",
    "processes": f"processes WHERE {PROCESS_RUNNING}",
    "questions": f"approvals WHERE {APPROVAL_WAITING}",
    "jobs": "cron_jobs WHERE status = 'active'",
    "failing_jobs": "cron_jobs WHERE failures > 0 AND status <> 'completed'",
    "people": "identities WHERE paired_ms IS NOT NULL",
    "asking": f"pairing_requests WHERE {PAIRING_PENDING.replace('?', '{now_ms}')}",
}
NOTHING: dict[str, Any] = {**dict.fromkeys(_COUNTED, 0), "notices": []}


def read_counts(tx: Transaction) -> dict[str, Any]:
    """Count the work in hand and the people, and return the newest notices for the operator."""
    counts = {
        name: tx.count(f"SELECT COUNT(*) FROM {rows.format(now_ms=now_ms())}")  # noqa: S608
        for name, rows in _COUNTED.items()
    }
    notices = tx.all("SELECT id, at_ms, text FROM notices ORDER BY id DESC LIMIT 5")
    return {**counts, "notices": [dict(row) for row in notices]}
