"""Replies and notices: rows that delivery owns from the commit on, sent in order within a chat.

Queries for open rows name the index over the few open ones and use `OUTBOX_OPEN`, the condition of that index. Left to
itself, SQLite may choose an index over everything ever sent.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from gateway.clock import new_id, now_ms
from gateway.messages import Address, Choice, OutboundMessage, Receipt
from gateway.store import cron, trail
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.tables import OUTBOX_OPEN, OUTBOX_WAITING
from gateway.store.trail import TrailEvent
from tools.content import Part, Text, dump_parts, load_parts, loads_list

OutboxKind = Literal["answer", "notice"]
DEFAULT_AGE_LIMIT_MS = 24 * 3_600_000
LONGEST_WAIT_MS = 3_600_000  # before a retry
_RECEIPTS_LOOKED_AT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A row that delivery has claimed."""

    id: int
    kind: OutboxKind
    topic: str
    attempts: int
    doubts: int  # number of earlier attempts that may have arrived
    problem: str  # of the last attempt
    turn_id: str | None
    message: OutboundMessage

    @property
    def unsure(self) -> bool:
        return self.doubts > 0


def add(
    tx: Transaction,
    address: Address,
    parts: Sequence[Part],
    *,
    kind: OutboxKind = "answer",
    answers: Sequence[str] = (),
    topic: str = "",
    turn_id: str | None = None,
    notify: bool = True,
    choices: Sequence[Choice] = (),
    edits: str = "",
    replaces: str = "",
    age_limit_ms: int = DEFAULT_AGE_LIMIT_MS,
) -> int:
    now = now_ms()
    row_id = tx.insert(
        "outbox",
        key=new_id(),
        kind=kind,
        **asdict(address),
        answers=json.dumps(list(answers)),
        parts=dump_parts(parts),
        notify=notify,
        topic=topic,
        turn_id=turn_id,
        choices=_dump_choices(choices),
        edits=edits,
        replaces=replaces,
        state="ready",
        expires_ms=now + age_limit_ms,
        created_ms=now,
    )
    assert row_id is not None
    return row_id


def add_notice(
    tx: Transaction,
    address: Address,
    text: str,
    *,
    topic: str,
    turn_id: str | None = None,
    choices: Sequence[Choice] = (),
) -> int:
    """Add a one-line notice about the gateway itself. It is silent, so that nobody's phone rings."""
    parts = [Text(text=text)]
    return add(tx, address, parts, kind="notice", topic=topic, turn_id=turn_id, notify=False, choices=choices)


def notice_waits(tx: Transaction, address: Address, topic: str) -> bool:
    """Return whether a notice on this topic is already on its way to the chat."""
    query = f"""SELECT 1 FROM outbox INDEXED BY outbox_open
                 WHERE account = ? AND chat = ? AND topic = ? AND {OUTBOX_OPEN}"""  # noqa: S608
    return tx.exists(query, address.account, address.chat, topic)


def cancel(tx: Transaction, row_id: int) -> str:
    """Cancel a row that is no longer needed; return the platform's message id if it was already sent."""
    tx.execute("UPDATE outbox SET state = 'expired' WHERE id = ? AND state = 'ready'", row_id)
    return tx.value("SELECT receipt FROM outbox WHERE id = ? AND state = 'sent'", row_id) or ""


def is_receipt(tx: Transaction, row_id: int, message_id: str) -> bool:
    """Return whether this is the platform's message id of the row."""
    return tx.exists("SELECT 1 FROM outbox WHERE id = ? AND receipt = ? AND receipt <> ''", row_id, message_id)


def was_tried(tx: Transaction, row_id: int) -> bool:
    """Return whether sending was at least begun, so that people may have seen it."""
    return not tx.exists("SELECT 1 FROM outbox WHERE id = ? AND attempts = 0 AND piece = 0", row_id)


def after_crash(tx: Transaction) -> None:
    """Mark rows that were being sent when the last process died as unsure; shorten waits if the clock was set back."""
    query = f"UPDATE outbox SET not_before_ms = MIN(not_before_ms - ?, ?) WHERE {OUTBOX_OPEN} AND not_before_ms > 0"  # noqa: S608
    tx.execute(query, trail.clock_set_back_ms(tx), now_ms() + LONGEST_WAIT_MS)
    # A row whose draft is not known to be deleted was not sent yet.
    tx.execute(
        f"""UPDATE outbox INDEXED BY outbox_open SET state = CASE replaces WHEN '' THEN 'unsure' ELSE 'ready' END,
                  unsure = unsure + (replaces = '')
            WHERE {OUTBOX_OPEN} AND state = 'sending'"""  # noqa: S608
    )


def mark_draft_deleted(tx: Transaction, row_id: int) -> None:
    """Record that the draft is deleted: from here on the row may have been sent."""
    tx.execute("UPDATE outbox SET replaces = '' WHERE id = ?", row_id)


