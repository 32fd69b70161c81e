"""Accepted messages: store them, choose the turn each one belongs to, and claim them for turns."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from gateway.clock import now_ms
from gateway.messages import Address, InboundMessage, Kind, SessionKey
from gateway.store import trail
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.tables import INBOX_OPEN, INBOX_WAITING, TURN_OPEN
from gateway.store.trail import TrailEvent
from tools.content import Part, dump_parts, load_parts, text_of, words_of

BusyMode = Literal["steer", "interrupt", "queue", "collect"]
"""Whether a new message joins the running turn, ends it, or waits for a turn of its own or for a shared one."""


class Outcome(StrEnum):
    """How a message and its turn ended, or why no turn took it. The values are in the database."""

    ANSWERED = "answered"
    FAILED = "failed"
    STOPPED = "stopped"
    GIVEN_UP = "given_up"
    SUPERSEDED = "superseded"
    RESTORED = "restored"
    # Ended while it waited.
    DELETED = "deleted"
    REVOKED = "revoked"
    CHAT_CLOSED = "chat closed"
    # Not taken: too many, or done with when it came in.
    FULL = "queue full"
    TOO_FAST = "too fast"
    STOPPING = "stopping already"
    INVITE = "an invite"
    DECISION = "a decision"
    REPLACED_TEXT = "replaced the text"
    TOOK_BACK = "took it back"


Speaker = tuple[str, str | None, str]
"""The sender's id, person and role. All owners are one person."""


def _own_turn(tx: Transaction, message: InboundMessage, mode: BusyMode, call: str) -> int:
    """Return the number of the turn this message will get, shared with the rest of it; 0 to join whatever waits."""
    session_key = str(message.key)
    if message.kind not in ("message", "wake"):
        return 0
    if call or message.key.is_of_program:
        return _next_turn(tx, session_key)
    begun = _find_begun_turn(tx, message)
    if begun is not None:
        return begun
    if not tx.exists(f"SELECT 1 FROM turns WHERE session_key = ? AND {TURN_OPEN}", session_key):  # noqa: S608
        return 0
    query = f"""SELECT own_turn, sender_id FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_WAITING} AND kind = 'message'
                 ORDER BY sent_ms DESC, id DESC LIMIT 1"""  # noqa: S608
    last = tx.one(query, session_key) if mode in ("interrupt", "collect") else None
    # The turn after an interruption is its sender's alone: other people's messages get turns of their own.
    if last is not None and (mode == "collect" or last["sender_id"] == message.sender.id):
        return int(last["own_turn"])
    return _next_turn(tx, session_key)


def _next_turn(tx: Transaction, session_key: str) -> int:
    query = f"""SELECT COALESCE(MAX(own_turn), 0) + 1 FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_OPEN}"""  # noqa: S608
    return tx.count(query, session_key)


