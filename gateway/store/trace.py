"""Read back the history of a message: its row, its turn, its trail, and the replies to it.

Never a message's text. To look up a message by an id that others know too, the chat must be given as well.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gateway.store import cron, delegations
from gateway.store.cron import JobRun
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.inbox import key_of
from gateway.store.processes import AT_TERMINAL
from gateway.store.tables import APPROVAL_WAITING, ASKING, OUTBOX_OPEN
from gateway.store.trail import TrailEvent
from gateway.store.turns import is_running

_SENT_AS = """(receipt = ?1 OR piece > 0 AND EXISTS (SELECT 1 FROM trail t WHERE t.turn_id = o.turn_id
               AND t.outbox_id = o.id AND t.event = 'piece_sent' AND json_extract(t.detail, '$.receipt') = ?1))"""
_SENT_ELSEWHERE_AS = "turn_id IS NULL AND " + _SENT_AS.replace("t.turn_id = o.turn_id", "t.turn_id IS NULL")
_REFUSALS = """SELECT t.at_ms, COALESCE(i.account, json_extract(t.detail, '$.account'), '') AS account,
                      COALESCE(i.chat, json_extract(t.detail, '$.chat'), '') AS chat,
                      COALESCE(i.message_id, json_extract(t.detail, '$.message'), '') AS message_id,
                      COALESCE(i.sender_id, json_extract(t.detail, '$.sender'), '') AS sender_id,
                      COALESCE(json_extract(t.detail, '$.reason'), '') AS reason
                 FROM trail t LEFT JOIN inbox i ON i.id = t.inbox_id WHERE t.event = 'refused'"""


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
    run: JobRun | None = None  # of a scheduled job
    task: int = 0  # its number, for a delegated task
    given_by: int = 0  # the message whose turn has delegated it
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
    [row] = tx.all("SELECT * FROM inbox WHERE id = ?", inbox_id)
    query = """SELECT * FROM trail WHERE inbox_id = ?1
               UNION SELECT * FROM trail WHERE turn_id = ?2 AND COALESCE(inbox_id, ?1) = ?1 ORDER BY id"""
    trail = tx.all(query, inbox_id, row["turn_id"])
    elsewhere = {json.loads(one["detail"])["row"] for one in trail if one["event"] == TrailEvent.MESSAGE_QUEUED}
    # The replies that the trail names, and those not yet in it because they wait for their first attempt. With the
    # account in the condition, SQLite would choose the index over everything ever sent there.
    waiting = tx.all(f"SELECT id FROM outbox WHERE {OUTBOX_OPEN} AND turn_id = ?", row["turn_id"])  # noqa: S608
    named = {one["outbox_id"] for one in trail if one["outbox_id"] is not None} | {one["id"] for one in waiting}
    query = "SELECT *, piece AS pieces FROM outbox WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    replies = tx.all(query, json.dumps(sorted(named | elsewhere)))
    # Deliveries of replies without a turn (to commands, to other chats): no turn leads to their trail.
    delivered = [
        Step(at_ms=one["sent_ms"], event=TrailEvent.SENT, reply=one["id"], detail={"receipt": one["receipt"]})
        for one in replies
        if not one["turn_id"] and one["state"] == "sent"
    ]
    steps, running = _read_steps(trail)
    parent = delegations.find_parent(tx, row["turn_id"])
    return build(
        Trace,
        row,
        user=row["user_id"],
        run=cron.find_run(tx, key_of(row)),
        task=parent["position"] if parent is not None else 0,
        given_by=parent["inbox_id"] or 0 if parent is not None else 0,
        at_terminal=row["account"] == AT_TERMINAL,
        session_busy=is_running(tx, row["session_key"]),
        turn=_work(tx, row["turn_id"], running) if row["turn_id"] else None,
        replies=tuple(
            build(
                Reply,
                one,
                receipt=one["receipt"] or "",
                elsewhere=f"{one['account']}:{one['chat']}" if one["id"] in elsewhere else "",
            )
            for one in replies
        ),
        steps=tuple(sorted((*steps, *delivered), key=lambda step: step.at_ms)),
    )


def newest(tx: Transaction) -> int | None:
    """Return the newest message that needed an answer."""
    return next(iter(list_newest(tx, limit=1)), None)


def list_newest(tx: Transaction, *, limit: int) -> list[int]:
    """Return the newest messages that needed an answer, newest first."""
    query = f"""SELECT id FROM inbox WHERE kind IN ({ASKING})
                   AND NOT EXISTS (SELECT 1 FROM delegations d WHERE d.turn_id = inbox.turn_id)
                 ORDER BY id DESC LIMIT ?"""  # noqa: S608
    return [row["id"] for row in tx.all(query, limit)]


def exists(tx: Transaction, inbox_id: int) -> bool:
    return tx.exists("SELECT 1 FROM inbox WHERE id = ?", inbox_id)


def newest_message(tx: Transaction, session_key: str) -> int | None:
    """Return the newest message of a conversation, without commands."""
    query = "SELECT id FROM inbox WHERE session_key = ? AND kind = 'message' ORDER BY id DESC LIMIT 1"
    return tx.value(query, session_key)


def find_message(tx: Transaction, account: str, chat: str, message_id: str) -> int | None:
    """Find a message by the platform's id of it, or of our answer."""
    query = f"""SELECT id FROM inbox WHERE account = ? AND chat = ? AND message_id = ?
                 ORDER BY kind IN ({ASKING}) DESC, id DESC LIMIT 1"""  # noqa: S608
    own = tx.value(query, account, chat, message_id)
    return own if own is not None else _find_sent(tx, account, chat, message_id)


