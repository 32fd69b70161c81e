"""Memories: small facts by key, each with its owner and its source. Who may read and change what is enforced here.

A row is never changed: another value is another row, and the old one stays for `undo` until retention deletes it.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.clock import now_ms
from gateway.messages import SessionKey
from gateway.store import cron, inbox, trail
from gateway.store.db.connection import Transaction, Value, build
from gateway.store.inbox import Accepted
from gateway.store.people import OWNER
from gateway.store.search_index import searchable
from gateway.store.search_words import FORMS, STOP_WORDS
from gateway.store.trail import TrailEvent
from tools.content import load_parts, words_of

Scope = Literal["person", "chat", "shared"]
Writer = Literal["agent", "nudge", "person", "file", "import"]

SNAPSHOT_CHARS = 2_000
MAX_KEY_CHARS = 64
_MAX_WORDS = 24
_MARKED_AS_USED = 3  # of the memories that a search finds: the others only share a word with the question
_MAX_UNSEEN = 200
_TERMINAL_SESSIONS = 50
_KEY = re.compile(r"[^\W_][\w.-]*")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """The memories that one conversation may use. Made by `access_in`; a group never sees a person's own."""

    scope: Scope
    person_id: str  # who speaks: the owner of a person's memories, the author of a chat's
    place: str = ""

    @property
    def owned(self) -> tuple[str, tuple[str, ...]]:
        """Return the condition for rows that may be changed, and its values."""
        match self.scope:
            case "person":
                return "scope = 'person' AND person_id = ?", (self.person_id,)
            case "chat":
                return "scope = 'chat' AND place = ?", (self.place,)
            case "shared":
                return "scope = 'shared'", ()

    @property
    def readable(self) -> tuple[str, tuple[str, ...]]:
        """Return the condition for rows that may be read: in private, also those shared with everybody."""
        owned, values = self.owned
        return (f"({owned} OR scope = 'shared')" if self.scope == "person" else f"({owned})"), values


OWNERS = MemoryAccess(scope="person", person_id=OWNER)
SHARED = MemoryAccess(scope="shared", person_id=OWNER)  # changed only by the owner, at the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who wrote a memory, and from which message."""

    writer: Writer
    message_id: int | None = None
    turn_id: str | None = None
    from_outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    id: int
    scope: Scope
    person_id: str | None
    place: str
    key: str
    value: str
    source: Writer
    message_id: int | None
    from_outside: int
    pinned: int
    created_ms: int
    used_ms: int
    ended: str
    in_file: int


def access_in(key: SessionKey, person_id: str | None) -> MemoryAccess | None:
    """Return the memories of a conversation; None when nobody known speaks in private."""
    if not key.is_private:
        return MemoryAccess(scope="chat", person_id=person_id or "", place=f"{key.account_name}:{key.chat}")
    return MemoryAccess(scope="person", person_id=person_id) if person_id else None


def access_of_session(tx: Transaction, session_id: str) -> tuple[MemoryAccess | None, str]:
    """Return the memories of the turn that runs in a session, and the turn's id."""
    turn_id, asked = inbox.read_asking(tx, session_id)
    return access_of_messages(tx, asked), turn_id


def access_of_messages(tx: Transaction, messages: Sequence[Accepted]) -> MemoryAccess | None:
    """Return the memories of a turn with these messages; nobody's when several people ask together in private."""
    asked = [message for message in messages if message.asks]
    if not asked:
        return None
    last = asked[-1]
    if last.is_at_terminal:
        return OWNERS
    is_one = len({message.person_id for message in asked}) == 1
    key = cron.find_readers(tx, last.key, last.person_id)
    return access_in(key, last.person_id if is_one or not key.is_private else None)


def normalise_key(key: str) -> str:
    """Return the key as it is stored and named in files; empty when it cannot be one."""
    key = re.sub(r"[\s/_]+", "_", unicodedata.normalize("NFC", key).strip().casefold()).strip("_")
    return key if _KEY.fullmatch(key) and len(key) <= MAX_KEY_CHARS and len(key.encode()) <= 200 else ""


def get(tx: Transaction, access: MemoryAccess, key: str) -> Memory | None:
    """Return the memory of a key, one's own before a shared one, and note that it was used."""
    found = _select(tx, access.readable, "AND key = ? ORDER BY scope = 'shared' LIMIT 1", normalise_key(key))
    mark_used(tx, found)
    return found[0] if found else None


def list_all(tx: Transaction, access: MemoryAccess) -> list[Memory]:
    return _select(tx, access.readable, "ORDER BY key, scope")


