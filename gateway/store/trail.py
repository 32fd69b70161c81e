"""What became of each message: written by the same units that do the work, so it cannot disagree with them."""

import json

from gateway.clock import now_ms
from gateway.store.db.connection import Transaction, Value

_REFUSALS_KEPT = 1_000
_TIDIED_EVERY = 64  # rows: finding the oldest to keep costs more than writing one


def record(
    tx: Transaction,
    event: str,
    *,
    inbox_id: int | None = None,
    turn_id: str | None = None,
    outbox_id: int | None = None,
    **detail: Value,
) -> None:
    """Detail holds names and numbers, never message text; what is None is not known, and left out."""
    tx.execute(
        "INSERT INTO trail (at_ms, event, inbox_id, turn_id, outbox_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
        now_ms(),
        event,
        inbox_id,
        turn_id,
        outbox_id,
        json.dumps({name: value for name, value in detail.items() if value is not None}),
    )


def clock_set_back_ms(tx: Transaction) -> int:
    """Return how far the clock is behind the last thing written down; 0 when it is not."""
    row = tx.one("SELECT at_ms FROM trail WHERE id = (SELECT MAX(id) FROM trail)")
    return max(row["at_ms"] - now_ms(), 0) if row is not None else 0


def record_refusal(
    tx: Transaction, *, account: str, chat: str, sender_id: str, reason: str, message_id: str = ""
) -> None:
    """Bounded, since anybody can cause these rows."""
    before = _last_refusal(tx)
    record(tx, "refused", account=account, chat=chat, message=message_id, sender=sender_id, reason=reason)
    if before // _TIDIED_EVERY == _last_refusal(tx) // _TIDIED_EVERY:
        return
    # Those with an inbox row are about people we know, and no stranger may drive them out.
    tx.execute(
        """DELETE FROM trail WHERE event = 'refused' AND inbox_id IS NULL AND id <=
           (SELECT id FROM trail WHERE event = 'refused' AND inbox_id IS NULL ORDER BY id DESC LIMIT 1 OFFSET ?)""",
        _REFUSALS_KEPT,
    )


def _last_refusal(tx: Transaction) -> int:
    return tx.count("SELECT COALESCE(MAX(id), 0) FROM trail WHERE event = 'refused'")