def find(tx: Transaction, name: str) -> list[int]:
    """Find everything a name may mean, newest first: inbox:17, outbox:17, the number alone, a turn, a session's key,
    account:chat:message, or the platform's id of a message alone."""
    found: set[int | None] = {_of_turn(tx, name)}
    what, _, number = name.rpartition(":")
    if number.isdecimal() and len(number) < 19:  # row ids are never longer
        if what in ("", "inbox"):
            found.add(tx.value("SELECT id FROM inbox WHERE id = ?", int(number)))
        elif what == "outbox" and (row := tx.one("SELECT * FROM outbox WHERE id = ?", int(number))):
            found.add(_find_asked(tx, row, elsewhere=True))
    query = f"SELECT id FROM inbox WHERE session_key = ? AND kind IN ({ASKING}) ORDER BY id DESC LIMIT 1"  # noqa: S608
    found.add(tx.value(query, name))
    query = f"""SELECT account, chat FROM inbox WHERE message_id = ?1
                UNION SELECT account, chat FROM outbox o WHERE {_SENT_AS}"""  # noqa: S608
    places = [(row["account"], row["chat"], name) for row in tx.all(query, name)]
    match name.split(":", 2):
        case [account, chat, message_id]:
            places.append((account, chat, message_id))
    for place in places:
        found |= {find_message(tx, *place), _find_sent(tx, *place, elsewhere=True)}
    return sorted((one for one in found if one is not None), reverse=True)


def refusals(tx: Transaction, *, limit: int) -> list[RefusedMessage]:
    """Return refusals, newest first: strangers, and known people who wrote too fast."""
    return tx.read_all(RefusedMessage, f"{_REFUSALS} ORDER BY t.id DESC LIMIT ?", limit)


def refusal_of(tx: Transaction, account: str, chat: str, message_id: str) -> RefusedMessage | None:
    """Return the refusal of a message from somebody without access: nothing else is stored about it."""
    query = f"""{_REFUSALS} AND t.inbox_id IS NULL AND json_extract(t.detail, '$.account') = ?
                   AND json_extract(t.detail, '$.chat') = ? AND json_extract(t.detail, '$.message') = ?
                 ORDER BY t.id DESC LIMIT 1"""
    return tx.read_one(RefusedMessage, query, account, chat, message_id)


def was_overheard(tx: Transaction, account: str, chat: str, message_id: str) -> bool:
    """Return whether it was said in a group, not to us, and no later message has brought it along yet."""
    rows = tx.all("SELECT session_key FROM overheard WHERE account = ? AND message_id = ?", account, message_id)
    return any(chat in row["session_key"].split(":") for row in rows)


