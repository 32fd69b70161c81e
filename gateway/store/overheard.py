"""What was said in an allowed chat, but not to us: the last few, until a message that is to us brings them along."""

from gateway.messages import InboundMessage
from gateway.store.connection import Transaction

_MAX_CHARS = 2_000


def add(tx: Transaction, message: InboundMessage, *, keep: int) -> None:
    key = str(message.key)
    tx.execute(
        """INSERT INTO overheard (session_key, account, sender_id, sender_name, message_id, text, sent_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING""",
        key,
        message.key.account_name,
        message.sender.id,
        message.sender.name,
        message.message_id,
        message.text[:_MAX_CHARS],
        message.sent_ms,
    )
    tx.execute(
        """DELETE FROM overheard WHERE session_key = ? AND id <=
           (SELECT id FROM overheard WHERE session_key = ? ORDER BY id DESC LIMIT 1 OFFSET ?)""",
        key,
        key,
        keep,
    )


def take(tx: Transaction, session_key: str) -> str:
    """A line for each, the oldest first; empty when nothing was overheard. They are not given twice."""
    rows = tx.all("SELECT * FROM overheard WHERE session_key = ? ORDER BY sent_ms, id", session_key)
    if rows:
        tx.execute("DELETE FROM overheard WHERE session_key = ?", session_key)
    return "\n".join(f"{row['sender_name'] or row['sender_id']}: {row['text']}" for row in rows)
