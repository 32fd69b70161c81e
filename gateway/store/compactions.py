"""Compactions: which messages a summary stands for, and the conversation as a model is shown it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from agent_core.compaction import Summary
from agent_core.compactor import MIN_SAVING, CompactionStep
from agent_core.conversation import Message
from agent_core.history import arrange
from gateway.clock import now_ms
from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.store.db.connection import Row, Transaction
from gateway.store.inbox import Accepted
from gateway.store.transcripts import NOT_UNDONE, read_message
from tools.content import dump_parts, loads_list

_ORDER = "compress-"
_ROWS = "SELECT *, (SELECT parts FROM stubs WHERE message_id = messages.id) AS stub FROM messages"
_ROW = f"{_ROWS} WHERE id = ?"
_SHOWN_ROWS = f"{_ROWS} WHERE session_id = ? AND {NOT_UNDONE}"
_HEAD_ROWS = f"{_SHOWN_ROWS} AND id < ? ORDER BY id"
_TAIL_ROWS = f"SELECT * FROM ({_SHOWN_ROWS} AND id >= ? ORDER BY id DESC LIMIT ?) ORDER BY id"  # noqa: S608
_TURN_ROWS = f"{_ROWS} WHERE turn_id = ? AND id >= ? ORDER BY id"
MAX_LOADED = 4_000  # only conversations from before there were compactions are longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Divides the stored messages of a session into those that are shown and those that a summary stands for."""

    head_upto: int = 0  # the messages before it are shown first
    upto: int = 0  # and those from it on last
    pinned: tuple[int, ...] = ()  # and before these, the pinned ones


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A conversation as a model is shown it: the first exchange and the summary, if there is one, and the rest."""

    messages: list[Message]
    lead: int = 0  # how many of them precede the rest
    summary: Summary | None = None
    is_whole: bool = True  # False when a conversation without a summary was too long to be loaded
    boundary: Boundary = field(default_factory=Boundary)
    counted: int = 0  # so many of them took, with the prompt and the tools,
    counted_tokens: int = 0
    stuck_tokens: int = 0  # the size at which the last compaction saved too little; 0 when it was worth it


def read_history(tx: Transaction, session_id: str, *, turn_id: str | None = None, limit: int = MAX_LOADED) -> History:
    """Return a session for the model: it begins with a user's message, and results follow their calls.

    Open calls of the given turn stay open. Calls of earlier turns that never got a result get one that says so.
    """
    last = _last(tx, session_id)
    at = _boundary(last)
    head = tx.all(_HEAD_ROWS, session_id, at.head_upto)
    tail = tx.all(_TAIL_ROWS, session_id, at.upto, limit)
    is_whole = len(tail) < limit
    own = [row for row in tail if row["turn_id"] == turn_id] if turn_id else []
    if not is_whole and own and own[0]["id"] == tail[0]["id"]:  # a turn longer than the limit
        tail = tx.all(_TURN_ROWS, turn_id, at.upto)
    elif last is None or not last["summary"]:
        first = next((place for place, row in enumerate(tail) if row["role"] == "user"), len(tail))
        tail = [row for place, row in enumerate(tail) if place >= first or (turn_id and row["turn_id"] == turn_id)]
    pinned = [row for one in at.pinned for row in tx.all(_ROW, one)]
    history = _assemble(tx, session_id, head, [*pinned, *tail], turn_id, last)
    return replace(history, is_whole=is_whole)


def _assemble(
    tx: Transaction,
    session_id: str,
    head: Sequence[Row],
    tail: Sequence[Row],
    turn_id: str | None,
    last: Row | None,
) -> History:
    summary, shown = _load_summary(last["summary"]) if last is not None and last["summary"] else (None, None)
    lead = [*arrange(_read(head)), *([shown] if shown else [])]
    of_turn = [row for row in tail if turn_id and row["turn_id"] == turn_id]
    before = [row for row in tail if not (turn_id and row["turn_id"] == turn_id)]
    messages = [*lead, *arrange(_read(before)), *_read(of_turn)]
    at = _boundary(last)
    if tail and not at.upto:
        at = Boundary(upto=tail[0]["id"])
    count = tx.one("SELECT tokens, upto FROM context_counts WHERE session_id = ?", session_id)
    counted = sum(row["id"] <= count["upto"] for row in tail) if count is not None else 0
    return History(
        messages=messages,
        lead=len(lead),
        summary=summary,
        boundary=at,
        counted=min(len(lead) + counted, len(messages)) if counted else 0,
        counted_tokens=count["tokens"] if count is not None and counted else 0,
        stuck_tokens=_stuck(last),
    )


def append(tx: Transaction, session_id: str, at: Boundary, step: CompactionStep) -> Boundary:
    """Store a step of a compaction that began at a boundary; return the new boundary."""
    query = f"""SELECT id FROM messages WHERE session_id = ? AND id >= ? AND role <> 'tool' AND {NOT_UNDONE}
                 ORDER BY id LIMIT ?"""  # noqa: S608
    spoken = [*at.pinned, *(row["id"] for row in tx.all(query, session_id, at.upto, step.covers + 1))]
    moved = Boundary(
        head_upto=spoken[step.head] if step.head else at.head_upto,
        # Behind the last one when everything is covered: what comes next is shown.
        upto=spoken[step.covers] if step.covers < len(spoken) else spoken[-1] + 1,
        pinned=tuple(spoken[place] for place in step.pinned),
    )
    _insert(tx, session_id, moved, step.summary.dump(), step.tokens_before, step.tokens_after)
    return moved


def note_size(tx: Transaction, session_id: str, at: Boundary, *, before: int, after: int) -> None:
    """Store a compaction that summarised nothing: it shortened results of tools at most."""
    last = _last(tx, session_id)
    if last is None or not last["summary"]:
        at = Boundary()
    _insert(tx, session_id, at, last["summary"] if last is not None else "", before, after)


def replace_results(tx: Transaction, session_id: str, upto: int, stubs: Mapping[str, Message]) -> None:
    """Store what is shown in place of results of tools, by call."""
    query = """INSERT INTO stubs (message_id, session_id, parts, created_ms)
               SELECT id, session_id, ?, ? FROM messages
                WHERE session_id = ? AND id >= ? AND role = 'tool' AND tool_call_id = ?
               ON CONFLICT DO NOTHING"""
    for call_id, stub in stubs.items():
        tx.execute(query, dump_parts(stub.parts), now_ms(), session_id, upto, call_id)
    forget_count(tx, session_id)


def order(call_key: SessionKey, sender: Sender, *, message_id: str, target_tokens: int) -> InboundMessage:
    """Return the inbox row that has a conversation shortened in a turn of its own, where nothing else runs."""
    return InboundMessage(
        key=call_key,
        message_id=f"{_ORDER}{message_id}",
        kind="wake",
        sender=sender,
        parts=(Text(text=str(target_tokens)),),
        sent_ms=now_ms(),
        about=message_id,
    )


def read_order(message: Accepted) -> int | None:
    """Return the tokens to which a message orders to shorten the conversation; None for any other message."""
    if message.kind != "wake" or not message.message_id.startswith(_ORDER):
        return None
    return int(message.text)


def covers(tx: Transaction, session_id: str, message_id: int) -> bool:
    """Return whether a summary stands for a message, so that it cannot be taken away by itself."""
    last = _last(tx, session_id)
    return last is not None and bool(last["summary"]) and message_id < last["upto"]


def copy(tx: Transaction, session_id: str, copies: Mapping[int, int], copy_id: str) -> None:
    """Let a copy of a session begin where the original is; `copies` gives the id of each message's copy."""
    query = """INSERT INTO stubs (message_id, session_id, parts, created_ms)
               SELECT ?, ?, parts, created_ms FROM stubs WHERE message_id = ?"""
    for original, copied in copies.items():
        tx.execute(query, copied, copy_id, original)
    last = _last(tx, session_id)
    if last is None or not copies:
        return
    at = _boundary(last)

    def find_copy(message_id: int) -> int:
        """Return the copy of the first message from this one on: it may itself have been undone."""
        later = [old for old in copies if old >= message_id]
        return copies[min(later)] if later else max(copies.values()) + 1

    moved = Boundary(
        head_upto=find_copy(at.head_upto) if at.head_upto else 0,
        upto=find_copy(at.upto) if at.upto else 0,
        pinned=tuple(copies[one] for one in at.pinned if one in copies),
    )
    _insert(tx, copy_id, moved, last["summary"], last["tokens_before"], last["tokens_after"])