def is_rest(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether the sender has just begun a message here that is not complete yet."""
    return message.kind == "message" and _find_begun_turn(tx, message) is not None


def speakers(tx: Transaction, session_key: str) -> set[Speaker]:
    """Return the people who are being answered in a session or wait there."""
    query = f"""SELECT DISTINCT sender_id, person_id, role FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_OPEN} AND kind IN ({_BEGINS})"""  # noqa: S608
    return {(row["sender_id"], row["person_id"], row["role"]) for row in tx.all(query, session_key)}


def _find_begun_turn(tx: Transaction, message: InboundMessage) -> int | None:
    """Return the turn number of the incomplete message that its sender has begun."""
    query = f"""SELECT own_turn FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_WAITING} AND kind = 'message' AND sender_id = ?
                   AND not_before_ms > ? ORDER BY sent_ms DESC, id DESC LIMIT 1"""  # noqa: S608
    return tx.value(query, str(message.key), message.sender.id, now_ms())


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
    def is_at_terminal(self) -> bool:
        """Return whether it was typed at the terminal, where nobody but the owner types."""
        return self.key.platform == "cli"

    @property
    def said(self) -> str:
        return words_of(self.parts)

    @property
    def address(self) -> Address:
        """Return where to reply: `about` for buttons, process reports and webhooks: their ids are not messages."""
        is_a_message = self.kind not in ("button", "process", "wake") and not self.key.webhook
        return self.key.reply_address(self.message_id if is_a_message else self.about)


def insert(
    tx: Transaction,
    message: InboundMessage,
    *,
    person_id: str | None,
    role: str = "member",
    refused: Outcome | None = None,
    wait_ms: int = 0,
    busy: BusyMode = "queue",
    call: str = "",
) -> int | None:
    """Store a message and return its id, or None for a second copy.

    A message that arrives while a turn runs gets a turn of its own, or as `busy` says. Messages that wait before any
    turn begins are taken together, and so are the parts of an album or of a text that the sender's client has split.
    Refused messages are stored too, so that second copies are recognised. `wait_ms`: how long the session waits for
    more. With a `call`, and from a program, it always has a turn of its own.
    """
    now, key = now_ms(), message.key
    inbox_id = tx.insert(
        "inbox",
        "DO NOTHING",
        account=key.account_name,
        chat=key.chat,
        message_id=message.message_id,
        kind=message.kind,
        edited_ms=message.edited_ms,
        thread=key.thread,
        within=key.within,
        session_key=str(key),
        chat_kind=key.kind,
        user_id=key.user,
        sender_id=message.sender.id,
        sender_name=message.sender.name,
        parts=dump_parts(message.parts),
        about=message.about,
        sent_ms=message.sent_ms,
        person_id=person_id,
        role=role,
        accepted_ms=now,
        not_before_ms=now + wait_ms if wait_ms else 0,
        own_turn=_own_turn(tx, message, busy, call),
        state="done" if refused else "ready",
        outcome=refused or "",
    )
    if inbox_id is None:
        return None
    if call:
        tx.insert("direct_calls", id=inbox_id, call=call, created_ms=now)
    event = TrailEvent.ACCEPTED
    if refused:
        event = TrailEvent.REFUSED if refused in (Outcome.FULL, Outcome.TOO_FAST) else TrailEvent.NOTED
    trail.record(tx, event, inbox_id=inbox_id, reason=refused or "", session=str(key))
    return inbox_id


def read_call(tx: Transaction, inbox_id: int) -> str:
    """Return the tool call that the turn of a message makes instead of asking the model: JSON, or empty."""
    return tx.value("SELECT call FROM direct_calls WHERE id = ?", inbox_id) or ""


def get(tx: Transaction, inbox_id: int) -> Accepted:
    [row] = tx.all("SELECT * FROM inbox WHERE id = ?", inbox_id)
    return _accepted(row)


def count_waiting(tx: Transaction, session_key: str) -> int:
    query = f"""SELECT COUNT(*) FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_WAITING} AND kind = 'message'"""  # noqa: S608
    return tx.count(query, session_key)


def read_waiting_commands(tx: Transaction, session_key: str) -> list[str]:
    """Return the text of each waiting command and the data of each pressed button, oldest first."""
    query = f"""SELECT parts FROM inbox INDEXED BY inbox_open WHERE session_key = ? AND {INBOX_WAITING}
                   AND kind IN ('command', 'button') ORDER BY id"""  # noqa: S608
    return [words_of(load_parts(row["parts"])) for row in tx.all(query, session_key)]


def count_noted(tx: Transaction, session_key: str) -> int:
    """Count the edits, deletions and reactions that wait for the next turn."""
    query = f"""SELECT COUNT(*) FROM inbox INDEXED BY inbox_open
                 WHERE session_key = ? AND {INBOX_WAITING} AND kind IN ({_NOTED})"""  # noqa: S608
    return tx.count(query, session_key)


def was_refused_before(tx: Transaction, message: InboundMessage, why: Outcome) -> bool:
    """Return whether the sender was told why since their last accepted message or, for TOO_FAST, within a minute."""
    query = f"""SELECT id, accepted_ms FROM inbox WHERE session_key = ? AND outcome = ? AND ? IN ('', sender_id)
                   AND kind NOT IN ({_NOTED}) ORDER BY id DESC LIMIT 2"""  # noqa: S608
    refused = tx.all(query, str(message.key), why, message.sender.id if why == Outcome.TOO_FAST else "")
    if len(refused) < 2:  # the one being refused now is among them
        return False
    if why == Outcome.TOO_FAST and refused[1]["accepted_ms"] > now_ms() - _TOLD_AGAIN_MS:
        return True
    query = "SELECT 1 FROM inbox WHERE session_key = ? AND id > ? AND kind = 'message' AND outcome NOT IN (?, ?)"
    return not tx.exists(query, str(message.key), refused[1]["id"], Outcome.FULL, Outcome.TOO_FAST)


def claim(tx: Transaction, turn_id: str) -> list[Accepted]:
    """Claim the messages of the next turn: the oldest waiting ones of a session in which nothing runs.

    A session's commands come before its messages, since one of them may be a stop. Edits and the like go along with the
    message after them, but begin no turn.
    """
    query = f"""WITH lane AS (
               SELECT session_key FROM inbox AS i INDEXED BY inbox_open WHERE {INBOX_WAITING}
                  AND kind IN ({_BEGINS})
                  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.session_key = i.session_key AND t.{TURN_OPEN})
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
           RETURNING *"""  # noqa: S608
    rows = tx.all(query, now_ms(), turn_id)
    return [_accepted(row) for row in sorted(rows, key=lambda row: (row["sent_ms"], row["id"]))]


def next_due_ms(tx: Transaction) -> int | None:
    """Return when the next session has waited long enough for the rest of a message."""
    query = f"""SELECT MIN(not_before_ms) AS due FROM inbox INDEXED BY inbox_open
                 WHERE {INBOX_WAITING} AND not_before_ms > ?"""  # noqa: S608
    return tx.value(query, now_ms())


def after_crash(tx: Transaction) -> None:
    """Shorten waits for the rest of a message, in case the clock was set back."""
    query = f"UPDATE inbox SET not_before_ms = MIN(not_before_ms - ?, ?) WHERE {INBOX_WAITING} AND not_before_ms > 0"  # noqa: S608
    tx.execute(query, trail.clock_set_back_ms(tx), now_ms() + _LONGEST_WAIT_MS)


def claim_command(tx: Transaction) -> Accepted | None:
    """Return the oldest waiting command or pressed button. They wait only for earlier ones, or as `defer` says."""
    query = f"""SELECT * FROM inbox INDEXED BY inbox_open WHERE {INBOX_WAITING}
                   AND kind IN ('command', 'button') AND not_before_ms <= ? ORDER BY id LIMIT 1"""  # noqa: S608
    row = tx.one(query, now_ms())
    return _accepted(row) if row is not None else None


def defer(tx: Transaction, inbox_id: int, wait_ms: int) -> None:
    """Let a command wait for something that is fetched meanwhile."""
    tx.execute("UPDATE inbox SET not_before_ms = ? WHERE id = ?", now_ms() + wait_ms, inbox_id)


def read_turn(tx: Transaction, turn_id: str) -> list[Accepted]:
    return [_accepted(row) for row in tx.all("SELECT * FROM inbox WHERE turn_id = ? ORDER BY sent_ms, id", turn_id)]


def read_asking(tx: Transaction, session_id: str) -> tuple[str, list[Accepted]]:
    """Return the turn that runs in a session and the messages that ask in it, at least one; neither when it is over."""
    # At the terminal no row says that a turn runs.
    query = """SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session_id
                WHERE t.session_id = ? AND (t.state <> 'done' OR s.platform = 'cli') ORDER BY t.rowid DESC LIMIT 1"""
    turn_id: str = tx.value(query, session_id) or ""
    asked = [message for message in read_turn(tx, turn_id) if message.asks]
    return (turn_id, asked) if asked else ("", [])


def read_waiting_behind(tx: Transaction, turn_id: str) -> list[Accepted]:
    """Return the messages waiting behind a running turn, in order; none while it is being stopped, or a command or
    the rest of a message must come first."""
    query = f"""SELECT * FROM inbox INDEXED BY inbox_open WHERE {INBOX_WAITING} AND session_key =
                (SELECT session_key FROM turns WHERE id = ? AND {TURN_OPEN} AND stop_requested = 0)
                 ORDER BY sent_ms, id"""  # noqa: S608
    rows = tx.all(query, turn_id)
    now = now_ms()
    if any(row["kind"] in ("command", "button") or row["not_before_ms"] > now for row in rows):
        return []
    return [_accepted(row) for row in rows]


def rewrite_waiting(tx: Transaction, message: InboundMessage) -> bool:
    """Replace the text of a message that no turn has claimed yet; return False if it is too late."""
    query = f"UPDATE inbox SET parts = ? WHERE {_SAME} AND kind = 'message' AND sender_id = ? AND {INBOX_WAITING}"  # noqa: S608
    return tx.execute(query, dump_parts(message.parts), *_same(message), message.sender.id) > 0


def delete_waiting(tx: Transaction, message: InboundMessage) -> bool:
    """Delete a message that no turn has claimed yet; return False if it is too late."""
    return _drop(tx, Outcome.DELETED, f"{_SAME} AND kind = 'message'", *_same(message)) > 0


def is_outdated(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether this edit, deletion or reaction, or a later edit, was already stored."""
    query = f"SELECT 1 FROM inbox WHERE {_SAME} AND kind = ? AND edited_ms >= ? LIMIT 1"  # noqa: S608
    return tx.exists(query, *_same(message), message.kind, message.edited_ms)


