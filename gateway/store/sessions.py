"""Conversations: a key has one current session; old ones stay readable."""

from dataclasses import dataclass

from agent_core.events import Usage
from gateway.clock import new_session_id, now_ms
from gateway.messages import SessionKey
from gateway.store.connection import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: str
    key: str
    platform: str
    title: str
    display_name: str
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    end_reason: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    total_tokens: int
    messages: int = 0


_COLUMNS = """id, key, platform, title, display_name, created_ms, updated_ms, ended_ms, end_reason,
              input_tokens, output_tokens, cached_tokens, total_tokens"""


def open_current(tx: Transaction, key: SessionKey, *, display_name: str = "") -> Session:
    """The current session of a key, begun if there is none."""
    now = now_ms()
    if session := find_current(tx, str(key)):
        tx.execute("UPDATE sessions SET updated_ms = ? WHERE id = ?", now, session.id)
        return session
    # No RETURNING: with it SQLite looks for turns and sessions that wait for this one, through all there are.
    tx.execute(
        """INSERT INTO sessions (id, key, platform, account, kind, chat, thread, user_id, display_name,
                                 created_ms, updated_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        new_session_id(now),
        str(key),
        key.platform,
        key.account,
        key.kind,
        key.chat,
        key.thread,
        key.user,
        display_name,
        now,
        now,
    )
    session = find_current(tx, str(key))
    assert session is not None
    return session


def find_current(tx: Transaction, key: str) -> Session | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM sessions WHERE key = ? AND ended_ms IS NULL", key)  # noqa: S608
    return Session(**dict(row)) if row is not None else None


def end_current(tx: Transaction, key: str, *, reason: str) -> bool:
    """Ends the current session; the next message begins another. False when there was none."""
    return (
        tx.execute(
            "UPDATE sessions SET ended_ms = ?, end_reason = ? WHERE key = ? AND ended_ms IS NULL", now_ms(), reason, key
        )
        > 0
    )


def add_usage(tx: Transaction, session_id: str, usage: Usage) -> None:
    tx.execute(
        """UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,
                  cached_tokens = cached_tokens + ?, total_tokens = total_tokens + ?, updated_ms = ? WHERE id = ?""",
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.input_tokens + usage.output_tokens,
        now_ms(),
        session_id,
    )


def prompt(tx: Transaction, session_id: str) -> str | None:
    """None when the session has none yet."""
    row = tx.one("SELECT prompt FROM sessions WHERE id = ?", session_id)
    return row["prompt"] if row is not None else None


def fix_prompt(tx: Transaction, session_id: str, text: str) -> str:
    """Keeps the text unless there is one already; gives the one that holds."""
    tx.execute("UPDATE sessions SET prompt = ? WHERE id = ? AND prompt IS NULL", text, session_id)
    return prompt(tx, session_id) or ""


def set_title(tx: Transaction, session_id: str, title: str) -> None:
    tx.execute("UPDATE sessions SET title = ? WHERE id = ? AND title = ''", title, session_id)


def recent(tx: Transaction, *, platform: str = "", limit: int = 20) -> list[Session]:
    rows = tx.all(
        f"""SELECT {_COLUMNS}, (SELECT COUNT(*) FROM messages m WHERE m.session_id = s.id) AS messages
              FROM sessions s WHERE ? = '' OR platform = ? ORDER BY updated_ms DESC, id DESC LIMIT ?""",  # noqa: S608
        platform,
        platform,
        limit,
    )
    return [Session(**dict(row)) for row in rows]


def find(tx: Transaction, name: str) -> Session | None:
    """By id, by the beginning of an id that only one has, or by key (its newest session)."""
    rows = tx.all(
        f"""SELECT {_COLUMNS} FROM sessions WHERE id = ? OR key = ? OR substr(id, 1, ?) = ?
             ORDER BY id = ? DESC, key = ? DESC, created_ms DESC, id DESC LIMIT 2""",  # noqa: S608
        name,
        name,
        len(name),
        name,
        name,
        name,
    )
    if not rows or (len(rows) > 1 and name not in (rows[0]["id"], rows[0]["key"])):
        return None
    return Session(**dict(rows[0]))
