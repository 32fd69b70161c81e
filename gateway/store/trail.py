"""Record each step in the life of a message, in the units that do the work, so that it cannot disagree with them."""

import json
from enum import StrEnum

from gateway.clock import now_ms
from gateway.store.db.connection import Transaction, Value

_REFUSALS_KEPT = 1_000
_TIDIED_EVERY = 64  # rows: finding the oldest one to keep costs more than writing a row


class TrailEvent(StrEnum):
    """A step of a message, a turn or a reply, or a change of who may speak. The values are in the database."""

    # A message on its way in.
    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOTED = "noted"
    DELETED = "deleted"
    CHAT_CLOSED = "chat closed"
    REVOKED = "revoked"
    # A turn.
    CLAIMED = "claimed"
    JOINED = "joined"
    OPENED = "opened"
    RESUMED = "resumed"
    PAUSED = "paused"
    MODEL_REPLIED = "model_replied"
    TOOL_STARTED = "tool_started"
    TOOL_FINISHED = "tool_finished"
    COMPACTED = "compacted"
    MEMORY_CHANGED = "memory_changed"
    MESSAGE_QUEUED = "message_queued"
    DRAFT_SHOWN = "draft_shown"
    DELEGATED = "delegated"
    DELEGATION_ENDED = "delegation ended"
    # How a message or its turn ended.
    ANSWERED = "answered"
    STOPPED = "stopped"
    GIVEN_UP = "given_up"
    SUPERSEDED = "superseded"
    RESTORED = "restored"
    # A reply on its way out; `failed` is also how a turn ends.
    SENDING = "sending"
    PIECE_SENT = "piece_sent"
    SENT = "sent"
    POSTPONED = "postponed"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"
    EXPIRED = "expired"
    ASKED_AGAIN = "asked_again"
    # Decisions.
    APPROVAL_ASKED = "approval_asked"
    APPROVAL_APPROVED = "approval_approved"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    APPROVAL_WITHDRAWN = "approval_withdrawn"
    APPROVAL_FORGED = "approval_forged"
    RULE_GRANTED = "rule_granted"
    RULE_REVOKED = "rule_revoked"
    # Conversations and background processes.
    SESSION_BEGUN = "session begun"
    SESSION_ENDED = "session ended"
    PROCESS_ENDED = "process ended"
    # Who may speak.
    PAIRING_ASKED = "pairing asked"
    PAIRING_APPROVED = "pairing approved"
    PAIRING_CLEARED = "pairing cleared"
    PAIRING_UNLOCKED = "pairing unlocked"
    APPROVAL_FAILED = "approval failed"
    INVITED = "invited"
    INVITE_USED = "invite used"
    INVITE_CLEARED = "invite cleared"
    CHAT_ALLOWED = "chat allowed"
    HOME_SET = "home set"


def record(
    tx: Transaction,
    event: TrailEvent,
    *,
    inbox_id: int | None = None,
    turn_id: str | None = None,
    outbox_id: int | None = None,
    **detail: Value,
) -> None:
    """Record a step. Detail holds names and numbers, never message text; None is left out."""
    known = json.dumps({name: value for name, value in detail.items() if value is not None})
    row = {"inbox_id": inbox_id, "turn_id": turn_id, "outbox_id": outbox_id}
    tx.insert("trail", at_ms=now_ms(), event=event, detail=known, **row)


def clock_set_back_ms(tx: Transaction) -> int:
    """Return how far the clock is behind the newest recorded step; 0 when it is not."""
    return max(tx.count("SELECT at_ms FROM trail WHERE id = (SELECT MAX(id) FROM trail)") - now_ms(), 0)


def record_refusal(
    tx: Transaction, *, account: str, chat: str, sender_id: str, reason: str, message_id: str = ""
) -> None:
    """Record a refused message. Only the newest are kept, since anybody can cause these rows."""
    before = _last_refusal(tx)
    record(tx, TrailEvent.REFUSED, account=account, chat=chat, message=message_id, sender=sender_id, reason=reason)
    if before // _TIDIED_EVERY == _last_refusal(tx) // _TIDIED_EVERY:
        return
    # Refusals with an inbox row are about known people: strangers must not push them out.
    query = """DELETE FROM trail WHERE event = 'refused' AND inbox_id IS NULL AND id <=
               (SELECT id FROM trail WHERE event = 'refused' AND inbox_id IS NULL ORDER BY id DESC LIMIT 1 OFFSET ?)"""
    tx.execute(query, _REFUSALS_KEPT)


def _last_refusal(tx: Transaction) -> int:
    return tx.count("SELECT COALESCE(MAX(id), 0) FROM trail WHERE event = 'refused'")
