"""Inspect the database from outside, without writing to it: its health, and the people it knows."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from gateway.errors import StoreCorrupt
from gateway.store import approvals, outbox, pairing
from gateway.store.approvals import GrantedRule
from gateway.store.db.backup import find_damage
from gateway.store.db.commit_counter import check_not_lost
from gateway.store.db.connection import Transaction, translate_error
from gateway.store.db.schema import check_not_newer, migrations, schema_version
from gateway.store.outbox import Notice

T = TypeVar("T")

_BUSY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSummary:
    size_bytes: int
    access: pairing.Overview | None  # None for an older schema, which the next start upgrades
    open_chats: tuple[str, ...] = ()  # opened by an owner, as `account:chat`
    notices: tuple[Notice, ...] = ()
    rules: tuple[GrantedRule, ...] = ()  # granted: calls they cover run without asking


def inspect_store(path: Path, limits: pairing.PairingLimits) -> StoreSummary | None:
    """Summarise a checked database, None if missing. Raises StoreCorrupt, StoreTooNew or StoreUnavailable. Blocks."""
    if not path.exists() or not path.stat().st_size:
        check_not_lost(path)
        return None
    try:
        if damage := find_damage(path):
            raise StoreCorrupt(
                f"{path.name} is damaged ({damage}). Restart the gateway: it restores the newest backup."
            )
        with _read_only(path) as connection:
            return _summarise(connection, path, limits)
    except sqlite3.Error as error:
        raise translate_error(error, path) or error from error


def peek(path: Path, query: Callable[[Transaction], T], otherwise: T) -> T:
    """Run one query without changing the database; return `otherwise` when there is none or its schema is older.

    Raises StoreTooNew or StoreUnavailable. Blocks.
    """
    if not path.exists() or not path.stat().st_size:
        check_not_lost(path)
        return otherwise
    newest = max(migrations())
    try:
        with _read_only(path) as connection:
            check_not_newer(connection, newest)
            return query(Transaction(connection)) if schema_version(connection) == newest else otherwise
    except sqlite3.Error as error:
        raise translate_error(error, path) or error from error


def _summarise(connection: sqlite3.Connection, path: Path, limits: pairing.PairingLimits) -> StoreSummary:
    newest = max(migrations())
    check_not_newer(connection, newest)
    size_bytes = path.stat().st_size
    if schema_version(connection) < newest:
        return StoreSummary(size_bytes=size_bytes, access=None)
    tx = Transaction(connection)
    chats = tx.all("SELECT account, chat FROM chats WHERE allowed_ms IS NOT NULL ORDER BY account, chat")
    return StoreSummary(
        size_bytes=size_bytes,
        access=pairing.overview(tx, limits),
        open_chats=tuple(f"{row['account']}:{row['chat']}" for row in chats),
        notices=tuple(outbox.recent(tx)),
        rules=approvals.list_rules(tx),
    )


@contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_BUSY_SECONDS)
    try:
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield connection
    finally:
        connection.close()
