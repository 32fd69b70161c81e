"""Accepted messages: store them, choose the turn each one belongs to, and claim them for turns."""

from dataclasses import dataclass
from typing import Literal, cast

from gateway.clock import now_ms
from gateway.messages import Address, InboundMessage, Kind, SessionKey
from gateway.store import trail
from gateway.store.db.connection import Row, Transaction
from gateway.store.tables import INBOX_WAITING
from gateway.store.trail import TrailEvent
from tools.content import Part, dump_parts, load_parts, text_of, words_of

BusyMode = Literal["steer", "interrupt", "queue", "collect"]
"""Whether a new message joins the running turn, ends it, or waits for a turn of its own or for a shared one."""

Speaker = tuple[str, str | None, str]
"""The sender's id, person and role. All owners are one person."""


def own_turn(tx: Transaction, message: InboundMessage, mode: BusyMode) -> int:
    """Return the number of the turn this message will get, shared with the rest of it; 0 to join whatever waits."""
    session_key = str(message.key)
    begun = _find_begun_turn(tx, message)
    if begun is not None:
        return begun
    if tx.one("SELECT 1 FROM turns WHERE session_key = ? AND state <> 'done'", session_key) is None:
        return 0
    last = _find_last_waiting(tx, session_key) if mode in ("interrupt", "collect") else None
    # The turn after an interruption is its sender's alone: other people's messages get turns of their own.
    if last is not None and (mode == "collect" or last[1] == message.sender.id):
        return last[0]
    return tx.count(
        """SELECT COALESCE(MAX(own_turn), 0) + 1 FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND state <> 'done'""",
        session_key,
    )