def drop_waiting(tx: Transaction, account: str, sender_id: str, outcome: Outcome) -> None:
    """End a person's messages that no turn has claimed yet."""
    _drop(tx, outcome, "account = ? AND sender_id = ?", account, sender_id)


def drop_waiting_in(tx: Transaction, account: str, chat: str, role: str, outcome: Outcome) -> None:
    """End the unclaimed messages of people of one role in a chat and its threads.

    Messages in a thread stay if the thread, or the channel around it, is allowed on its own.
    """
    condition = """account = ? AND ? IN (chat, within) AND role = ?
               AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.account = inbox.account AND c.allowed_ms IS NOT NULL
                                  AND c.chat IN (inbox.chat, inbox.within))"""
    _drop(tx, outcome, condition, account, chat, role)


def knows_subject(tx: Transaction, message: InboundMessage) -> bool:
    """Return whether the message that an edit, a deletion or a reaction is about was accepted, or is ours."""
    # An edit has the id of the edited message; its `about` is the message that one replies to.
    subject = message.about if message.kind == "reaction" else message.message_id
    query = """SELECT 1 FROM inbox WHERE account = ?1 AND chat = ?2 AND message_id = ?3
                  AND kind IN ('message', 'command') AND outcome NOT IN (?4, ?5)
               UNION ALL SELECT 1 FROM outbox WHERE account = ?1 AND chat = ?2 AND receipt = ?3 LIMIT 1"""
    return tx.exists(query, message.key.account_name, message.key.chat, subject, Outcome.FULL, Outcome.TOO_FAST)


