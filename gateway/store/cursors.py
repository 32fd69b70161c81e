"""What a platform finds again when it connects: how far each of its streams was read."""

from gateway.messages import Cursor
from gateway.store.connection import Transaction


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