def note_count(tx: Transaction, session_id: str, tokens: int) -> None:
    """Record how many tokens the conversation took up to here, as its provider counted them."""
    query = """INSERT INTO context_counts (session_id, tokens, upto)
               VALUES (?1, ?2, (SELECT COALESCE(MAX(id), 0) FROM messages WHERE session_id = ?1))
               ON CONFLICT (session_id) DO UPDATE SET tokens = excluded.tokens, upto = excluded.upto"""
    tx.execute(query, session_id, tokens)


def is_stuck(tx: Transaction, session_id: str) -> bool:
    """Return whether the last compaction saved too little."""
    return _stuck(_last(tx, session_id)) > 0


def count(tx: Transaction, session_id: str) -> int:
    return tx.count("SELECT COUNT(*) FROM compactions WHERE session_id = ?", session_id)


def erase(tx: Transaction, session_ids: Collection[str], names: Collection[str]) -> None:
    """Delete the summaries of shared sessions in which a person spoke or is named; their messages are blanked apart."""
    for session_id in session_ids:
        tx.execute("DELETE FROM compactions WHERE session_id = ?", session_id)
    query = "DELETE FROM compactions WHERE session_id IN (SELECT session_id FROM compactions WHERE instr(summary, ?))"
    for name in names:
        tx.execute(query, json.dumps(name, ensure_ascii=False)[1:-1])


