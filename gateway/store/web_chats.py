"""Chats as people see them: what they sent, what came back, and what the tools did in between.

Unlike the model's transcript, this includes commands, notices and explanations.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gateway.clock import now_ms
from gateway.messages import Choice
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.outbox import load_choices
from gateway.store.search import OWNER_READS, Filter, search
from gateway.store.sessions import title_of
from gateway.store.tables import INBOX_OPEN, TURN_OPEN
from tools.content import Part, load_parts, loads_list, text_of, words_of

_SHOWN_CHARS = 20_000  # of a tool's result; only models need more


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message that a person sent."""

    message_id: str
    parts: tuple[Part, ...]
    at_ms: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    id: str
    name: str
    arguments: str
    result: str | None
    error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """A message that we sent."""

    key: str
    kind: str
    parts: tuple[Part, ...]
    at_ms: int
    answers: tuple[str, ...]
    tools: tuple[ToolUse, ...]
    choices: tuple[Choice, ...] = ()
    failed: bool = False  # says that a turn has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    id: str
    title: str
    updated_ms: int
    running: bool
    excerpt: str = ""


def timeline(tx: Transaction, account: str, chat: str, session_key: str, *, limit: int = 500) -> list[Said | Replied]:
    """Return the newest messages of each side, oldest first."""
    query = """SELECT message_id, parts, accepted_ms AS at_ms, REPLACE(state, 'ready', 'waiting') AS state FROM inbox
                WHERE session_key = ? AND kind NOT IN ('process', 'wake', 'button')
                  -- a command that begins a turn has a second row for it
                  AND NOT (kind = 'message' AND EXISTS (
                      SELECT 1 FROM inbox c WHERE c.account = inbox.account AND c.chat = inbox.chat
                         AND c.message_id = inbox.message_id AND c.kind = 'command'))
                ORDER BY id DESC LIMIT ?"""
    said = [build(Said, row, parts=load_parts(row["parts"])) for row in tx.all(query, session_key, limit)]
    query = """SELECT key, kind, parts, created_ms AS at_ms, answers, turn_id, choices, edits, EXISTS (
                      SELECT 1 FROM turns WHERE id = outbox.turn_id AND outcome IN ('failed', 'given_up')) AS failed
                 FROM outbox WHERE account = ? AND chat = ? AND NOT (kind = 'notice' AND state = 'expired')
                ORDER BY id DESC LIMIT ?"""
    replied = _apply_edits(tx, tx.all(query, account, chat, limit)[::-1])
    return sorted((*said, *replied), key=lambda item: (item.at_ms, isinstance(item, Replied)))


def chats(tx: Transaction, platform: str, *, limit: int = 100) -> list[Chat]:
    """Return the chats with a conversation or a waiting message, most recently used first."""
    query = f"""WITH begun AS (
               SELECT key, chat, MAX(updated_ms) AS updated_ms FROM sessions
                WHERE platform = ?1 AND key = ?1 || ':' || chat GROUP BY chat
           ), waiting AS (
               SELECT session_key AS key, chat, MAX(accepted_ms) AS updated_ms FROM inbox
                WHERE account = ?1 AND kind = 'message' AND session_key = ?1 || ':' || chat AND {INBOX_OPEN}
                GROUP BY chat
           )
           SELECT key, chat AS id, updated_ms, EXISTS (
                      SELECT 1 FROM turns WHERE session_key = key AND {TURN_OPEN}) AS running FROM begun
            UNION ALL
           SELECT key, chat, updated_ms, TRUE FROM waiting WHERE chat NOT IN (SELECT chat FROM begun)
            ORDER BY updated_ms DESC LIMIT ?2"""  # noqa: S608
    rows = tx.all(query, platform, limit)
    return [build(Chat, row, title=title(tx, row["key"]), running=bool(row["running"])) for row in rows]


def find_chats(tx: Transaction, platform: str, query: str, *, limit: int = 50) -> list[Chat]:
    """Return the chats with matching messages, best match first."""
    known = {chat.id: chat for chat in chats(tx, platform, limit=10_000)}
    found: dict[str, Chat] = {}
    for window in search(tx, query, reader=OWNER_READS, where=Filter(platform=platform), limit=limit * 2):
        hit = window.hit
        chat = known.get(hit.session_key.partition(":")[2])
        if chat is not None and chat.id not in found and len(found) < limit:
            found[chat.id] = replace(chat, excerpt=hit.excerpt)
    return list(found.values())


