"""Sessions: the conversations of a key, when they end, and their titles and prompts."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from agent_core.events import Usage
from gateway.clock import new_session_id, now_ms
from gateway.messages import SessionKey
from gateway.policies.resets import NEVER, REASONS, Reason, Resets
from gateway.store import offered_tools, trail
from gateway.store.db.connection import Row, Transaction
from gateway.store.trail import TrailEvent
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
class SessionSettings:
    """The choices made for one conversation; empty where nobody has chosen."""

    model: str = ""
    personality: str = ""
    toolsets: tuple[str, ...] = ()
    verbosity: str = ""  # how much is shown of tool calls
    voice: str = ""  # on, off or auto: whether answers are spoken, too
    reasoning: str = ""  # how much the model thinks; empty: as it does by itself
    show_reasoning: bool = False  # whether answers come with its thoughts

    def over(self, preferred: "SessionSettings") -> "SessionSettings":
        """Return these choices, and the preferred ones where nothing was chosen."""
        return replace(preferred, **{name: value for name in self.__slots__ if (value := getattr(self, name))})


NO_CHOICE = SessionSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """The session before the current one, which ended by itself."""

    id: str
    platform: str
    kind: str
    reason: Reason


# A conversation with a running background process does not end by itself.
_AT_WORK = "EXISTS (SELECT 1 FROM processes WHERE task_id = s.id AND state = 'running')"
_CURRENT = f"SELECT id, key, platform, kind, updated_ms FROM sessions s WHERE ended_ms IS NULL AND NOT {_AT_WORK}"  # noqa: S608
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
        if reason is None or tx.exists(f"SELECT 1 FROM sessions s WHERE id = ? AND {_AT_WORK}", session.id):  # noqa: S608
            tx.execute("UPDATE sessions SET updated_ms = ? WHERE id = ?", now, session.id)
            return session
        end_current(tx, str(key), reason=reason)
    return _insert(tx, key, display_name=display_name, parent_id=_ended_by_itself(tx, str(key)))


def open_beside(tx: Transaction, key: SessionKey) -> Session:
    """Begin the session of a prompt in the background, with the choices made in its chat."""
    before = find_current(tx, str(key.of_chat))
    session = _insert(
        tx, key, display_name=before.display_name if before else "", parent_id=before.id if before else None
    )
    if before is not None:
        query = "UPDATE sessions SET settings = (SELECT settings FROM sessions WHERE id = ?) WHERE id = ?"
        tx.execute(query, before.id, session.id)
    return session


def branch(tx: Transaction, key: SessionKey, session: Session, title: str) -> Session:
    """Begin a copy of the current session, which ends and can be resumed; its messages are copied apart."""
    end_current(tx, str(key), reason="branched")
    copy = _insert(tx, key, display_name=session.display_name, parent_id=session.id)
    query = """UPDATE sessions SET title = ?, (settings, prompt) = (SELECT settings, prompt FROM sessions WHERE id = ?)
                WHERE id = ?"""
    tx.execute(query, title, session.id, copy.id)
    offered_tools.copy(tx, session.id, copy.id)
    tx.execute("INSERT INTO todos (task_id, todos) SELECT ?, todos FROM todos WHERE task_id = ?", copy.id, session.id)
    return copy


def _insert(tx: Transaction, key: SessionKey, *, display_name: str, parent_id: str | None) -> Session:
    now = now_ms()
    # `tx.insert` has no RETURNING: with it SQLite would scan all turns and sessions for references to this one.
    tx.insert(
        "sessions",
        id=new_session_id(now),
        key=str(key),
        platform=key.platform,
        account=key.account,
        kind=key.kind,
        chat=key.chat,
        thread=key.thread,
        user_id=key.user,
        display_name=display_name,
        parent_id=parent_id,
        created_ms=now,
        updated_ms=now,
    )
    session = find_current(tx, str(key))
    assert session is not None
    trail.record(tx, TrailEvent.SESSION_BEGUN, session=session.key, id=session.id)
    return session


def find_current(tx: Transaction, key: str) -> Session | None:
    return tx.read_one(Session, f"SELECT {_COLUMNS} FROM sessions WHERE key = ? AND ended_ms IS NULL", key)  # noqa: S608


def end_current(tx: Transaction, key: str, *, reason: str) -> bool:
    """End the current session; the next message begins another. Return False when there was none."""
    current = tx.one("SELECT id, key FROM sessions WHERE key = ? AND ended_ms IS NULL", key)
    if current is not None:
        _end(tx, current, reason)
    return current is not None


def _end(tx: Transaction, session: Row, reason: str) -> None:
    tx.execute("UPDATE sessions SET ended_ms = ?, end_reason = ? WHERE id = ?", now_ms(), reason, session["id"])
    trail.record(tx, TrailEvent.SESSION_ENDED, session=session["key"], id=session["id"], reason=reason)


def list_due(tx: Transaction, resets: Resets) -> list[str]:
    """Return the ids of current sessions that are due to end."""
    return [row["id"] for row in tx.all(_CURRENT) if _reason(row, resets)]


def end_due(tx: Transaction, ids: Iterable[str], resets: Resets) -> int:
    """End the sessions that are still due and in which nothing runs or waits; return their number."""
    ended = 0
    for session_id in ids:
        row = tx.one(_QUIET, session_id)
        if row is not None and (reason := _reason(row, resets)):
            _end(tx, row, reason)
            ended += 1
    return ended


def find_unannounced_end(tx: Transaction, session_id: str) -> EndedSession | None:
    """Return the end of the session before this one, if it ended by itself and its chat was not told."""
    query = """SELECT before.id, before.platform, before.kind, before.end_reason AS reason FROM sessions s
                 JOIN sessions before ON before.id = s.parent_id
                WHERE s.id = ? AND before.ended_ms IS NOT NULL AND before.end_reason IN (?, ?)
                  AND NOT before.reset_told"""
    return tx.read_one(EndedSession, query, session_id, *REASONS)


def mark_announced(tx: Transaction, session_id: str) -> None:
    tx.execute("UPDATE sessions SET reset_told = 1 WHERE id = ?", session_id)


def dismiss_end(tx: Transaction, key: str) -> None:
    """Record that nobody needs to be told any more that the last session of this key has ended."""
    tx.execute("UPDATE sessions SET reset_told = 1 WHERE key = ? AND end_reason IN (?, ?)", key, *REASONS)


def list_ended(tx: Transaction, key: str, *, limit: int) -> list[Session]:
    """Return the sessions of a key that can be resumed, most recently used first."""
    query = f"""SELECT {_COLUMNS} FROM sessions s WHERE key = ? AND ended_ms IS NOT NULL
                   AND EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)
                 ORDER BY updated_ms DESC, id DESC LIMIT ?"""  # noqa: S608
    return tx.read_all(Session, query, key, limit)


def resume(tx: Transaction, key: str, session_id: str) -> bool:
    """Make an ended session of the key its current one again; return False when there is no such session."""
    if not tx.exists("SELECT 1 FROM sessions WHERE id = ? AND key = ? AND ended_ms IS NOT NULL", session_id, key):
        return False
    end_current(tx, key, reason="resumed other")
    # Set the time of use: otherwise the next message would end it again.
    query = "UPDATE sessions SET ended_ms = NULL, end_reason = NULL, reset_told = 0, updated_ms = ? WHERE id = ?"
    tx.execute(query, now_ms(), session_id)
    return True


def add_usage(tx: Transaction, session_id: str, usage: Usage) -> None:
    counted = ("input_tokens", "output_tokens", "cached_tokens", "total_tokens", "cost_micros")
    sums = ", ".join(f"{column} = {column} + ?" for column in counted)
    more = [getattr(usage, column) or 0 for column in counted]
    tx.execute(f"UPDATE sessions SET {sums}, updated_ms = ? WHERE id = ?", *more, now_ms(), session_id)  # noqa: S608


def read_settings(tx: Transaction, session_id: str) -> SessionSettings:
    stored = json.loads(tx.value("SELECT settings FROM sessions WHERE id = ?", session_id) or "{}")
    known = {field.name: stored[field.name] for field in fields(SessionSettings) if stored.get(field.name)}
    return SessionSettings(**known | {"toolsets": tuple(known.get("toolsets", ()))})


def change_settings(tx: Transaction, session_id: str, **changes: str | bool | Sequence[str]) -> None:
    """Set some of the choices; an empty one is none. The prompt names tools and personality, so it is built anew."""
    query = "UPDATE sessions SET settings = json_set(settings, ?, json(?)) WHERE id = ?"
    for name, value in changes.items():
        tx.execute(query, f"$.{name}", json.dumps(value), session_id)
    if changes.keys() & {"personality", "toolsets"}:
        drop_prompt(tx, session_id)


def drop_prompt(tx: Transaction, session_id: str) -> None:
    """Have the system prompt of a session built anew with its next turn."""
    tx.execute("UPDATE sessions SET prompt = NULL WHERE id = ?", session_id)


def prompt(tx: Transaction, session_id: str) -> tuple[Part, ...] | None:
    """Return the system prompt of a session; None when it has none yet."""
    stored = tx.value("SELECT prompt FROM sessions WHERE id = ?", session_id)
    return load_parts(stored) if stored is not None else None


def fix_prompt(tx: Transaction, session_id: str, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Store the system prompt unless there is one already; return the stored one."""
    tx.execute("UPDATE sessions SET prompt = ? WHERE id = ? AND prompt IS NULL", dump_parts(parts), session_id)
    return prompt(tx, session_id) or ()