def put(
    tx: Transaction, access: MemoryAccess, key: str, value: str, source: Source, *, pinned: bool | None = None
) -> Memory:
    """Store a value under a checked key. An equal value stays as it is."""
    before = _find_owned(tx, access, key)
    pinned = bool(before and before.pinned) if pinned is None else pinned
    if before is not None and before.value == value and bool(before.pinned) == pinned:
        return before
    if before is not None:
        _end(tx, before.id, "replaced")
    added_id = tx.insert(
        "memories",
        scope=access.scope,
        person_id=access.person_id or None,
        place=access.place,
        key=key,
        value=value,
        search_text=searchable(f"{key.replace('_', ' ')} {value}"),
        source=source.writer,
        message_id=source.message_id,
        from_outside=source.from_outside,
        pinned=pinned,
        created_ms=now_ms(),
    )
    if before is not None:
        tx.execute("UPDATE memories SET successor_id = ? WHERE id = ?", added_id, before.id)
    _record(tx, source, "replaced" if before else "added", key)
    [added] = tx.read_all(Memory, "SELECT * FROM memories WHERE id = ?", added_id)
    return added


def delete(tx: Transaction, access: MemoryAccess, key: str, source: Source) -> Memory | None:
    """End the memory of a key; return it, or None when there was none to change."""
    found = _find_owned(tx, access, normalise_key(key))
    if found is not None:
        _end(tx, found.id, "deleted")
        _record(tx, source, "deleted", found.key)
    return found


def undo(tx: Transaction, access: MemoryAccess) -> tuple[str, Memory] | None:
    """Take back the last change: `added`, `replaced` or `deleted`, and the memory it was about; None without one."""
    owned, values = access.owned
    query = f"""SELECT * FROM memories WHERE {owned} AND ended IN ('', 'deleted')
                 ORDER BY COALESCE(superseded_ms, created_ms) DESC, id DESC LIMIT 1"""  # noqa: S608
    last = tx.read_one(Memory, query, *values)
    if last is None:
        return None
    if last.ended:
        _revive(tx, last.id)
        return "deleted", last
    _end(tx, last.id, "undone")
    before = tx.value("SELECT id FROM memories WHERE successor_id = ? AND ended = 'replaced'", last.id)
    if before is None:
        return "added", last
    _revive(tx, before)
    return "replaced", last


def search(tx: Transaction, access: MemoryAccess, question: str, *, limit: int = 10) -> list[Memory]:
    """Return the memories that fit a plain question, best first, and note that they were used."""
    words = list(dict.fromkeys(map(str.lower, _WORD.findall(question[:1_000]))))[:_MAX_WORDS]
    telling = [word for word in words if word not in STOP_WORDS] or words
    terms = [f'"{searchable(form)}"' for word in telling for form in FORMS.get(word, (word,))]
    if not terms:
        return []
    readable, values = access.readable
    query = f"""SELECT m.* FROM memories_search f JOIN memories m ON m.id = f.rowid
                 WHERE memories_search MATCH ? AND m.ended = '' AND {readable}
                 ORDER BY bm25(memories_search), m.id DESC LIMIT ?"""  # noqa: S608
    found = tx.read_all(Memory, query, " OR ".join(terms), *values, limit)
    mark_used(tx, found[:_MARKED_AS_USED])
    return found


def snapshot(tx: Transaction, access: MemoryAccess) -> tuple[str, frozenset[str]]:
    """Return the part of the memories that a prompt shows, and its keys: pinned, then used, then recent ones.

    What was noted while text from outside was in the conversation is left to search, whose results are marked: in the
    prompt it would pass for the operator's own words.
    """
    order = "ORDER BY pinned DESC, used_ms DESC, created_ms DESC, id DESC"
    known = _select(tx, access.readable, order)
    more = "(More is known: use the memory tool to search.)"
    lines: list[str] = []
    keys: set[str] = set()
    left = SNAPSHOT_CHARS - len(more)
    for memory in known:
        line = f"- {memory.key}: {' '.join(memory.value.split())}"
        if memory.key not in keys and len(line) < left and (memory.pinned or not memory.from_outside):
            lines.append(line)
            keys.add(memory.key)
            left -= len(line) + 1
    if len(lines) < len(known):
        lines.append(more)
    return "\n".join(lines), frozenset(keys)


def find_sources(tx: Transaction, access: MemoryAccess, key: str) -> list[Memory]:
    """Return every row of a key that one may read, the newest first."""
    readable, values = access.readable
    query = f"SELECT * FROM memories WHERE {readable} AND key = ? ORDER BY id DESC LIMIT 10"  # noqa: S608
    return tx.read_all(Memory, query, *values, normalise_key(key))


def mark_used(tx: Transaction, found: Sequence[Memory]) -> None:
    for memory in found:
        tx.execute("UPDATE memories SET used_ms = ? WHERE id = ?", now_ms(), memory.id)


def list_unwritten(tx: Transaction) -> list[Memory]:
    """Return the rows that their file does not show, or no longer should."""
    return tx.read_all(Memory, "SELECT * FROM memories WHERE (ended = '') <> in_file ORDER BY id")


def list_of_key(tx: Transaction, access: MemoryAccess, key: str) -> list[Memory]:
    """Return all rows of a key that one owns, the newest first."""
    owned, values = access.owned
    query = f"SELECT * FROM memories WHERE {owned} AND key = ? ORDER BY id DESC"  # noqa: S608
    return tx.read_all(Memory, query, *values, key)


