"""A message that finds a turn running in its session: which turn it will have, and among whom it waits."""

from typing import Literal

from gateway.clock import now_ms
from gateway.messages import InboundMessage
from gateway.store.connection import Transaction

BusyMode = Literal["steer", "interrupt", "queue", "collect"]
"""What such a message does: join the running turn, end it, wait for a turn of its own, or for one with the others."""

Speaker = tuple[str, str | None, str]
"""Who has said it, who that is, and with which role: all owners are one person."""


def own_turn(tx: Transaction, message: InboundMessage, mode: BusyMode) -> int:
    """Which of the turns to come is this message's own; 0: taken with whatever waits. The rest of a message has its."""
    session_key = str(message.key)
    begun = _own_turn_of_beginning(tx, message)
    if begun is not None:
        return begun
    if tx.one("SELECT 1 FROM turns WHERE session_key = ? AND state <> 'done'", session_key) is None:
        return 0
    last = _last_waiting(tx, session_key) if mode in ("interrupt", "collect") else None
    # After an interruption that is its sender's alone: what others say is for turns of theirs.
    if last is not None and (mode == "collect" or last[1] == message.sender.id):
        return last[0]
    return tx.count(
        """SELECT COALESCE(MAX(own_turn), 0) + 1 FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND state <> 'done'""",
        session_key,
    )


def is_rest(tx: Transaction, message: InboundMessage) -> bool:
    """Whether its sender has just begun to say something here that is not complete yet."""
    return message.kind == "message" and _own_turn_of_beginning(tx, message) is not None


def speakers(tx: Transaction, session_key: str) -> set[Speaker]:
    """Those who are being answered in a session, or wait there."""
    rows = tx.all(
        """SELECT DISTINCT sender_id, person_id, role FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND state <> 'done' AND kind IN ('message', 'wake')""",
        session_key,
    )
    return {(row["sender_id"], row["person_id"], row["role"]) for row in rows}


def _own_turn_of_beginning(tx: Transaction, message: InboundMessage) -> int | None:
    """Of what its sender has begun to say and not completed."""
    row = tx.one(
        """SELECT own_turn FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND state <> 'done' AND state = 'ready' AND kind = 'message' AND sender_id = ?
              AND not_before_ms > ? ORDER BY sent_ms DESC, id DESC LIMIT 1""",
        str(message.key),
        message.sender.id,
        now_ms(),
    )
    return int(row["own_turn"]) if row is not None else None


def _last_waiting(tx: Transaction, session_key: str) -> tuple[int, str] | None:
    """Of the last message in line, which turn is its own, and who sent it."""
    row = tx.one(
        """SELECT own_turn, sender_id FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND state <> 'done' AND state = 'ready' AND kind = 'message'
            ORDER BY sent_ms DESC, id DESC LIMIT 1""",
        session_key,
    )
    return (row["own_turn"], row["sender_id"]) if row is not None else None