def set_parts(tx: Transaction, inbox_id: int, parts: tuple[Part, ...]) -> None:
    tx.execute("UPDATE inbox SET parts = ? WHERE id = ?", dump_parts(parts), inbox_id)


def finish(tx: Transaction, inbox_id: int, outcome: Outcome) -> None:
    tx.execute("UPDATE inbox SET state = 'done', outcome = ? WHERE id = ?", outcome, inbox_id)


def key_of(row: Row) -> SessionKey:
    """Return the session key of the chat that a row is about."""
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


_SAME = "account = ? AND chat = ? AND message_id = ?"


def _same(message: InboundMessage) -> tuple[str, str, str]:
    """Return the values of `_SAME`: those of the message itself, or of the one that it edits or deletes."""
    return message.key.account_name, message.key.chat, message.message_id


def _drop(tx: Transaction, outcome: Outcome, condition: str, *values: str) -> int:
    """End the waiting messages that meet the condition; return how many there were."""
    query = f"""UPDATE inbox INDEXED BY inbox_open SET state = 'done', outcome = ?
                 WHERE {condition} AND {INBOX_WAITING} RETURNING id"""  # noqa: S608
    rows = tx.all(query, outcome, *values)
    for row in rows:
        trail.record(tx, TrailEvent(outcome), inbox_id=row["id"])
    return len(rows)


def _accepted(row: Row) -> Accepted:
    asked_ms = min(row["sent_ms"], row["accepted_ms"]) if row["kind"] != "wake" else 0
    key = _with_task(key_of(row), row["session_key"])
    return build(Accepted, row, key=key, parts=load_parts(row["parts"]), asked_ms=asked_ms)


def _with_task(key: SessionKey, session_key: str) -> SessionKey:
    """Return the key of a prompt in the background, which only the session's key tells from its chat."""
    task = session_key.removeprefix(f"{key}:b")
    return key if task == session_key else replace(key, task=task)