def set_title(tx: Transaction, session_id: str, title: str, *, replace: bool = False) -> None:
    tx.execute("UPDATE sessions SET title = ? WHERE id = ? AND (title = '' OR ?)", title, session_id, replace)


def rename(tx: Transaction, key: str, title: str) -> bool:
    """Change the title under which the conversations of a key are listed; return False when there is none."""
    query = """UPDATE sessions SET title = ?
                WHERE id = (SELECT id FROM sessions WHERE key = ? ORDER BY title = '', created_ms LIMIT 1)"""
    return tx.execute(query, title, key) > 0


def recent(tx: Transaction, *, platform: str = "", limit: int = 20) -> list[Session]:
    query = f"""SELECT {_COLUMNS}, (SELECT COUNT(*) FROM messages m WHERE m.session_id = s.id) AS messages
                  FROM sessions s WHERE ? IN ('', platform) AND end_reason IS NOT 'delegated'
                 ORDER BY updated_ms DESC, id DESC LIMIT ?"""  # noqa: S608
    return tx.read_all(Session, query, platform, limit)


def count_by_platform(tx: Transaction) -> list[Row]:
    """Return for each platform the conversations, messages, tokens and cost, and when it was used first and last."""
    query = """SELECT platform, COUNT(*) AS sessions, COUNT(*) FILTER (WHERE ended_ms IS NULL) AS open,
                      TOTAL((SELECT COUNT(*) FROM messages m WHERE m.session_id = s.id)) AS messages,
                      TOTAL(total_tokens) AS tokens, TOTAL(cost_micros) AS cost_micros,
                      MIN(created_ms) AS first_ms, MAX(updated_ms) AS last_ms
                 FROM sessions s GROUP BY platform ORDER BY sessions DESC"""
    return tx.all(query)


