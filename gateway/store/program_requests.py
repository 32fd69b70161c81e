"""Requests of programs: begin their conversation, find a request again, and read what became of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agent_core.conversation import Message
from gateway.messages import PROGRAMS, SessionKey
from gateway.store import memories, sessions, transcripts
from gateway.store.db.connection import Transaction, build
from gateway.store.inbox import Outcome
from gateway.store.trail import TrailEvent
from tools.content import Part, load_parts

ANSWERED = "answered"  # why the conversation of a single request ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRequest:
    """An accepted request and how far it is."""

    id: int  # in the inbox
    session_key: str
    parts: tuple[Part, ...]
    is_done: bool
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """The end of a request."""

    parts: tuple[Part, ...]
    is_failed: bool
    problem: str  # the kind of error when the model could not answer
    input_tokens: int
    output_tokens: int


def begin_conversation(tx: Transaction, key: SessionKey, history: Sequence[Message], *, name: str) -> None:
    """Give a new conversation the messages that its first request brings along; a known one has them already."""
    if not history or sessions.find_current(tx, str(key)) is not None:
        return
    session = sessions.open_current(tx, key, display_name=name)
    for message in history:
        transcripts.append(tx, session.id, message)
    # They were said elsewhere, perhaps to another agent: nothing of them is to be remembered.
    memories.mark_seen(tx, memories.list_unseen(tx, session.id))


def find(tx: Transaction, key: SessionKey, message_id: str) -> ProgramRequest | None:
    query = """SELECT id, session_key, parts, state, outcome FROM inbox
                WHERE account = ? AND chat = ? AND message_id = ? AND kind = 'message'"""
    row = tx.one(query, PROGRAMS, key.chat, message_id)
    if row is None:
        return None
    return build(ProgramRequest, row, parts=load_parts(row["parts"]), is_done=row["state"] == "done")


def read_result(tx: Transaction, request: ProgramRequest) -> RequestResult | None:
    """Return how a request ended; None when it ended without an answer."""
    row = tx.one("SELECT chat, turn_id FROM inbox WHERE id = ?", request.id)
    turn_id, chat = (row["turn_id"], row["chat"]) if row is not None else (None, "")
    # Newest first, by the index over chats: it is among the last.
    query = """SELECT parts FROM outbox WHERE account = ? AND chat = ? AND turn_id = ? AND kind = 'answer'
                ORDER BY id DESC LIMIT 1"""
    answer = tx.one(query, PROGRAMS, chat, turn_id)
    if answer is None:
        return None
    query = "SELECT detail FROM trail WHERE turn_id = ? AND event = ?"
    calls = [json.loads(row["detail"]) for row in tx.all(query, turn_id, TrailEvent.MODEL_REPLIED)]
    ends = [json.loads(row["detail"]) for row in tx.all(query, turn_id, TrailEvent.FAILED)]
    turn = tx.one("SELECT outcome FROM turns WHERE id = ?", turn_id)
    return RequestResult(
        parts=load_parts(answer["parts"]),
        is_failed=turn is not None and turn["outcome"] in (Outcome.FAILED, Outcome.GIVEN_UP),
        problem=next((end["problem"] for end in ends if end.get("problem")), ""),
        input_tokens=sum(call.get("input_tokens", 0) for call in calls),
        output_tokens=sum(call.get("output_tokens", 0) for call in calls),
    )
