"""Transcripts: the messages, tool calls and results of a session, and which calls were started."""

import json
from dataclasses import asdict, dataclass

from agent_core.conversation import Message, ToolCall
from gateway.clock import now_ms
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.search_index import searchable
from tools.content import dump_parts, from_stored, in_search, load_parts, loads_list, words_of

NOT_UNDONE = "NOT EXISTS (SELECT 1 FROM undone WHERE undone.id = messages.id)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """A message, the time it was written, and whether its user took it back."""

    message: Message
    created_ms: int
    is_undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The last request of a conversation and all that followed it."""

    first_id: int  # of its first message
    turn_id: str | None  # None for a copy
    messages: tuple[Message, ...]

    @property
    def request(self) -> str:
        return "\n".join(filter(None, (words_of(message.parts) for message in self.messages if message.role == "user")))

    @property
    def answer(self) -> str:
        return next((message.text for message in reversed(self.messages) if message.role == "assistant"), "")


def append(
    tx: Transaction, session_id: str, message: Message, *, turn_id: str | None = None, inbox_id: int | None = None
) -> None:
    """Append a message. A second copy of the same inbox row or of the same call's result is ignored."""
    tx.insert(
        "messages",
        "DO NOTHING",
        session_id=session_id,
        turn_id=turn_id,
        inbox_id=inbox_id,
        role=message.role,
        parts=dump_parts(message.parts),
        tool_calls=json.dumps([asdict(call) for call in message.tool_calls]) if message.tool_calls else "",
        tool_call_id=message.tool_call_id,
        tool_name=message.tool_name,
        is_error=message.is_error,
        reasoning=message.reasoning,
        provider_data=message.provider_data,
        search_text=searchable(in_search(message.parts)),
        created_ms=now_ms(),
    )


def mark_tool_started(tx: Transaction, turn_id: str, call_id: str) -> None:
    tx.execute("INSERT INTO tool_starts (turn_id, call_id, started_ms) VALUES (?, ?, ?)", turn_id, call_id, now_ms())


def started_calls(tx: Transaction, turn_id: str) -> frozenset[str]:
    return frozenset(row["call_id"] for row in tx.all("SELECT call_id FROM tool_starts WHERE turn_id = ?", turn_id))


def turn(tx: Transaction, session_id: str, turn_id: str) -> list[Message]:
    rows = tx.all("SELECT * FROM messages WHERE session_id = ? AND turn_id = ? ORDER BY id", session_id, turn_id)
    return [read_message(row) for row in rows]


def last_thoughts(tx: Transaction, session_id: str) -> str:
    """Return the model's thoughts in the last exchange of a session that was not undone."""
    last = last_exchange(tx, session_id)
    replies = (message for message in last.messages if message.role == "assistant") if last is not None else ()
    return "\n\n".join(reply.reasoning for reply in replies if reply.reasoning)


def entries(tx: Transaction, session_id: str, *, limit: int = 200) -> list[TranscriptEntry]:
    query = f"""SELECT *, NOT {NOT_UNDONE} AS is_undone
                  FROM (SELECT * FROM messages WHERE session_id = ? ORDER BY id DESC LIMIT ?) AS messages
                 ORDER BY id"""  # noqa: S608
    rows = tx.all(query, session_id, limit)
    return [build(TranscriptEntry, row, message=read_message(row), is_undone=bool(row["is_undone"])) for row in rows]


def last_exchange(tx: Transaction, session_id: str) -> Exchange | None:
    """Return the last exchange that was not undone; None when there is none."""
    query = f"""SELECT id, turn_id FROM messages WHERE session_id = ? AND role = 'user' AND {NOT_UNDONE}
                 ORDER BY id DESC LIMIT 1"""  # noqa: S608
    last = tx.one(query, session_id)
    if last is None:
        return None
    query = f"""SELECT * FROM messages WHERE session_id = ? AND {NOT_UNDONE} AND (id >= ? OR turn_id = ?)
                 ORDER BY id"""  # noqa: S608
    rows = tx.all(query, session_id, last["id"], last["turn_id"])
    return Exchange(first_id=rows[0]["id"], turn_id=last["turn_id"], messages=tuple(map(read_message, rows)))


def undo(tx: Transaction, session_id: str, exchange: Exchange) -> None:
    """Take the exchange away from the model. It stays in the store and can be searched."""
    query = f"""INSERT INTO undone (id, session_id, undone_ms)
                SELECT id, session_id, ? FROM messages WHERE session_id = ? AND id >= ? AND {NOT_UNDONE}"""  # noqa: S608
    tx.execute(query, now_ms(), session_id, exchange.first_id)


def copy(tx: Transaction, session_id: str, copy_id: str) -> dict[int, int]:
    """Copy a transcript without what was undone; return the id of each message's copy.

    The copies are not indexed, or a search would find everything twice.
    """
    kept = f"SELECT id FROM messages WHERE session_id = ? AND {NOT_UNDONE} ORDER BY id"  # noqa: S608
    columns = "role, parts, tool_calls, tool_call_id, tool_name, is_error, reasoning, provider_data, created_ms"
    speaker = "COALESCE(person_id, (SELECT i.person_id FROM inbox i WHERE i.id = messages.inbox_id))"
    query = f"""INSERT INTO messages (session_id, {columns}, search_text, person_id)
                SELECT ?, {columns}, '', {speaker}
                  FROM messages WHERE session_id = ? AND {NOT_UNDONE} ORDER BY id"""  # noqa: S608
    tx.execute(query, copy_id, session_id)
    originals, copies = ([row["id"] for row in tx.all(kept, one)] for one in (session_id, copy_id))
    return dict(zip(originals, copies, strict=True))


def read_message(row: Row, *, stub: str | None = None) -> Message:
    """Return a stored message, or with a stub what the model is shown in its place."""
    try:
        calls = tuple(from_stored(ToolCall, call) for call in loads_list(row["tool_calls"] or "[]"))
    except TypeError:  # damaged on disk; their results are then dropped as orphans
        calls = ()
    parts = load_parts(stub or row["parts"])
    return build(Message, row, parts=parts, tool_calls=calls, is_error=bool(row["is_error"]))
