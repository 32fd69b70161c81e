"""Delegated tasks: sessions and turns that belong to a call of another turn and end with it.

A task has inbox rows like the turn that gives it, so that the same person asks and pays, but no platform brought them.
Its session has ended from the start: it can be read, but nobody continues, resets or resumes it.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gateway.clock import new_id, new_session_id, now_ms
from gateway.messages import InboundMessage, Sender
from gateway.store import inbox, trail
from gateway.store.db.connection import Row, Transaction
from gateway.store.inbox import Outcome
from gateway.store.tables import TURN_OPEN
from gateway.store.trail import TrailEvent

if TYPE_CHECKING:
    from gateway.store.turns import Turn

ENDED_AS = "delegated"  # the reason of the end of a task's session


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    turn_id: str
    session_id: str
    position: int
    result: str = ""  # JSON; empty while it is at work


def find(tx: Transaction, parent_turn: str, call_id: str) -> list[Delegation]:
    """Return the tasks of a call in their order, also those that an earlier process began."""
    query = "SELECT * FROM delegations WHERE parent_turn = ? AND parent_call = ? ORDER BY position"
    return tx.read_all(Delegation, query, parent_turn, call_id)


def begin(tx: Transaction, parent: "Turn", call_id: str, titles: Sequence[str]) -> list[Delegation]:
    """Begin the tasks of a call, all in one transaction."""
    for position, title in enumerate(titles, 1):
        _begin(tx, parent, call_id, position, title)
    return find(tx, parent.id, call_id)


def _begin(tx: Transaction, parent: "Turn", call_id: str, position: int, title: str) -> None:
    now, turn_id = now_ms(), new_id()
    session_id, key = new_session_id(now), replace(parent.asked[-1].key, task=f"sub-{secrets.token_hex(4)}")
    query = """INSERT INTO sessions (id, key, platform, account, kind, chat, thread, user_id, title, display_name,
                                     parent_id, created_ms, updated_ms, ended_ms, end_reason)
               SELECT ?1, ?2, platform, account, kind, chat, thread, user_id, ?3, display_name, id, ?4, ?4, ?4, ?5
                 FROM sessions WHERE id = ?6"""
    tx.execute(query, session_id, str(key), title, now, ENDED_AS, parent.session_id)
    query = """INSERT INTO turns (id, session_key, session_id, state, started_ms)
               SELECT ?, ?, ?, state, ? FROM turns WHERE id = ?"""
    tx.execute(query, turn_id, str(key), session_id, now, parent.id)
    for asked in parent.asked:
        asking = InboundMessage(
            key=replace(asked.key, task=key.task),
            message_id=f"{turn_id}-{asked.id}",
            kind="wake",
            sender=Sender(id=asked.sender_id, name=asked.sender_name),
            parts=(),  # the task is in the transcript
            sent_ms=now,
            about=asked.address.reply_to,
        )
        inbox_id = inbox.insert(tx, asking, person_id=asked.person_id, role=asked.role)
        tx.execute("UPDATE inbox SET state = 'running', turn_id = ? WHERE id = ?", turn_id, inbox_id)
        trail.record(tx, TrailEvent.CLAIMED, inbox_id=inbox_id, turn_id=turn_id)
    ids = {"turn_id": turn_id, "session_id": session_id, "parent_turn": parent.id, "parent_call": call_id}
    tx.insert("delegations", **ids, position=position, created_ms=now)
    trail.record(tx, TrailEvent.DELEGATED, turn_id=parent.id, task=position, call=call_id, child=turn_id)


def read_turn(tx: Transaction, parent: "Turn", task: Delegation) -> "Turn":
    """Return the turn of a task."""
    messages = tuple(inbox.read_turn(tx, task.turn_id))
    return replace(parent, id=task.turn_id, session_id=task.session_id, messages=messages, run=parent.run)


def finish(tx: Transaction, parent_turn: str, turn_id: str, outcome: Outcome, result: str = "") -> None:
    """End a task. The first end counts."""
    query = "UPDATE turns SET state = 'done', outcome = ?, ended_ms = ? WHERE id = ? AND outcome = ''"
    if not tx.execute(query, outcome, now_ms(), turn_id):
        return
    tx.execute("DELETE FROM tool_starts WHERE turn_id = ?", turn_id)
    tx.execute("UPDATE delegations SET result = ? WHERE turn_id = ?", result or json.dumps({}), turn_id)
    for message in inbox.read_turn(tx, turn_id):
        inbox.finish(tx, message.id, outcome)
        trail.record(tx, TrailEvent(outcome), inbox_id=message.id, turn_id=turn_id)
    query = """SELECT d.position AS task, s.input_tokens, s.output_tokens
                 FROM delegations d JOIN sessions s ON s.id = d.session_id WHERE d.turn_id = ?"""
    row = tx.one(query, turn_id)
    if row is not None:
        trail.record(tx, TrailEvent.DELEGATION_ENDED, turn_id=parent_turn, outcome=outcome, **dict(row))


def end_all(tx: Transaction, parent_turn: str, outcome: Outcome) -> None:
    """End the tasks that are still open when the turn that waited for them is over."""
    for row in tx.all("SELECT turn_id FROM delegations WHERE parent_turn = ? AND result = ''", parent_turn):
        finish(tx, parent_turn, row["turn_id"], Outcome.STOPPED if outcome == Outcome.ANSWERED else outcome)


def list_open(tx: Transaction, session_key: str) -> list[Row]:
    """Return `position`, `title`, `steps` and `tokens` of the tasks at work for the turn that runs in a session."""
    query = f"""SELECT d.position, s.title, s.total_tokens AS tokens,
                       (SELECT COUNT(*) FROM messages m WHERE m.session_id = d.session_id AND m.role = 'tool') AS steps
                  FROM turns t INDEXED BY turns_one_per_session
                  JOIN delegations d ON d.parent_turn = t.id AND d.result = '' JOIN sessions s ON s.id = d.session_id
                 WHERE t.session_key = ? AND t.{TURN_OPEN} ORDER BY d.created_ms, d.position"""  # noqa: S608
    return tx.all(query, session_key)


def find_parent(tx: Transaction, turn_id: str | None) -> Row | None:
    """Return whose task a turn is: `parent_turn`, `position` and the `inbox_id` that asked; None when it is none."""
    query = """SELECT d.parent_turn, d.position, (SELECT MAX(id) FROM inbox WHERE turn_id = d.parent_turn) AS inbox_id
                 FROM delegations d WHERE d.turn_id = ?"""
    return tx.one(query, turn_id) if turn_id else None