def is_rest(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether the sender has just begun a message here that is not complete yet."""
    return message.kind == "message" and _find_begun_turn(tx, message) is not None


def speakers(tx: Transaction, session_key: str) -> set[Speaker]:
    """Return the people who are being answered in a session or wait there."""
    rows = tx.all(
        """SELECT DISTINCT sender_id, person_id, role FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND state <> 'done' AND kind IN ('message', 'wake')""",
        session_key,
    )
    return {(row["sender_id"], row["person_id"], row["role"]) for row in rows}


def _find_begun_turn(tx: Transaction, message: InboundMessage) -> int | None:
    """Return the turn number of the incomplete message that its sender has begun."""
    row = tx.one(
        f"""SELECT own_turn FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND {INBOX_WAITING} AND kind = 'message' AND sender_id = ?
              AND not_before_ms > ? ORDER BY sent_ms DESC, id DESC LIMIT 1""",  # noqa: S608
        str(message.key),
        message.sender.id,
        now_ms(),
    )
    return int(row["own_turn"]) if row is not None else None


def _find_last_waiting(tx: Transaction, session_key: str) -> tuple[int, str] | None:
    """Return the turn number and the sender of the last waiting message."""
    row = tx.one(
        f"""SELECT own_turn, sender_id FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND {INBOX_WAITING} AND kind = 'message'
            ORDER BY sent_ms DESC, id DESC LIMIT 1""",  # noqa: S608
        session_key,
    )
    return (row["own_turn"], row["sender_id"]) if row is not None else None


FULL = "queue full"
TOO_FAST = "too fast"
STOPPING = "stopping already"
_LONGEST_WAIT_MS = 60_000  # for the rest of a message
_TOLD_AGAIN_MS = 60_000  # some of a flood are taken, one every few seconds: no reason to say it again each time
_NOTED = "'edit', 'deletion', 'reaction', 'process'"
_BEGINS = "'message', 'wake'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A message accepted into the inbox."""

    id: int
    key: SessionKey
    kind: Kind
    message_id: str
    sender_id: str
    sender_name: str
    person_id: str | None
    role: str  # at the time the message arrived
    parts: tuple[Part, ...]
    about: str = ""
    asked_ms: int = 0  # when its sender began to wait; 0 when nobody waits
    own_turn: int = 0  # messages with the same number share a turn

    @property
    def asks(self) -> bool:
        """Return whether it needs an answer, rather than only being noted."""
        return self.kind in ("message", "wake")

    @property
    def speaker(self) -> Speaker:
        return self.sender_id, self.person_id, self.role

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def said(self) -> str:
        return words_of(self.parts)

    @property
    def address(self) -> Address:
        """Return where to reply: `about` for buttons and process reports, since their ids are not messages."""
        is_a_message = self.kind not in ("button", "process", "wake")
        return self.key.reply_address(self.message_id if is_a_message else self.about)


def insert(
    tx: Transaction,
    message: InboundMessage,
    *,
    person_id: str | None,
    role: str = "member",
    refused: str = "",
    wait_ms: int = 0,
    busy: BusyMode = "queue",
) -> int | None:
    """Store a message and return its id, or None for a second copy.

    A message that arrives while a turn runs gets a turn of its own, or as `busy` says. Messages that wait before any
    turn begins are taken together, and so are the parts of an album or of a text that the sender's client has split.
    Refused messages are stored too, so that second copies are recognised. `wait_ms`: how long the session waits for
    more.
    """
    now = now_ms()
    values = _columns(message) | {
        "person_id": person_id,
        "role": role,
        "accepted_ms": now,
        "not_before_ms": now + wait_ms if wait_ms else 0,
        "own_turn": own_turn(tx, message, busy) if message.kind in ("message", "wake") else 0,
        "state": "done" if refused else "ready",
        "outcome": refused,
    }
    names, marks = ", ".join(values), ", ".join("?" for _ in values)
    row = tx.one(
        f"INSERT INTO inbox ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING RETURNING id",  # noqa: S608
        *values.values(),
    )
    if row is None:
        return None
    event = TrailEvent.ACCEPTED
    if refused:
        event = TrailEvent.REFUSED if refused in (FULL, TOO_FAST) else TrailEvent.NOTED
    trail.record(tx, event, inbox_id=row["id"], reason=refused, session=values["session_key"])
    return int(row["id"])


def get(tx: Transaction, inbox_id: int) -> Accepted:
    row = tx.one("SELECT * FROM inbox WHERE id = ?", inbox_id)
    assert row is not None
    return _accepted(row)


def count_waiting(tx: Transaction, session_key: str) -> int:
    return tx.count(
        f"""SELECT COUNT(*) FROM inbox INDEXED BY inbox_open
            WHERE session_key = ? AND {INBOX_WAITING} AND kind = 'message'""",  # noqa: S608
        session_key,
    )


def read_waiting_commands(tx: Transaction, session_key: str) -> list[str]:
    """Return the text of each waiting command and the data of each pressed button, oldest first."""
    rows = tx.all(
        f"""SELECT parts FROM inbox INDEXED BY inbox_open WHERE session_key = ? AND {INBOX_WAITING}
               AND kind IN ('command', 'button') ORDER BY id""",  # noqa: S608
        session_key,
    )
    return [words_of(load_parts(row["parts"])) for row in rows]


def count_all_waiting(tx: Transaction) -> int:
    """Count the messages that wait for an answer. Noted ones are left out: they wait for the next message."""
    return tx.count(
        f"""SELECT COUNT(*) FROM inbox INDEXED BY inbox_open
             WHERE {INBOX_WAITING} AND kind NOT IN ({_NOTED})"""  # noqa: S608
    )


def count_noted(tx: Transaction, session_key: str) -> int:
    """Count the edits, deletions and reactions that wait for the next turn."""
    return tx.count(
        f"""SELECT COUNT(*) FROM inbox INDEXED BY inbox_open
             WHERE session_key = ? AND {INBOX_WAITING} AND kind IN ({_NOTED})""",  # noqa: S608
        session_key,
    )


def was_refused_before(tx: Transaction, message: InboundMessage, why: str) -> bool:
    """Return whether the sender was told why since their last accepted message or, for TOO_FAST, within a minute."""
    sender_id = message.sender.id if why == TOO_FAST else ""
    refused = tx.all(
        f"""SELECT id, accepted_ms FROM inbox WHERE session_key = ? AND outcome = ? AND ? IN ('', sender_id)
               AND kind NOT IN ({_NOTED}) ORDER BY id DESC LIMIT 2""",  # noqa: S608
        str(message.key),
        why,
        sender_id,
    )
    if len(refused) < 2:  # the one being refused now is among them
        return False
    if why == TOO_FAST and refused[1]["accepted_ms"] > now_ms() - _TOLD_AGAIN_MS:
        return True
    taken = tx.count(
        """SELECT COUNT(*) FROM inbox
            WHERE session_key = ? AND id > ? AND kind = 'message' AND outcome NOT IN (?, ?)""",
        str(message.key),
        refused[1]["id"],
        FULL,
        TOO_FAST,
    )
    return taken == 0


def claim(tx: Transaction, turn_id: str) -> list[Accepted]:
    """Claim the messages of the next turn: the oldest waiting ones of a session in which nothing runs.

    A session's commands come before its messages, since one of them may be a stop. Edits and the like go along with the
    message after them, but begin no turn.
    """
    rows = tx.all(
        f"""WITH lane AS (
               SELECT session_key FROM inbox AS i INDEXED BY inbox_open WHERE {INBOX_WAITING}
                  AND kind IN ({_BEGINS})
                  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_key = i.session_key AND t.state <> 'done')
                  AND NOT EXISTS (SELECT 1 FROM inbox AS w INDEXED BY inbox_open WHERE w.session_key = i.session_key
                                     AND {INBOX_WAITING}
                                     AND (w.not_before_ms > ? OR w.kind IN ('command', 'button')))
                ORDER BY accepted_ms, id LIMIT 1),
           line AS (
               SELECT id, kind, own_turn, SUM(kind IN ({_BEGINS})) OVER ordered AS place,
                      SUM(own_turn) OVER ordered AS own_turns
                 FROM inbox INDEXED BY inbox_open WHERE session_key = (SELECT session_key FROM lane)
                  AND {INBOX_WAITING} AND kind IN ({_BEGINS}, {_NOTED})
               WINDOW ordered AS (ORDER BY sent_ms, id))
           UPDATE inbox SET state = 'running', turn_id = ?
            WHERE id IN (SELECT id FROM line WHERE place <= 1 OR own_turns = 0 OR NULLIF(own_turn, 0) =
                         (SELECT own_turn FROM line WHERE place = 1 AND kind IN ({_BEGINS})))
           RETURNING *""",  # noqa: S608
        now_ms(),
        turn_id,
    )
    return [_accepted(row) for row in sorted(rows, key=lambda row: (row["sent_ms"], row["id"]))]


def next_due_ms(tx: Transaction) -> int | None:
    """Return when the next session has waited long enough for the rest of a message."""
    row = tx.one(
        f"""SELECT MIN(not_before_ms) AS due FROM inbox INDEXED BY inbox_open
            WHERE {INBOX_WAITING} AND not_before_ms > ?""",  # noqa: S608
        now_ms(),
    )
    return row["due"] if row is not None else None


def after_crash(tx: Transaction) -> None:
    """Shorten waits for the rest of a message, in case the clock was set back."""
    tx.execute(
        f"""UPDATE inbox SET not_before_ms = MIN(not_before_ms - ?, ?)
            WHERE {INBOX_WAITING} AND not_before_ms > 0""",  # noqa: S608
        trail.clock_set_back_ms(tx),
        now_ms() + _LONGEST_WAIT_MS,
    )


def claim_command(tx: Transaction) -> Accepted | None:
    """Return the oldest waiting command or pressed button. They wait only for earlier ones."""
    row = tx.one(
        f"""SELECT * FROM inbox INDEXED BY inbox_open WHERE {INBOX_WAITING}
              AND kind IN ('command', 'button') ORDER BY id LIMIT 1"""  # noqa: S608
    )
    return _accepted(row) if row is not None else None


def read_turn(tx: Transaction, turn_id: str) -> list[Accepted]:
    return [_accepted(row) for row in tx.all("SELECT * FROM inbox WHERE turn_id = ? ORDER BY sent_ms, id", turn_id)]


def read_waiting_behind(tx: Transaction, turn_id: str) -> list[Accepted]:
    """Return the messages waiting behind a running turn, in order; none while it is being stopped, or a command or
    the rest of a message must come first."""
    rows = tx.all(
        """SELECT i.* FROM turns t JOIN inbox AS i INDEXED BY inbox_open ON i.session_key = t.session_key
            WHERE t.id = ? AND t.state <> 'done' AND t.stop_requested = 0 AND i.state <> 'done' AND i.state = 'ready'
            ORDER BY i.sent_ms, i.id""",
        turn_id,
    )
    now = now_ms()
    if any(row["kind"] in ("command", "button") or row["not_before_ms"] > now for row in rows):
        return []
    return [_accepted(row) for row in rows]


def rewrite_waiting(tx: Transaction, message: InboundMessage) -> bool:
    """Replace the text of a message that no turn has claimed yet; return False if it is too late."""
    return (
        tx.execute(
            """UPDATE inbox SET parts = ? WHERE account = ? AND chat = ? AND message_id = ? AND kind = 'message'
                  AND sender_id = ? AND state = 'ready'""",
            dump_parts(message.parts),
            message.key.account_name,
            message.key.chat,
            message.message_id,
            message.sender.id,
        )
        > 0
    )


def delete_waiting(tx: Transaction, message: InboundMessage) -> bool:
    """Delete a message that no turn has claimed yet; return False if it is too late."""
    rows = tx.all(
        """UPDATE inbox SET state = 'done', outcome = 'deleted' WHERE account = ? AND chat = ? AND message_id = ?
              AND kind = 'message' AND state = 'ready' RETURNING id""",
        message.key.account_name,
        message.key.chat,
        message.message_id,
    )
    for row in rows:
        trail.record(tx, TrailEvent.DELETED, inbox_id=row["id"])
    return bool(rows)


def is_outdated(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether this edit, deletion or reaction, or a later edit, was already stored."""
    return (
        tx.one(
            """SELECT 1 FROM inbox WHERE account = ? AND chat = ? AND message_id = ? AND kind = ? AND edited_ms >= ?
                LIMIT 1""",
            message.key.account_name,
            message.key.chat,
            message.message_id,
            message.kind,
            message.edited_ms,
        )
        is not None
    )


def drop_waiting(tx: Transaction, account: str, sender_id: str, outcome: TrailEvent) -> None:
    """End a person's messages that no turn has claimed yet."""
    for row in tx.all(
        f"""UPDATE inbox INDEXED BY inbox_open SET state = 'done', outcome = ?
            WHERE account = ? AND sender_id = ? AND {INBOX_WAITING} RETURNING id""",  # noqa: S608
        outcome,
        account,
        sender_id,
    ):
        trail.record(tx, outcome, inbox_id=row["id"])


def drop_waiting_in(tx: Transaction, account: str, chat: str, role: str, outcome: TrailEvent) -> None:
    """End the unclaimed messages of people of one role in a chat and its threads.

    Messages in a thread stay if the thread, or the channel around it, is allowed on its own.
    """
    for row in tx.all(
        f"""UPDATE inbox INDEXED BY inbox_open SET state = 'done', outcome = ?
            WHERE account = ? AND ? IN (chat, within) AND role = ? AND {INBOX_WAITING}
              AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.account = inbox.account AND c.allowed_ms IS NOT NULL
                                 AND c.chat IN (inbox.chat, inbox.within)) RETURNING id""",  # noqa: S608
        outcome,
        account,
        chat,
        role,
    ):
        trail.record(tx, outcome, inbox_id=row["id"])


def knows_subject(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether the message that an edit, a deletion or a reaction is about was accepted, or is ours."""
    # An edit has the id of the edited message; its `about` is the message that one replies to.
    subject = message.about if message.kind == "reaction" else message.message_id
    return (
        tx.one(
            """SELECT 1 FROM inbox WHERE account = ? AND chat = ? AND message_id = ?
                  AND kind IN ('message', 'command') AND outcome NOT IN (?, ?)
                UNION ALL SELECT 1 FROM outbox WHERE account = ? AND chat = ? AND receipt = ? LIMIT 1""",
            message.key.account_name,
            message.key.chat,
            subject,
            FULL,
            TOO_FAST,
            message.key.account_name,
            message.key.chat,
            subject,
        )
        is not None
    )


def set_parts(tx: Transaction, inbox_id: int, parts: tuple[Part, ...]) -> None:
    tx.execute("UPDATE inbox SET parts = ? WHERE id = ?", dump_parts(parts), inbox_id)


def finish(tx: Transaction, inbox_id: int, outcome: str) -> None:
    tx.execute("UPDATE inbox SET state = 'done', outcome = ? WHERE id = ?", outcome, inbox_id)


def key_of(row: Row) -> SessionKey:
    """Return the session key of a row that has the columns of a conversation."""
    platform, _, account = row["account"].partition("@")
    return SessionKey(
        platform=platform,
        account=account,
        kind=row["chat_kind"],
        chat=row["chat"],
        thread=row["thread"],
        user=row["user_id"],
        within=row["within"],
    )


def _columns(message: InboundMessage) -> dict[str, str | int]:
    return {
        "account": message.key.account_name,
        "chat": message.key.chat,
        "message_id": message.message_id,
        "kind": message.kind,
        "edited_ms": message.edited_ms,
        "thread": message.key.thread,
        "within": message.key.within,
        "session_key": str(message.key),
        "chat_kind": message.key.kind,
        "user_id": message.key.user,
        "sender_id": message.sender.id,
        "sender_name": message.sender.name,
        "parts": dump_parts(message.parts),
        "about": message.about,
        "sent_ms": message.sent_ms,
    }


def _accepted(row: Row) -> Accepted:
    return Accepted(
        id=row["id"],
        key=key_of(row),
        kind=cast(Kind, row["kind"]),
        message_id=row["message_id"],
        sender_id=row["sender_id"],
        sender_name=row["sender_name"],
        person_id=row["person_id"],
        role=row["role"],
        parts=load_parts(row["parts"]),
        about=row["about"],
        asked_ms=min(row["sent_ms"], row["accepted_ms"]) if row["kind"] != "wake" else 0,
        own_turn=row["own_turn"],
    )
