"""Messages that were accepted: who waits, who is next. Order lives here, in `claim`.

Queries for open rows say `state <> 'done'` in these words: only then does SQLite use the index over the few
open ones instead of reading every message ever accepted.
"""

from dataclasses import dataclass
from typing import cast

from gateway.clock import now_ms
from gateway.messages import Address, Cursor, InboundMessage, Kind, SessionKey
from gateway.store import trail
from gateway.store.connection import Row, Transaction
from tools.parts import Part, dump_parts, load_parts, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A row of the inbox."""

    id: int
    key: SessionKey
    kind: Kind
    message_id: str
    sender_id: str
    sender_name: str
    person_id: str | None
    role: str  # as access saw it when the message came
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def address(self) -> Address:
        return self.key.reply_address(self.message_id)


def insert(
    tx: Transaction, message: InboundMessage, *, person_id: str, role: str = "member", refused: str = ""
) -> int | None:
    """Writes a message down; gives its id, or None when it was seen before.

    A message that finds a turn running waits for a turn of its own; those that were waiting before any turn
    began are taken together. A refused one is kept too, so that a second copy is known as such.
    """
    session_key = str(message.key)
    row = tx.one(
        """INSERT INTO inbox (account, chat, message_id, kind, edited_ms, thread, session_key, chat_kind, user_id,
                              person_id, role, sender_id, sender_name, parts, sent_ms, accepted_ms, own_turn,
                              state, outcome)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
                   EXISTS (SELECT 1 FROM turns WHERE session_key = ? AND state <> 'done'), ?, ?)
           ON CONFLICT DO NOTHING RETURNING id""",
        message.key.account_name,
        message.key.chat,
        message.message_id,
        message.kind,
        message.edited_ms,
        message.key.thread,
        session_key,
        message.key.kind,
        message.key.user,
        person_id,
        role,
        message.sender.id,
        message.sender.name,
        dump_parts(message.parts),
        message.sent_ms,
        now_ms(),
        session_key,
        "done" if refused else "ready",
        refused,
    )
    if row is None:
        return None
    event = "refused" if refused else "accepted"
    trail.record(tx, event, inbox_id=row["id"], reason=refused, session=session_key)
    return int(row["id"])


def waiting(tx: Transaction, session_key: str) -> int:
    return tx.count(
        """SELECT COUNT(*) FROM inbox
            WHERE session_key = ? AND state <> 'done' AND state = 'ready' AND kind = 'message'""",
        session_key,
    )


def waiting_in_all(tx: Transaction) -> int:
    return tx.count("SELECT COUNT(*) FROM inbox WHERE state <> 'done' AND state = 'ready'")


def said_full_already(tx: Transaction, session_key: str, outcome: str) -> bool:
    """Whether a message was refused, and its sender told, since the last one that still found room."""
    refused = tx.count(
        """SELECT COUNT(*) FROM inbox WHERE session_key = ? AND outcome = ? AND id >
           (SELECT COALESCE(MAX(id), 0) FROM inbox WHERE session_key = ? AND outcome <> ? AND kind = 'message')""",
        session_key,
        outcome,
        session_key,
        outcome,
    )
    return refused > 1  # the one being refused now is among them


def claim(tx: Transaction, turn_id: str) -> list[Accepted]:
    """Takes what the next turn answers: the oldest waiting messages of a session in which nothing runs."""
    rows = tx.all(
        """WITH lane AS (
               SELECT session_key FROM inbox i WHERE state <> 'done' AND state = 'ready' AND kind = 'message'
                  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_key = i.session_key AND t.state <> 'done')
                ORDER BY accepted_ms, id LIMIT 1),
           line AS (
               SELECT id, ROW_NUMBER() OVER ordered AS place, SUM(own_turn) OVER ordered AS own_turns FROM inbox
                WHERE session_key = (SELECT session_key FROM lane)
                  AND state <> 'done' AND state = 'ready' AND kind = 'message'
               WINDOW ordered AS (ORDER BY sent_ms, id))
           UPDATE inbox SET state = 'running', turn_id = ?
            WHERE id IN (SELECT id FROM line WHERE place = 1 OR own_turns = 0)
           RETURNING *""",
        turn_id,
    )
    return [_accepted(row) for row in sorted(rows, key=lambda row: (row["sent_ms"], row["id"]))]


def claim_command(tx: Transaction) -> Accepted | None:
    """Commands wait for nothing but earlier commands."""
    row = tx.one(
        """SELECT * FROM inbox WHERE state <> 'done' AND state = 'ready' AND kind = 'command'
            ORDER BY +id LIMIT 1"""  # a plain id would be walked from the very first row on
    )
    return _accepted(row) if row is not None else None


def of_turn(tx: Transaction, turn_id: str) -> list[Accepted]:
    return [_accepted(row) for row in tx.all("SELECT * FROM inbox WHERE turn_id = ? ORDER BY sent_ms, id", turn_id)]


def set_parts(tx: Transaction, inbox_id: int, parts: tuple[Part, ...]) -> None:
    tx.execute("UPDATE inbox SET parts = ? WHERE id = ?", dump_parts(parts), inbox_id)


def finish(tx: Transaction, inbox_id: int, outcome: str) -> None:
    tx.execute("UPDATE inbox SET state = 'done', outcome = ? WHERE id = ?", outcome, inbox_id)


def cursor(tx: Transaction, account: str, channel: str) -> str:
    row = tx.one("SELECT value FROM cursors WHERE account = ? AND channel = ?", account, channel)
    return str(row["value"]) if row is not None else ""


def set_cursor(tx: Transaction, account: str, cursor: Cursor) -> None:
    tx.execute(
        """INSERT INTO cursors (account, channel, value) VALUES (?, ?, ?)
           ON CONFLICT (account, channel) DO UPDATE SET value = excluded.value""",
        account,
        cursor.channel,
        cursor.value,
    )


def _accepted(row: Row) -> Accepted:
    return Accepted(
        id=row["id"],
        key=_key(row),
        kind=cast(Kind, row["kind"]),
        message_id=row["message_id"],
        sender_id=row["sender_id"],
        sender_name=row["sender_name"],
        person_id=row["person_id"],
        role=row["role"],
        parts=load_parts(row["parts"]),
    )


def _key(row: Row) -> SessionKey:
    platform, _, account = row["account"].partition("@")
    return SessionKey(
        platform=platform,
        account=account,
        kind=row["chat_kind"],
        chat=row["chat"],
        thread=row["thread"],
        user=row["user_id"],
    )
