"""What became of each message: written by the same units that do the work, so it cannot disagree with them."""

import json

from gateway.clock import now_ms
from gateway.store.connection import Transaction, Value

_REFUSALS_KEPT = 1_000


def record(
    tx: Transaction,
    event: str,
    *,
    inbox_id: int | None = None,
    turn_id: str | None = None,
    outbox_id: int | None = None,
    **detail: Value,
) -> None:
    """Detail holds names and numbers, never message text."""
    tx.execute(
        "INSERT INTO trail (at_ms, event, inbox_id, turn_id, outbox_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
        now_ms(),
        event,
        inbox_id,
        turn_id,
        outbox_id,
        json.dumps(detail),
    )


def record_refusal(tx: Transaction, *, account: str, chat: str, sender_id: str, reason: str) -> None:
    """Bounded, since anybody can cause these rows."""
    record(tx, "refused", account=account, chat=chat, sender=sender_id, reason=reason)
    tx.execute(
        """DELETE FROM trail WHERE event = 'refused' AND id <=
           (SELECT id FROM trail WHERE event = 'refused' ORDER BY id DESC LIMIT 1 OFFSET ?)""",
        _REFUSALS_KEPT,
    )