def _find_asked(tx: Transaction, reply: Row, *, elsewhere: bool = False) -> int | None:
    """Return the message that a reply answers or, with `elsewhere`, that sent it to another chat.

    Only the trail of its turn knows the latter. It is not for people who read the reply there.
    """
    if reply["turn_id"]:
        return _of_turn(tx, reply["turn_id"])
    query = f"""SELECT id FROM inbox WHERE account = ? AND chat = ? AND message_id = ? AND kind IN ({ASKING})
                 ORDER BY id DESC LIMIT 1"""  # noqa: S608
    asked = tx.value(query, reply["account"], reply["chat"], reply["reply_to"])
    if asked is not None or not elsewhere:
        return asked
    query = "SELECT turn_id FROM trail WHERE event = 'message_queued' AND json_extract(detail, '$.row') = ?"
    return _of_turn(tx, tx.value(query, reply["id"]))


def _of_turn(tx: Transaction, turn_id: str | None) -> int | None:
    """Return the last message of a turn: the one that is replied to."""
    query = """SELECT id FROM inbox WHERE turn_id = ? AND kind IN ('message', 'wake')
                ORDER BY sent_ms DESC, id DESC LIMIT 1"""
    return tx.value(query, turn_id)


def _work(tx: Transaction, turn_id: str, running: tuple[str, ...]) -> Work | None:
    row = tx.one("SELECT * FROM turns WHERE id = ?", turn_id)
    if row is None:
        return None
    query = f"SELECT MIN(asked_ms) FROM approvals WHERE turn_id = ? AND {APPROVAL_WAITING}"  # noqa: S608
    return build(
        Work,
        row,
        stop_requested=bool(row["stop_requested"]),
        tools=running,
        others=tx.count("SELECT COUNT(*) - 1 FROM inbox WHERE turn_id = ? AND kind = 'message'", turn_id),
        waits_since_ms=tx.value(query, turn_id),
    )


def _read_steps(trail: Iterable[Row]) -> tuple[list[Step], tuple[str, ...]]:
    """Return the steps since the message came in (it may join a running turn), and the tools that run now.

    A call may end without having begun: refused, denied, or of an unknown tool. Calls that an earlier process has begun
    are not run again.
    """
    steps: list[Step] = []
    begun: Counter[tuple[str, str]] = Counter()  # by tool and call id; older trails have no id
    running: Counter[tuple[str, str]] = Counter()
    has_come = False
    for row in trail:
        detail, was_run = json.loads(row["detail"]), True
        if row["event"] == TrailEvent.RESUMED:
            running.clear()
        elif row["event"] in (TrailEvent.TOOL_STARTED, TrailEvent.TOOL_FINISHED):
            change = Counter([(detail["tool"], detail.get("call", ""))])
            if row["event"] == TrailEvent.TOOL_STARTED:
                begun, running = begun + change, running + change
            else:
                was_run = change <= begun
                begun, running = begun - change, running - change
        has_come = has_come or row["inbox_id"] is not None
        if has_come:
            # A step that ends a message has the message's id; its reply has steps of its own.
            reply = row["outbox_id"] if row["inbox_id"] is None else None
            steps.append(Step(at_ms=row["at_ms"], event=row["event"], reply=reply, was_run=was_run, detail=detail))
    return steps, tuple(sorted(tool for tool, _ in running.elements()))


def _find_sent(tx: Transaction, account: str, chat: str, message_id: str, *, elsewhere: bool = False) -> int | None:
    """Find the message behind one of ours, by the platform's id of it or of a piece."""
    sent_as = _SENT_ELSEWHERE_AS if elsewhere else _SENT_AS
    query = f"SELECT * FROM outbox o WHERE account = ?2 AND chat = ?3 AND {sent_as} ORDER BY id DESC"  # noqa: S608
    asked = (_find_asked(tx, row, elsewhere=elsewhere) for row in tx.all(query, message_id, account, chat))
    return next((found for found in asked if found is not None), None)