def find(tx: Transaction, name: str) -> Session | None:
    """Find a session by id, by a unique beginning of an id, or by key (its newest session)."""
    query = f"""SELECT {_COLUMNS} FROM sessions WHERE id = ?1 OR key = ?1 OR substr(id, 1, length(?1)) = ?1
                 ORDER BY id = ?1 DESC, key = ?1 DESC, created_ms DESC, id DESC LIMIT 2"""  # noqa: S608
    found = tx.read_all(Session, query, name)
    if not found or (len(found) > 1 and name not in (found[0].id, found[0].key)):
        return None
    return found[0]


def _ended_by_itself(tx: Transaction, key: str) -> str | None:
    """Return the session that a new one follows, unless somebody ended it on purpose."""
    row = tx.one("SELECT id, end_reason FROM sessions WHERE key = ? ORDER BY ended_ms DESC, id DESC LIMIT 1", key)
    return row["id"] if row is not None and row["end_reason"] in REASONS else None


def _reason(row: Row, resets: Resets) -> Reason | None:
    return resets.reason(platform=row["platform"], kind=row["kind"], last_used_ms=row["updated_ms"], now_ms=now_ms())


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalChat:
    """A conversation at the terminal or in an editor."""

    chat: str
    title: str
    updated_ms: int
    folder: str


def set_folder(tx: Transaction, session_id: str, folder: str) -> None:
    is_text = folder.encode(errors="ignore").decode() == folder  # else neither the store nor an editor can name it
    sql = "UPDATE sessions SET settings = json_set(settings, '$.folder', ?) WHERE id = ?"
    tx.execute(sql, folder if is_text else "", session_id)


def list_terminal_chats(tx: Transaction, *, folder: str, first: int, limit: int) -> list[TerminalChat]:
    """Return the conversations at the terminal whose folder is known, or those in one folder, last used first."""
    rows = tx.all(
        """SELECT chat, title, updated_ms, json_extract(settings, '$.folder') AS folder FROM sessions s
            WHERE platform = 'cli' AND json_extract(settings, '$.folder') <> '' AND end_reason IS NOT 'delegated'
              AND (?1 = '' OR json_extract(settings, '$.folder') = ?1)
              AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = s.key AND (updated_ms, id) > (s.updated_ms, s.id))
            ORDER BY updated_ms DESC, id DESC LIMIT ?2 OFFSET ?3""",
        folder,
        limit,
        first,
    )
    return [TerminalChat(**dict(row)) for row in rows]
