"""Read back the history of a message: its row, its turn, its trail, and the replies to it.

Never a message's text. To look up a message by an id that others know too, the chat must be given as well.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.store.db.connection import Row, Transaction
from gateway.store.processes import AT_TERMINAL
from gateway.store.tables import OUTBOX_OPEN
from gateway.store.trail import TrailEvent

_ASKING = "'message', 'wake', 'command', 'button'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of the trail."""

    at_ms: int
    event: str
    reply: int | None = None  # the outbox row, for a step of its delivery
    was_run: bool = True  # False for a call that ended without being started
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The turn that took the message."""

    id: str
    state: str
    outcome: str
    resumes: int
    stop_requested: bool
    started_ms: int
    tools: tuple[str, ...] = ()  # running now
    others: int = 0  # number of other messages that it answers
    waits_since_ms: int | None = None  # since when it waits for a human's decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A message that was sent because of the traced one, in its chat or elsewhere."""

    id: int
    kind: str
    account: str
    state: str
    attempts: int
    pieces: int  # number that arrived before the last one
    not_before_ms: int
    sent_ms: int | None
    receipt: str
    problem: str
    elsewhere: str = ""  # account and chat, if it was sent to another chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    id: int
    account: str
    chat: str
    message_id: str
    kind: str
    session_key: str
    user: str  # the member, where each member of a group has a conversation of their own
    state: str
    outcome: str
    sent_ms: int
    accepted_ms: int
    not_before_ms: int
    at_terminal: bool  # typed and answered there
    session_busy: bool  # a turn runs in it
    turn: Work | None
    replies: tuple[Reply, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMessage:
    """A message that was refused; its id is empty where it was not stored."""

    at_ms: int
    account: str
    chat: str
    message_id: str
    sender_id: str
    reason: str


def read(tx: Transaction, inbox_id: int) -> Trace:
    row = tx.one("SELECT * FROM inbox WHERE id = ?", inbox_id)
    assert row is not None
    trail = tx.all(
        """SELECT * FROM trail WHERE inbox_id = ?
            UNION SELECT * FROM trail WHERE turn_id = ? AND COALESCE(inbox_id, ?) = ? ORDER BY id""",
        inbox_id,
        row["turn_id"],
        inbox_id,
        inbox_id,
    )
    sent_elsewhere = {json.loads(one["detail"])["row"] for one in trail if one["event"] == TrailEvent.MESSAGE_QUEUED}
    said_here = {one["outbox_id"] for one in trail if one["outbox_id"] is not None}
    replies = _replies(tx, row, said_here | sent_elsewhere)
    first = next((one["id"] for one in trail if one["inbox_id"] is not None), 0)  # a message may join a running turn
    not_run = _find_not_run(trail)
    steps = [_step(one, was_run=one["id"] not in not_run) for one in trail if one["id"] >= first]
    steps = sorted((*steps, *_deliveries_without_turn(replies)), key=lambda step: step.at_ms)
    return Trace(
        id=row["id"],
        account=row["account"],
        chat=row["chat"],
        message_id=row["message_id"],
        kind=row["kind"],
        session_key=row["session_key"],
        user=row["user_id"],
        state=row["state"],
        outcome=row["outcome"],
        sent_ms=row["sent_ms"],
        accepted_ms=row["accepted_ms"],
        not_before_ms=row["not_before_ms"],
        at_terminal=row["account"] == AT_TERMINAL,
        session_busy=_is_busy(tx, row["session_key"]),
        turn=_work(tx, row["turn_id"], trail) if row["turn_id"] else None,
        replies=tuple(_reply(one, is_elsewhere=one["id"] in sent_elsewhere) for one in replies),
        steps=tuple(steps),
    )


def newest(tx: Transaction) -> int | None:
    """Return the newest message that needed an answer."""
    return _id(tx.one(f"SELECT id FROM inbox WHERE kind IN ({_ASKING}) ORDER BY id DESC LIMIT 1"))  # noqa: S608


def newest_message(tx: Transaction, session_key: str) -> int | None:
    """Return the newest message of a conversation, without commands."""
    query = "SELECT id FROM inbox WHERE session_key = ? AND kind = 'message' ORDER BY id DESC LIMIT 1"
    return _id(tx.one(query, session_key))


def find_message(tx: Transaction, account: str, chat: str, message_id: str) -> int | None:
    """Find a message by the platform's id of it, or of our answer."""
    own = tx.one(
        f"""SELECT id FROM inbox WHERE account = ? AND chat = ? AND message_id = ?
             ORDER BY kind IN ({_ASKING}) DESC, id DESC LIMIT 1""",  # noqa: S608
        account,
        chat,
        message_id,
    )
    if own is not None:
        return _id(own)
    ours = tx.all("SELECT * FROM outbox WHERE account = ? AND chat = ? AND receipt = ?", account, chat, message_id)
    ours += tx.all(
        """SELECT o.* FROM outbox o JOIN trail t ON t.turn_id = o.turn_id AND t.outbox_id = o.id
            WHERE o.account = ? AND o.chat = ? AND o.piece > 0 AND t.event = 'piece_sent'
              AND json_extract(t.detail, '$.receipt') = ?""",
        account,
        chat,
        message_id,
    )
    return next((found for row in reversed(ours) if (found := _find_asked(tx, row)) is not None), None)


def find(tx: Transaction, name: str) -> list[int]:
    """Find everything a name may mean, newest first: inbox:17, outbox:17, the number alone, a turn, a session's key,
    account:chat:message, or the platform's id of a message alone."""
    found: set[int | None] = {_of_turn(tx, name)}
    what, _, number = name.rpartition(":")
    if number.isdecimal() and len(number) < 19:  # row ids are never longer
        if what in ("", "inbox"):
            found.add(_id(tx.one("SELECT id FROM inbox WHERE id = ?", int(number))))
        elif what == "outbox" and (row := tx.one("SELECT * FROM outbox WHERE id = ?", int(number))):
            found |= {_find_asked(tx, row), _find_sender(tx, row)}
    query = f"SELECT id FROM inbox WHERE session_key = ? AND kind IN ({_ASKING}) ORDER BY id DESC LIMIT 1"  # noqa: S608
    found.add(_id(tx.one(query, name)))
    for place in _places(tx, name):
        found |= {find_message(tx, *place), _find_by_sent_elsewhere(tx, *place)}
    return sorted((one for one in found if one is not None), reverse=True)


def refusals(tx: Transaction, *, limit: int) -> list[RefusedMessage]:
    """Return refusals, newest first: strangers, and known people who wrote too fast."""
    rows = tx.all(
        """SELECT t.at_ms, t.detail, i.account, i.chat, i.message_id, i.sender_id
             FROM trail t LEFT JOIN inbox i ON i.id = t.inbox_id WHERE t.event = 'refused'
            ORDER BY t.id DESC LIMIT ?""",
        limit,
    )
    return [_refusal(row) for row in rows]


def refusal_of(tx: Transaction, account: str, chat: str, message_id: str) -> RefusedMessage | None:
    """Return the refusal of a message from somebody without access: nothing else is stored about it."""
    row = tx.one(
        """SELECT at_ms, detail, NULL AS account FROM trail WHERE event = 'refused' AND inbox_id IS NULL
              AND json_extract(detail, '$.account') = ? AND json_extract(detail, '$.chat') = ?
              AND json_extract(detail, '$.message') = ? ORDER BY id DESC LIMIT 1""",
        account,
        chat,
        message_id,
    )
    return _refusal(row) if row is not None else None


def was_overheard(tx: Transaction, account: str, chat: str, message_id: str) -> bool:
    """Return whether it was said in a group, not to us, and no later message has brought it along yet."""
    rows = tx.all("SELECT session_key FROM overheard WHERE account = ? AND message_id = ?", account, message_id)
    return any(chat in row["session_key"].split(":") for row in rows)


def _places(tx: Transaction, name: str) -> Iterable[tuple[str, str, str]]:
    match name.split(":", 2):
        case [account, chat, message_id]:
            yield account, chat, message_id
    rows = tx.all(
        """SELECT account, chat FROM inbox WHERE message_id = ? UNION SELECT account, chat FROM outbox WHERE receipt = ?
            UNION SELECT o.account, o.chat FROM outbox o JOIN trail t ON t.turn_id = o.turn_id AND t.outbox_id = o.id
                   WHERE o.piece > 0 AND t.event = 'piece_sent' AND json_extract(t.detail, '$.receipt') = ?""",
        name,
        name,
        name,
    )
    for row in rows:
        yield row["account"], row["chat"], name


def _find_asked(tx: Transaction, reply: Row) -> int | None:
    """Return the message that a reply answers."""
    if reply["turn_id"]:
        return _of_turn(tx, reply["turn_id"])
    query = f"""SELECT id FROM inbox WHERE account = ? AND chat = ? AND message_id = ? AND kind IN ({_ASKING})
                 ORDER BY id DESC LIMIT 1"""  # noqa: S608
    return _id(tx.one(query, reply["account"], reply["chat"], reply["reply_to"]))


def _find_by_sent_elsewhere(tx: Transaction, account: str, chat: str, message_id: str) -> int | None:
    """Find a message by the id of something it sent to another chat. Not for people who read it there."""
    rows = tx.all(
        """SELECT * FROM outbox o WHERE account = ? AND chat = ? AND turn_id IS NULL
              AND (receipt = ? OR piece > 0 AND EXISTS (SELECT 1 FROM trail t WHERE t.outbox_id = o.id
                   AND t.event = 'piece_sent' AND json_extract(t.detail, '$.receipt') = ?))""",
        account,
        chat,
        message_id,
        message_id,
    )
    return next((found for row in reversed(rows) if (found := _find_sender(tx, row)) is not None), None)


def _find_sender(tx: Transaction, sent: Row) -> int | None:
    """Return the message that sent something to another chat; only the trail of its turn knows."""
    query = "SELECT turn_id FROM trail WHERE event = 'message_queued' AND json_extract(detail, '$.row') = ?"
    row = tx.one(query, sent["id"]) if not sent["turn_id"] else None
    return _of_turn(tx, row["turn_id"]) if row is not None else None


def _of_turn(tx: Transaction, turn_id: str) -> int | None:
    """Return the last message of a turn: the one that is replied to."""
    query = (
        "SELECT id FROM inbox WHERE turn_id = ? AND kind IN ('message', 'wake') ORDER BY sent_ms DESC, id DESC LIMIT 1"
    )
    return _id(tx.one(query, turn_id))


def _replies(tx: Transaction, message: Row, ids: set[int]) -> list[Row]:
    """Return the replies that the trail names, and those not yet in it because they wait for their first attempt."""
    # Uses the index of open rows. With the account, SQLite would choose the one over everything ever sent there.
    waiting = tx.all(f"SELECT id FROM outbox WHERE {OUTBOX_OPEN} AND turn_id = ?", message["turn_id"])  # noqa: S608
    wanted = json.dumps(sorted(ids | {row["id"] for row in waiting}))
    return tx.all("SELECT * FROM outbox WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", wanted)


def _deliveries_without_turn(replies: Iterable[Row]) -> list[Step]:
    """Return the deliveries of replies without a turn (to commands, to other chats): no turn leads to their trail."""
    return [
        Step(at_ms=row["sent_ms"], event=TrailEvent.SENT, reply=row["id"], detail={"receipt": row["receipt"]})
        for row in replies
        if not row["turn_id"] and row["state"] == "sent"
    ]


def _is_busy(tx: Transaction, session_key: str) -> bool:
    return tx.one("SELECT 1 FROM turns WHERE session_key = ? AND state <> 'done'", session_key) is not None


def _work(tx: Transaction, turn_id: str, trail: Iterable[Row]) -> Work | None:
    row = tx.one("SELECT * FROM turns WHERE id = ?", turn_id)
    if row is None:
        return None
    return Work(
        id=row["id"],
        state=row["state"],
        outcome=row["outcome"],
        resumes=row["resumes"],
        stop_requested=bool(row["stop_requested"]),
        started_ms=row["started_ms"],
        tools=_running_tools(trail),
        others=tx.count("SELECT COUNT(*) - 1 FROM inbox WHERE turn_id = ? AND kind = 'message'", turn_id),
        waits_since_ms=_find_wait_start(tx, turn_id),
    )


def _find_wait_start(tx: Transaction, turn_id: str) -> int | None:
    row = tx.one("SELECT MIN(asked_ms) AS since FROM approvals WHERE turn_id = ? AND state = 'waiting'", turn_id)
    return row["since"] if row is not None else None


def _running_tools(trail: Iterable[Row]) -> tuple[str, ...]:
    """Return the calls that the last process has begun. Calls left by an earlier one are not run again."""
    running: list[_Call] = []
    for row in trail:
        if row["event"] == TrailEvent.RESUMED:
            running.clear()
        elif row["event"] == TrailEvent.TOOL_STARTED:
            running.append(_call(row))
        elif row["event"] == TrailEvent.TOOL_FINISHED and _call(row) in running:
            running.remove(_call(row))
    return tuple(sorted(tool for tool, _ in running))


def _find_not_run(trail: Iterable[Row]) -> set[int]:
    """Return the calls that ended without beginning: refused, denied, or of an unknown tool."""
    begun: Counter[_Call] = Counter()
    ends = set()
    for row in trail:
        if row["event"] == TrailEvent.TOOL_STARTED:
            begun[_call(row)] += 1
        elif row["event"] == TrailEvent.TOOL_FINISHED and not begun[_call(row)]:
            ends.add(row["id"])
        elif row["event"] == TrailEvent.TOOL_FINISHED:
            begun[_call(row)] -= 1
    return ends


_Call = tuple[str, str]  # tool and call id; older trails have no id


def _call(row: Row) -> _Call:
    detail = json.loads(row["detail"])
    return detail["tool"], detail.get("call", "")


def _reply(row: Row, *, is_elsewhere: bool) -> Reply:
    return Reply(
        id=row["id"],
        kind=row["kind"],
        account=row["account"],
        state=row["state"],
        attempts=row["attempts"],
        pieces=row["piece"],
        not_before_ms=row["not_before_ms"],
        sent_ms=row["sent_ms"],
        receipt=row["receipt"] or "",
        problem=row["problem"],
        elsewhere=f"{row['account']}:{row['chat']}" if is_elsewhere else "",
    )


def _step(row: Row, *, was_run: bool) -> Step:
    # A step that ends a message has the message's id; its reply has steps of its own.
    reply = row["outbox_id"] if row["inbox_id"] is None else None
    detail = json.loads(row["detail"])
    return Step(at_ms=row["at_ms"], event=row["event"], reply=reply, was_run=was_run, detail=detail)


def _refusal(row: Row) -> RefusedMessage:
    detail = json.loads(row["detail"])
    known = dict(row) if row["account"] is not None else {}
    return RefusedMessage(
        at_ms=row["at_ms"],
        account=known.get("account") or detail.get("account", ""),
        chat=known.get("chat") or detail.get("chat", ""),
        message_id=known.get("message_id") or detail.get("message", ""),
        sender_id=known.get("sender_id") or detail.get("sender", ""),
        reason=detail.get("reason", ""),
    )


def _id(row: Row | None) -> int | None:
    return int(row["id"]) if row is not None else None