def title(tx: Transaction, session_key: str) -> str:
    """Return the title of a chat; before its first turn has ended, the one it will get."""
    row = tx.one("SELECT title FROM sessions WHERE key = ? AND title <> '' ORDER BY created_ms LIMIT 1", session_key)
    if row is not None:
        return str(row["title"])
    query = "SELECT parts FROM inbox WHERE session_key = ? AND kind = 'message' ORDER BY id LIMIT 1"
    first = tx.one(query, session_key)
    parts = load_parts(first["parts"]) if first is not None else ()
    return title_of(words_of(parts) or text_of(parts))


def _apply_edits(tx: Transaction, rows: Sequence[Row]) -> list[Replied]:
    """Put each message that replaced an earlier one in that one's place; oldest first."""
    items: dict[str, Replied] = {}
    for row in rows:
        is_answer = row["kind"] == "answer"
        item = build(
            Replied,
            row,
            parts=load_parts(row["parts"]),
            answers=loads_list(row["answers"]),
            tools=tools_of_turn(tx, row["turn_id"]) if row["turn_id"] and is_answer else (),
            choices=load_choices(row["choices"]),
            failed=is_answer and bool(row["failed"]),
        )
        if (changed := items.get(row["edits"])) is not None:
            items[changed.key] = replace(changed, parts=item.parts, choices=item.choices)
        else:
            items[item.key] = item
    return list(items.values())


def tools_of_turn(tx: Transaction, turn_id: str) -> tuple[ToolUse, ...]:
    query = """SELECT role, tool_calls, tool_call_id, parts, is_error FROM messages
                WHERE turn_id = ? AND (role = 'tool' OR tool_calls <> '') ORDER BY id"""
    rows = tx.all(query, turn_id)
    results = {row["tool_call_id"]: row for row in rows if row["role"] == "tool"}
    return tuple(
        ToolUse(
            id=call["id"],
            name=call["name"],
            arguments=call["arguments"],
            result=_shorten(text_of(load_parts(results[call["id"]]["parts"]))) if call["id"] in results else None,
            error=bool(results[call["id"]]["is_error"]) if call["id"] in results else False,
        )
        for row in rows
        if row["tool_calls"]
        for call in loads_list(row["tool_calls"])
    )


def _shorten(result: str) -> str:
    """Shorten a command's output, not the JSON around it, which the page must still parse."""
    if len(result) <= _SHOWN_CHARS:
        return result
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("output"), str):
        return result[:_SHOWN_CHARS]
    return json.dumps(value | {"output": value["output"][:_SHOWN_CHARS]}, ensure_ascii=False)


LINK_LIFE_MS = 3_600_000
COOKIE_LIFE_MS = 30 * 86_400_000


def new_link(tx: Transaction) -> str:
    """Return the token of a link that works once, within the hour."""
    return _add_key(tx, "link", LINK_LIFE_MS)


def exchange(tx: Transaction, link: str) -> str | None:
    """Exchange a link for a cookie, using up the link; None if it is unknown, used or too old."""
    used = tx.execute("DELETE FROM web_keys WHERE hash = ? AND kind = 'link' AND expires_ms > ?", _hash(link), now_ms())
    return new_cookie(tx) if used else None


def new_cookie(tx: Transaction) -> str:
    tx.execute("DELETE FROM web_keys WHERE expires_ms <= ?", now_ms())
    return _add_key(tx, "cookie", COOKIE_LIFE_MS)


def is_valid(tx: Transaction, cookie: str) -> bool:
    # Looked up by hash, so that the time taken reveals nothing about the cookie.
    query = "SELECT 1 FROM web_keys WHERE hash = ? AND kind = 'cookie' AND expires_ms > ?"
    return tx.exists(query, _hash(cookie), now_ms())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _add_key(tx: Transaction, kind: Literal["link", "cookie"], life_ms: int) -> str:
    token, now = secrets.token_urlsafe(32), now_ms()
    tx.insert("web_keys", hash=_hash(token), kind=kind, created_ms=now, expires_ms=now + life_ms)
    return token
