"""Transcripts: the messages, tool calls and results of a session, and which calls were started."""

import json
from dataclasses import asdict, dataclass
from typing import cast

from agent_core.conversation import Message, Role, ToolCall
from agent_core.history import arrange
from gateway.clock import now_ms
from gateway.store.db.connection import Row, Transaction
from gateway.store.search import searchable
from tools.content import dump_parts, from_stored, in_search, load_parts, loads_list


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """A message and the time it was written."""

    message: Message
    created_ms: int


def append(
    tx: Transaction, session_id: str, message: Message, *, turn_id: str | None = None, inbox_id: int | None = None
) -> None:
    """Append a message. A second copy of the same inbox row or of the same call's result is ignored."""
    tx.execute(
        """INSERT INTO messages (session_id, turn_id, inbox_id, role, parts, tool_calls, tool_call_id, tool_name,
                                 is_error, reasoning, provider_data, search_text, created_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING""",
        session_id,
        turn_id,
        inbox_id,
        message.role,
        dump_parts(message.parts),
        json.dumps([asdict(call) for call in message.tool_calls]) if message.tool_calls else "",
        message.tool_call_id,
        message.tool_name,
        message.is_error,
        message.reasoning,
        message.provider_data,
        searchable(in_search(message.parts)),
        now_ms(),
    )


def mark_tool_started(tx: Transaction, turn_id: str, call_id: str) -> None:
    tx.execute("INSERT INTO tool_starts (turn_id, call_id, started_ms) VALUES (?, ?, ?)", turn_id, call_id, now_ms())


def started_calls(tx: Transaction, turn_id: str) -> frozenset[str]:
    return frozenset(row["call_id"] for row in tx.all("SELECT call_id FROM tool_starts WHERE turn_id = ?", turn_id))


def recent(tx: Transaction, session_id: str, *, limit: int, turn_id: str | None = None) -> list[Message]:
    """Return the end of a session for the model: it begins with a user's message, and results follow their calls.

    The given turn is included in full, and its open calls stay open. Calls of earlier turns that never got a result get
    one that says so.
    """
    rows = tx.all(
        """SELECT * FROM (SELECT * FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT ?) ORDER BY id""",
        session_id,
        limit,
    )
    first = next((place for place, row in enumerate(rows) if row["role"] == "user"), len(rows))
    before = [_message(row) for row in rows[first:] if turn_id is None or row["turn_id"] != turn_id]
    if turn_id is None:
        return arrange(before)
    if len(rows) == limit and rows[0]["turn_id"] == turn_id:  # a turn longer than the window
        return turn(tx, session_id, turn_id)
    return arrange(before) + [_message(row) for row in rows if row["turn_id"] == turn_id]


def turn(tx: Transaction, session_id: str, turn_id: str) -> list[Message]:
    rows = tx.all("SELECT * FROM messages WHERE session_id = ? AND turn_id = ? ORDER BY id", session_id, turn_id)
    return [_message(row) for row in rows]


def entries(tx: Transaction, session_id: str, *, limit: int = 200) -> list[TranscriptEntry]:
    rows = tx.all(
        "SELECT * FROM (SELECT * FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT ?) ORDER BY id",
        session_id,
        limit,
    )
    return [TranscriptEntry(message=_message(row), created_ms=row["created_ms"]) for row in rows]


def _message(row: Row) -> Message:
    return Message(
        role=cast(Role, row["role"]),
        parts=load_parts(row["parts"]),
        tool_calls=_calls(row["tool_calls"]),
        tool_call_id=row["tool_call_id"],
        tool_name=row["tool_name"],
        is_error=bool(row["is_error"]),
        reasoning=row["reasoning"],
        provider_data=row["provider_data"],
    )


def _calls(stored: str) -> tuple[ToolCall, ...]:
    try:
        return tuple(from_stored(ToolCall, call) for call in loads_list(stored)) if stored else ()
    except TypeError:  # damaged on disk; their results are then dropped as orphans
        return ()
