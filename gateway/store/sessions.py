"""Sessions: the conversations of a key, when they end, and their titles and prompts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from agent_core.events import Usage
from gateway.clock import new_session_id, now_ms
from gateway.messages import SessionKey
from gateway.policies.resets import NEVER, REASONS, Reason, Resets
from gateway.store.db.connection import Row, Transaction
from tools.content import Part, dump_parts, load_parts

_LONGEST_CHARS = 60


def title_of(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_CHARS else words[: _LONGEST_CHARS - 1] + "…"


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
    cost_micros: int
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """The session before the current one, which ended by itself."""

    id: str
    platform: str
    kind: str
    reason: Reason


RESUMED_OTHER = "resumed other"

# A conversation with a running background process does not end by itself.
_AT_WORK = "EXISTS (SELECT 1 FROM processes WHERE task_id = s.id AND state = 'running')"
_CURRENT = f"SELECT id, platform, kind, updated_ms FROM sessions s WHERE ended_ms IS NULL AND NOT {_AT_WORK}"  # noqa: S608
_QUIET = f"""{_CURRENT} AND id = ?
       AND NOT EXISTS (SELECT 1 FROM turns WHERE session_key = s.key AND state <> 'done')
       AND NOT EXISTS (SELECT 1 FROM inbox INDEXED BY inbox_open WHERE session_key = s.key AND state <> 'done'
                          AND kind IN ('message', 'wake'))"""  # noqa: S608
_COLUMNS = """id, key, platform, title, display_name, created_ms, updated_ms, ended_ms, end_reason,
              input_tokens, output_tokens, cached_tokens, total_tokens, cost_micros"""


def open_current(
    tx: Transaction, key: SessionKey, *, display_name: str = "", resets: Resets = NEVER, at_ms: int | None = None
) -> Session:
    """Return the current session of a key; begin another if there is none, or if it was due to end at that moment."""
    now = now_ms()
    session = find_current(tx, str(key))
    if session is not None:
        reason = resets.reason(
            platform=key.platform,
            kind=key.kind,
            last_used_ms=session.updated_ms,
            now_ms=now if at_ms is None else at_ms,
        )
        if reason is None or _is_at_work(tx, session.id):
            tx.execute("UPDATE sessions SET updated_ms = ? WHERE id = ?", now, session.id)
            return session
        end_current(tx, str(key), reason=reason)
    # No RETURNING: with it SQLite would scan all turns and sessions for references to this one.
    tx.execute(
        """INSERT INTO sessions (id, key, platform, account, kind, chat, thread, user_id, display_name, parent_id,
                                 created_ms, updated_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        new_session_id(now),
        str(key),
        key.platform,
        key.account,
        key.kind,
        key.chat,
        key.thread,
        key.user,
        display_name,
        _ended_by_itself(tx, str(key)),
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
    """End the current session; the next message begins another. Return False when there was none."""
    return (
        tx.execute(
            "UPDATE sessions SET ended_ms = ?, end_reason = ? WHERE key = ? AND ended_ms IS NULL", now_ms(), reason, key
        )
        > 0
    )


def list_due(tx: Transaction, resets: Resets) -> list[str]:
    """Return the ids of current sessions that are due to end."""
    return [row["id"] for row in tx.all(_CURRENT) if _reason(row, resets)]


def end_due(tx: Transaction, ids: Iterable[str], resets: Resets) -> int:
    """End the sessions that are still due and in which nothing runs or waits; return their number."""
    ended = 0
    for session_id in ids:
        row = tx.one(_QUIET, session_id)
        if row is not None and (reason := _reason(row, resets)):
            end = "UPDATE sessions SET ended_ms = ?, end_reason = ? WHERE id = ?"
            ended += tx.execute(end, now_ms(), reason, session_id)
    return ended


def find_untold_end(tx: Transaction, session_id: str) -> EndedSession | None:
    """Return the end of the session before this one, if it ended by itself and its chat was not told."""
    row = tx.one(
        """SELECT before.id, before.platform, before.kind, before.end_reason FROM sessions s
             JOIN sessions before ON before.id = s.parent_id
            WHERE s.id = ? AND before.ended_ms IS NOT NULL AND before.end_reason IN (?, ?) AND NOT before.reset_told""",
        session_id,
        *REASONS,
    )
    if row is None:
        return None
    return EndedSession(
        id=row["id"], platform=row["platform"], kind=row["kind"], reason=cast(Reason, row["end_reason"])
    )


def mark_told(tx: Transaction, session_id: str) -> None:
    tx.execute("UPDATE sessions SET reset_told = 1 WHERE id = ?", session_id)


def dismiss_end(tx: Transaction, key: str) -> None:
    """Record that nobody needs to be told any more that the last session of this key has ended."""
    tx.execute("UPDATE sessions SET reset_told = 1 WHERE key = ? AND end_reason IN (?, ?)", key, *REASONS)


def list_ended(tx: Transaction, key: str, *, limit: int) -> list[Session]:
    """Return the sessions of a key that can be resumed, most recently used first."""
    rows = tx.all(
        f"""SELECT {_COLUMNS} FROM sessions s WHERE key = ? AND ended_ms IS NOT NULL
              AND EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)
             ORDER BY updated_ms DESC, id DESC LIMIT ?""",  # noqa: S608
        key,
        limit,
    )
    return [Session(**dict(row)) for row in rows]


def resume(tx: Transaction, key: str, session_id: str) -> bool:
    """Make an ended session of the key its current one again; return False when there is no such session."""
    if tx.one("SELECT 1 FROM sessions WHERE id = ? AND key = ? AND ended_ms IS NOT NULL", session_id, key) is None:
        return False
    end_current(tx, key, reason=RESUMED_OTHER)
    # Set the time of use: otherwise the next message would end it again.
    tx.execute(
        "UPDATE sessions SET ended_ms = NULL, end_reason = NULL, reset_told = 0, updated_ms = ? WHERE id = ?",
        now_ms(),
        session_id,
    )
    return True


def add_usage(tx: Transaction, session_id: str, usage: Usage) -> None:
    tx.execute(
        """UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,
                  cached_tokens = cached_tokens + ?, total_tokens = total_tokens + ?, cost_micros = cost_micros + ?,
                  updated_ms = ? WHERE id = ?""",
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.total_tokens,
        usage.cost_micros or 0,
        now_ms(),
        session_id,
    )


def verbosity(tx: Transaction, session_id: str) -> str:
    """Return how much this conversation is told about tools; empty when nobody has set it."""
    row = tx.one("SELECT json_extract(settings, '$.verbosity') AS said FROM sessions WHERE id = ?", session_id)
    return str(row["said"] or "") if row is not None else ""


def set_verbosity(tx: Transaction, session_id: str, mode: str) -> None:
    tx.execute("UPDATE sessions SET settings = json_set(settings, '$.verbosity', ?) WHERE id = ?", mode, session_id)


def prompt(tx: Transaction, session_id: str) -> tuple[Part, ...] | None:
    """Return the system prompt of a session; None when it has none yet."""
    row = tx.one("SELECT prompt FROM sessions WHERE id = ?", session_id)
    return load_parts(row["prompt"]) if row is not None and row["prompt"] is not None else None


def fix_prompt(tx: Transaction, session_id: str, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Store the system prompt unless there is one already; return the stored one."""
    tx.execute("UPDATE sessions SET prompt = ? WHERE id = ? AND prompt IS NULL", dump_parts(parts), session_id)
    return prompt(tx, session_id) or ()


def set_title(tx: Transaction, session_id: str, title: str) -> None:
    tx.execute("UPDATE sessions SET title = ? WHERE id = ? AND title = ''", title, session_id)


def rename(tx: Transaction, key: str, title: str) -> bool:
    """Change the title under which the conversations of a key are listed; return False when there is none."""
    return (
        tx.execute(
            """UPDATE sessions SET title = ? WHERE id = (
                   SELECT id FROM sessions WHERE key = ? ORDER BY title = '', created_ms LIMIT 1)""",
            title,
            key,
        )
        > 0
    )


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
    """Find a session by id, by a unique beginning of an id, or by key (its newest session)."""
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


def _ended_by_itself(tx: Transaction, key: str) -> str | None:
    """Return the session that a new one follows, unless somebody ended it on purpose."""
    row = tx.one("SELECT id, end_reason FROM sessions WHERE key = ? ORDER BY ended_ms DESC, id DESC LIMIT 1", key)
    return row["id"] if row is not None and row["end_reason"] in REASONS else None


def _is_at_work(tx: Transaction, session_id: str) -> bool:
    return tx.one(f"SELECT 1 FROM sessions s WHERE id = ? AND {_AT_WORK}", session_id) is not None  # noqa: S608


def _reason(row: Row, resets: Resets) -> Reason | None:
    return resets.reason(
        platform=row["platform"],
        kind=row["kind"],
        last_used_ms=row["updated_ms"],
        now_ms=now_ms(),
    )