def claim(tx: Transaction, account: str, limit: int, resting: Collection[str] = ()) -> list[Outgoing]:
    """Claim the oldest due row of every chat in which nothing is being sent and that is not resting.

    A row whose first pieces have arrived comes before any other, since an older one may be requested again meanwhile.
    Rows with fewer attempts come first, so that unreachable chats do not delay the others.
    """
    # The cast: RETURNING columns have no type, so that SQLite would scan all turns for one.
    query = f"""
        UPDATE outbox SET attempts = attempts + 1, unsure = (state = 'unsure') * MAX(unsure, 1), state = 'sending'
         WHERE id IN (
            SELECT id FROM (SELECT COALESCE(MIN(id) FILTER (WHERE piece > 0), MIN(id)) AS id,
                                   SUM(state = 'sending') AS busy FROM outbox INDEXED BY outbox_open
                             WHERE account = ? AND {OUTBOX_OPEN} GROUP BY chat, thread)
             JOIN outbox USING (id) WHERE busy = 0 AND not_before_ms <= ?
              AND chat NOT IN (SELECT value FROM json_each(?)) ORDER BY attempts, id LIMIT ?)
        RETURNING *, EXISTS (SELECT 1 FROM turns WHERE id = CAST(outbox.turn_id AS TEXT)
                                AND outcome IN ('failed', 'given_up')) AS turn_failed"""  # noqa: S608
    rows = tx.all(query, account, now_ms(), json.dumps(list(resting)), limit)
    for row in rows:
        if row["attempts"] == 1 or row["unsure"]:
            trail.record(tx, TrailEvent.SENDING, outbox_id=row["id"], turn_id=row["turn_id"], attempt=row["attempts"])
    return [_outgoing(row, _last_receipt(tx, row) if row["unsure"] else "") for row in rows]


def _last_receipt(tx: Transaction, row: Row) -> str:
    """Return the last receipt in the row's chat: rows are sent in order, so this one can only have arrived after it."""
    if row["piece"]:
        return str(row["receipt"])
    query = """SELECT receipt FROM outbox WHERE account = ? AND chat = ? AND id < ? AND thread = ? AND receipt <> ''
                ORDER BY id DESC LIMIT ?"""
    before = tx.all(query, row["account"], row["chat"], row["id"], row["thread"], _RECEIPTS_LOOKED_AT)
    # Not simply the last one: a row that replaced an earlier message has that message's id.
    ids = [one["receipt"] for one in before if one["receipt"][0].isdigit()]
    return max(ids, key=lambda id_: (len(id_), id_), default="")


def reword(tx: Transaction, row_id: int, parts: Sequence[Part], choices: Sequence[Choice]) -> None:
    """Replace the text of a row never sent. A row sent in part must continue as it began."""
    query = "UPDATE outbox SET parts = ?, choices = ? WHERE id = ?"
    tx.execute(query, dump_parts(parts), _dump_choices(choices), row_id)


def next_due_ms(tx: Transaction, account: str) -> int | None:
    """Return when the next delayed row is due."""
    query = f"""SELECT MIN(not_before_ms) AS due FROM outbox INDEXED BY outbox_open
                 WHERE account = ? AND {OUTBOX_WAITING} AND not_before_ms > ?"""  # noqa: S608
    return tx.value(query, account, now_ms())


def mark_sent(tx: Transaction, row: Outgoing, receipt: Receipt) -> None:
    query = "UPDATE outbox SET state = 'sent', receipt = ?, sent_ms = ?, problem = '' WHERE id = ?"
    tx.execute(query, receipt.message_id, now_ms(), row.id)
    if row.topic == cron.TOPIC:
        cron.count_delivered(tx, row.id)
    trail.record(tx, TrailEvent.SENT, outbox_id=row.id, turn_id=row.turn_id, receipt=receipt.message_id)


def mark_piece_sent(tx: Transaction, row: Outgoing, receipt: Receipt, *, pause_ms: int = 0) -> None:
    """Record that a piece of a long message arrived; the next one, even after a crash, waits for the pause."""
    # Not `piece + 1`: after a commit that succeeded but was reported as failed, this runs a second time.
    query = """UPDATE outbox SET piece = ?, state = 'ready', attempts = 0, unsure = 0, problem = '', receipt = ?,
                      not_before_ms = ? WHERE id = ?"""
    not_before_ms = now_ms() + pause_ms if pause_ms else 0
    tx.execute(query, row.message.piece + 1, receipt.message_id, not_before_ms, row.id)
    trail.record(tx, TrailEvent.PIECE_SENT, outbox_id=row.id, turn_id=row.turn_id, receipt=receipt.message_id)


def send_again(tx: Transaction, key: str, *, account: str, chat: str) -> bool:
    """Send an answer in doubt again because somebody says it did not arrive; return False if it is not in doubt."""
    query = """UPDATE outbox SET state = 'ready', attempts = 0, unsure = 0, not_before_ms = 0, problem = '',
                      expires_ms = ? + (expires_ms - created_ms)
                WHERE key = ? AND account = ? AND chat = ? AND state = 'in_doubt' RETURNING id, turn_id"""
    rows = tx.all(query, now_ms(), key, account, chat)
    for row in rows:
        trail.record(tx, TrailEvent.ASKED_AGAIN, outbox_id=row["id"], turn_id=row["turn_id"])
    return bool(rows)