def set_in_file(tx: Transaction, access: MemoryAccess, key: str, memory_id: int | None) -> None:
    """Record which row of a key its file shows; None when there is no file."""
    owned, values = access.owned
    query = f"UPDATE memories SET in_file = (id = ?) WHERE {owned} AND key = ?"  # noqa: S608
    tx.execute(query, memory_id or 0, *values, key)


def list_in_chats(tx: Transaction, person_ids: Iterable[str]) -> list[Memory]:
    """Return the memories of groups that come from these people and are in a file."""
    query = """SELECT * FROM memories WHERE scope = 'chat' AND in_file
                  AND person_id IN (SELECT value FROM json_each(?))"""
    return tx.read_all(Memory, query, json.dumps(list(person_ids)))


def access_to(memory: Memory) -> MemoryAccess:
    return MemoryAccess(scope=memory.scope, person_id=memory.person_id or "", place=memory.place)


def find_live(tx: Transaction, access: MemoryAccess) -> list[Memory]:
    """Return the live rows that one owns, without shared ones of others."""
    return _select(tx, access.owned, "ORDER BY key")


def _find_owned(tx: Transaction, access: MemoryAccess, key: str) -> Memory | None:
    found = _select(tx, access.owned, "AND key = ?", key)
    return found[0] if found else None


def _select(tx: Transaction, condition: tuple[str, tuple[str, ...]], rest: str, *more: Value) -> list[Memory]:
    sql, values = condition
    return tx.read_all(Memory, f"SELECT * FROM memories WHERE ended = '' AND {sql} {rest}", *values, *more)  # noqa: S608


def _end(tx: Transaction, memory_id: int, how: str) -> None:
    tx.execute("UPDATE memories SET ended = ?, superseded_ms = ? WHERE id = ?", how, now_ms(), memory_id)


def _revive(tx: Transaction, memory_id: int) -> None:
    query = "UPDATE memories SET ended = '', superseded_ms = NULL, successor_id = NULL WHERE id = ?"
    tx.execute(query, memory_id)


def _record(tx: Transaction, source: Source, action: str, key: str) -> None:
    """Record a change in the trail of the turn that made it. One without a turn is explained by its row alone: a trail
    that belongs to nobody could not be erased."""
    if source.turn_id is None:
        return
    trail.record(tx, TrailEvent.MEMORY_CHANGED, turn_id=source.turn_id, action=action, key=key, writer=source.writer)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenMessage:
    """A message of the user, in their own words, that was not reviewed yet."""

    id: int
    session_id: str
    turn_id: str | None
    person_id: str | None
    text: str


def list_unseen(tx: Transaction, session_id: str) -> list[UnseenMessage]:
    """Return what users said in a session since the last review; copies from another session do not count.

    Conversations at the terminal are short, so they count as one. Of a long history only the end is returned.
    """
    is_terminal = tx.exists("SELECT 1 FROM sessions WHERE id = ? AND platform = 'cli'", session_id)
    query = "SELECT id FROM sessions WHERE platform = 'cli' ORDER BY updated_ms DESC LIMIT ?"
    ids = [row["id"] for row in tx.all(query, _TERMINAL_SESSIONS)] if is_terminal else [session_id]
    query = """SELECT m.id, m.session_id, m.turn_id, m.parts, COALESCE(i.person_id, m.person_id) AS person_id
                 FROM messages m JOIN sessions s ON s.id = m.session_id LEFT JOIN inbox i ON i.id = m.inbox_id
                WHERE m.session_id IN (SELECT value FROM json_each(?)) AND m.role = 'user'
                  AND m.created_ms >= s.created_ms
                  AND m.id > COALESCE((SELECT message_id FROM memory_looks WHERE session_id = s.id), 0)
                ORDER BY m.id DESC LIMIT ?"""
    rows = tx.all(query, json.dumps(ids), _MAX_UNSEEN)
    return [build(UnseenMessage, row, text=words_of(load_parts(row["parts"]))) for row in reversed(rows)]


def mark_seen(tx: Transaction, messages: Iterable[UnseenMessage]) -> None:
    update = "(session_id) DO UPDATE SET message_id = MAX(message_id, excluded.message_id)"
    for session_id, message_id in {one.session_id: one.id for one in messages}.items():  # the last one of each
        tx.insert("memory_looks", update, session_id=session_id, message_id=message_id)


def find_last_message(tx: Transaction, session_id: str) -> int | None:
    """Return the id of the last thing a user said in a session: the source of what the agent notes now."""
    return tx.value("SELECT MAX(id) AS id FROM messages WHERE session_id = ? AND role = 'user'", session_id)


def find_session_before(tx: Transaction, session_id: str) -> str | None:
    """Return the session that ended before this one began in the same conversation."""
    return tx.value(
        """SELECT b.id FROM sessions s JOIN sessions b ON b.key = s.key AND b.id <> s.id AND b.ended_ms IS NOT NULL
            WHERE s.id = ? ORDER BY b.ended_ms DESC LIMIT 1""",
        session_id,
    )
