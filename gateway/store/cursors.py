"""How far each platform has read its streams, and since when that can be trusted."""

import sqlite3

from gateway.clock import now_ms
from gateway.messages import Cursor
from gateway.store.connection import Transaction

_WENT_BACK = "went_back_ms"  # in the table `meta`


def get(tx: Transaction, account: str, channel: str) -> str:
    """Empty when nothing was read yet."""
    row = tx.one("SELECT value FROM cursors WHERE account = ? AND channel = ?", account, channel)
    return str(row["value"]) if row is not None else ""


def all_of(tx: Transaction, account: str) -> dict[str, str]:
    rows = tx.all("SELECT channel, value FROM cursors WHERE account = ?", account)
    return {row["channel"]: row["value"] for row in rows}


def move(tx: Transaction, account: str, cursor: Cursor) -> None:
    tx.execute(
        """INSERT INTO cursors (account, channel, value) VALUES (?, ?, ?)
           ON CONFLICT (account, channel) DO UPDATE SET value = excluded.value""",
        account,
        cursor.channel,
        cursor.value,
    )


def record_going_back(connection: sqlite3.Connection) -> None:
    """Say that this database has lost commits just now: messages it does not know may have been answered already."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (_WENT_BACK, now_ms()),
    )


def went_back_ms(tx: Transaction) -> int:
    """Return when this database last lost commits; 0 if it never did."""
    return tx.count("SELECT value FROM meta WHERE name = ?", _WENT_BACK)
