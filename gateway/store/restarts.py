"""A restart that somebody asked for: stored, so that the chat is told afterwards whatever happens in between."""

from gateway.store import inbox, outbox
from gateway.store.db.connection import Transaction

_REQUEST = "restart_for"  # holds the id of the inbox row that asked


def request(tx: Transaction, inbox_id: int) -> None:
    tx.insert("meta", "(name) DO UPDATE SET value = excluded.value", name=_REQUEST, value=inbox_id)


def is_requested(tx: Transaction) -> bool:
    return tx.exists("SELECT 1 FROM meta WHERE name = ?", _REQUEST)


def finish(tx: Transaction) -> None:
    """Close the request at the next start, and tell the chat that asked."""
    asked = tx.value("SELECT value FROM meta WHERE name = ?", _REQUEST)
    if asked is None:
        return
    if tx.exists("SELECT 1 FROM inbox WHERE id = ?", asked):  # it may have been erased since
        outbox.add_notice(tx, inbox.get(tx, asked).address, "I am back.", topic="restarted")
    tx.execute("DELETE FROM meta WHERE name = ?", _REQUEST)
