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
from gateway.store.db.connection import Row, Transaction
from gateway.store.outbox import load_choices
from gateway.store.search import Filter, search
from gateway.store.sessions import title_of
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
    said = tx.all(
        """SELECT message_id, parts, accepted_ms, state FROM inbox
            WHERE session_key = ? AND kind NOT IN ('process', 'wake', 'button') ORDER BY id DESC LIMIT ?""",
        session_key,
        limit,
    )
    replied = tx.all(
        """SELECT key, kind, parts, created_ms, answers, turn_id, choices, edits, EXISTS (
                  SELECT 1 FROM turns WHERE id = outbox.turn_id AND outcome IN ('failed', 'given_up')) AS turn_failed
             FROM outbox
            WHERE account = ? AND chat = ? AND NOT (kind = 'notice' AND state = 'expired') ORDER BY id DESC LIMIT ?""",
        account,
        chat,
        limit,
    )
    items: list[tuple[int, int, Said | Replied]] = [(row["accepted_ms"], 0, _to_said(row)) for row in said]
    items += [(item.at_ms, 1, item) for item in _apply_edits(tx, replied[::-1])]
    return [item for _, _, item in sorted(items, key=lambda placed: placed[:2])]


def chats(tx: Transaction, platform: str, *, limit: int = 100) -> list[Chat]:
    """Return the chats with a conversation or a waiting message, most recently used first."""
    rows = tx.all(
        """WITH begun AS (
               SELECT key, chat, MAX(updated_ms) AS updated_ms FROM sessions WHERE platform = ? GROUP BY chat
           ), waiting AS (
               SELECT session_key AS key, chat, MAX(accepted_ms) AS updated_ms FROM inbox
                WHERE account = ? AND kind = 'message' AND state <> 'done' GROUP BY chat
           )
           SELECT key, chat, updated_ms, EXISTS (
                      SELECT 1 FROM turns WHERE session_key = key AND state <> 'done') AS running FROM begun
            UNION ALL
           SELECT key, chat, updated_ms, TRUE FROM waiting WHERE chat NOT IN (SELECT chat FROM begun)
            ORDER BY updated_ms DESC LIMIT ?""",
        platform,
        platform,
        limit,
    )
    return [
        Chat(id=row["chat"], title=title(tx, row["key"]), updated_ms=row["updated_ms"], running=bool(row["running"]))
        for row in rows
    ]


def find_chats(tx: Transaction, platform: str, query: str, *, limit: int = 50) -> list[Chat]:
    """Return the chats with matching messages, best match first."""
    known = {chat.id: chat for chat in chats(tx, platform, limit=10_000)}
    found: dict[str, Chat] = {}
    for hit in search(tx, query, where=Filter(platform=platform), limit=limit * 4):
        chat = known.get(hit.session_key.partition(":")[2])
        if chat is not None and chat.id not in found and len(found) < limit:
            found[chat.id] = Chat(
                id=chat.id, title=chat.title, updated_ms=chat.updated_ms, running=chat.running, excerpt=hit.excerpt
            )
    return list(found.values())


def title(tx: Transaction, session_key: str) -> str:
    """Return the title of a chat; before its first turn has ended, the one it will get."""
    row = tx.one("SELECT title FROM sessions WHERE key = ? AND title <> '' ORDER BY created_ms LIMIT 1", session_key)
    if row is not None:
        return str(row["title"])
    first = tx.one(
        "SELECT parts FROM inbox WHERE session_key = ? AND kind = 'message' ORDER BY id LIMIT 1", session_key
    )
    parts = load_parts(first["parts"]) if first is not None else ()
    return title_of(words_of(parts) or text_of(parts))


def _to_said(row: Row) -> Said:
    state = "waiting" if row["state"] == "ready" else str(row["state"])
    return Said(message_id=row["message_id"], parts=load_parts(row["parts"]), at_ms=row["accepted_ms"], state=state)


def _apply_edits(tx: Transaction, rows: Sequence[Row]) -> list[Replied]:
    """Put each message that replaced an earlier one in that one's place; oldest first."""
    items: dict[str, Replied] = {}
    for row in rows:
        item = _to_replied(tx, row)
        if (changed := items.get(row["edits"])) is not None:
            items[changed.key] = replace(changed, parts=item.parts, choices=item.choices)
        else:
            items[item.key] = item
    return list(items.values())


def _to_replied(tx: Transaction, row: Row) -> Replied:
    return Replied(
        key=row["key"],
        kind=row["kind"],
        parts=load_parts(row["parts"]),
        at_ms=row["created_ms"],
        answers=loads_list(row["answers"]),
        tools=tools_of_turn(tx, row["turn_id"]) if row["turn_id"] and row["kind"] == "answer" else (),
        choices=load_choices(row["choices"]),
        failed=row["kind"] == "answer" and bool(row["turn_failed"]),
    )


def tools_of_turn(tx: Transaction, turn_id: str) -> tuple[ToolUse, ...]:
    rows = tx.all(
        """SELECT role, tool_calls, tool_call_id, parts, is_error FROM messages
            WHERE turn_id = ? AND (role = 'tool' OR tool_calls <> '') ORDER BY id""",
        turn_id,
    )
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
    return _new(tx, "link", LINK_LIFE_MS)


def exchange(tx: Transaction, link: str) -> str | None:
    """Exchange a link for a cookie, using up the link; None if it is unknown, used or too old."""
    used = tx.execute("DELETE FROM web_keys WHERE hash = ? AND kind = 'link' AND expires_ms > ?", _hash(link), now_ms())
    return new_cookie(tx) if used else None


def new_cookie(tx: Transaction) -> str:
    tx.execute("DELETE FROM web_keys WHERE expires_ms <= ?", now_ms())
    return _new(tx, "cookie", COOKIE_LIFE_MS)


def is_valid(tx: Transaction, cookie: str) -> bool:
    # Looked up by hash, so that the time taken reveals nothing about the cookie.
    row = tx.one(
        "SELECT 1 FROM web_keys WHERE hash = ? AND kind = 'cookie' AND expires_ms > ?", _hash(cookie), now_ms()
    )
    return row is not None


def _new(tx: Transaction, kind: Literal["link", "cookie"], life_ms: int) -> str:
    token = secrets.token_urlsafe(32)
    now = now_ms()
    tx.execute(
        "INSERT INTO web_keys (hash, kind, created_ms, expires_ms) VALUES (?, ?, ?, ?)",
        _hash(token),
        kind,
        now,
        now + life_ms,
    )
    return token


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