def is_known(tx: Transaction, key: str, *, account: str, chat: str) -> bool:
    """Return whether the row belongs to this chat."""
    return tx.exists("SELECT 1 FROM outbox WHERE key = ? AND account = ? AND chat = ?", key, account, chat)


def retry_at(tx: Transaction, row: Outgoing, at_ms: int, problem: str, *, unsure: bool, in_doubt: bool = False) -> None:
    """Schedule a retry. `unsure`: some attempt may have arrived; `in_doubt`: the last one may have."""
    query = "UPDATE outbox SET state = ?, unsure = unsure + ?, not_before_ms = ?, problem = ? WHERE id = ?"
    tx.execute(query, "unsure" if unsure else "ready", in_doubt, at_ms, problem, row.id)
    if problem != row.problem:  # an unreachable chat would fill the trail with the same line
        trail.record(tx, TrailEvent.POSTPONED, outbox_id=row.id, turn_id=row.turn_id, problem=problem)


def give_up(tx: Transaction, row: Outgoing, state: Literal["failed", "in_doubt"], problem: str) -> None:
    tx.execute("UPDATE outbox SET state = ?, problem = ? WHERE id = ?", state, problem, row.id)
    trail.record(tx, TrailEvent(state), outbox_id=row.id, turn_id=row.turn_id, problem=problem)
    if state == "failed" and (news := cron.count_undelivered(tx, row.id, problem)):
        notify_operator(tx, news)


def expire(tx: Transaction, account: str) -> int:
    """Drop rows that are too old to be wanted; the chat is told once, when it can be reached again."""
    query = f"""UPDATE outbox INDEXED BY outbox_open SET state = 'expired'
                 WHERE account = ? AND {OUTBOX_WAITING} AND expires_ms <= ? RETURNING *"""  # noqa: S608
    rows = tx.all(query, account, now_ms())
    for row in rows:
        trail.record(tx, TrailEvent.EXPIRED, outbox_id=row["id"], turn_id=row["turn_id"])
        if news := cron.count_undelivered(tx, row["id"], row["problem"] or "its chat could not be reached"):
            notify_operator(tx, news)
        address = build(Address, row)
        if row["kind"] == "answer" and not notice_waits(tx, address, "expired"):
            text = "An answer could not be delivered for a day and was dropped. Ask again if you still need it."
            add_notice(tx, address, text, topic="expired")
    return len(rows)


def make_due(tx: Transaction, account: str, chat: str) -> int:
    """Make the waiting rows of a chat due now, because it can be reached again."""
    query = f"""UPDATE outbox INDEXED BY outbox_open SET not_before_ms = 0
                 WHERE account = ? AND chat = ? AND {OUTBOX_WAITING} AND not_before_ms > 0"""  # noqa: S608
    return tx.execute(query, account, chat)


def _outgoing(row: Row, after: str) -> Outgoing:
    message = build(
        OutboundMessage,
        row,
        address=build(Address, row),
        parts=load_parts(row["parts"]),
        answers=loads_list(row["answers"]),
        notify=bool(row["notify"]),
        choices=load_choices(row["choices"]),
        failed=row["kind"] == "answer" and bool(row["turn_failed"]),
        after=after,
    )
    return build(Outgoing, row, doubts=row["unsure"], message=message)


def _dump_choices(choices: Sequence[Choice]) -> str:
    return json.dumps([[choice.label, choice.action] for choice in choices], ensure_ascii=False)


def load_choices(stored: str) -> tuple[Choice, ...]:
    """Parse choices and skip damaged ones, which must not block other rows."""
    pairs = (pair for pair in loads_list(stored) if isinstance(pair, list) and len(pair) == 2)
    return tuple(Choice(label=str(label), action=str(action)) for label, action in pairs)


_TOLD = "notices_told"  # name in `meta`: the id of the newest notice that an owner was told in a chat
_NEWS_MS = 24 * 3_600_000  # older notices are no longer worth telling


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    id: int
    at_ms: int
    text: str


def notify_operator(tx: Transaction, text: str) -> None:
    """Add a notice for the operator, unless the same was added within a day."""
    if tx.one("SELECT 1 FROM notices WHERE text = ? AND at_ms > ?", text, now_ms() - _NEWS_MS) is None:
        tx.execute("INSERT INTO notices (at_ms, text) VALUES (?, ?)", now_ms(), text)


def recent(tx: Transaction, *, limit: int = 5) -> list[Notice]:
    return tx.read_all(Notice, "SELECT * FROM notices ORDER BY id DESC LIMIT ?", limit)


def read_untold(tx: Transaction) -> list[Notice]:
    """Return the last day's notices that no owner was told in a chat, oldest first."""
    query = """SELECT * FROM notices WHERE at_ms > ? AND id > COALESCE((SELECT value FROM meta WHERE name = ?), 0)
                ORDER BY id"""
    return tx.read_all(Notice, query, now_ms() - _NEWS_MS, _TOLD)


def mark_told(tx: Transaction, notice: Notice) -> None:
    tx.insert("meta", "(name) DO UPDATE SET value = excluded.value", name=_TOLD, value=notice.id)