@lru_cache(maxsize=100)
def _load_summary(stored: str) -> tuple[Summary, Message]:
    """Load from a cache: the same summary is read with every turn until the next one."""
    summary = Summary.load(stored)
    return summary, summary.to_message()


def _read(rows: Sequence[Row]) -> list[Message]:
    return [read_message(row, stub=row["stub"]) for row in rows]


def _last(tx: Transaction, session_id: str) -> Row | None:
    return tx.one("SELECT * FROM compactions WHERE session_id = ? ORDER BY id DESC LIMIT 1", session_id)


def _boundary(row: Row | None) -> Boundary:
    if row is None:
        return Boundary()
    return Boundary(head_upto=row["head_upto"], upto=row["upto"], pinned=tuple(map(int, loads_list(row["pinned"]))))


def _stuck(row: Row | None) -> int:
    if row is None or row["tokens_after"] <= row["tokens_before"] * (1 - MIN_SAVING):
        return 0
    return int(row["tokens_after"])


def _insert(tx: Transaction, session_id: str, at: Boundary, summary: str, before: int, after: int) -> None:
    tx.insert(
        "compactions",
        session_id=session_id,
        head_upto=at.head_upto,
        upto=at.upto,
        pinned=json.dumps(at.pinned),
        summary=summary,
        tokens_before=before,
        tokens_after=after,
        created_ms=now_ms(),
    )
    forget_count(tx, session_id)


def forget_count(tx: Transaction, session_id: str) -> None:
    """Forget the provider's count, since other messages are shown from now on."""
    tx.execute("DELETE FROM context_counts WHERE session_id = ?", session_id)
