"""Chats as places: which ones an owner has opened, the home for notices, and the move of a chat to another id."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from gateway.clock import now_ms
from gateway.messages import Address, Cursor, InboundMessage, SessionKey
from gateway.store import inbox
from gateway.store.db.connection import Row, Transaction
from gateway.store.inbox import key_of
from gateway.store.tables import TABLES
from gateway.store.trail import TrailEvent

_MESSAGES_SEARCHED = 100_000
_MOVED = [(table.name, table.moves_with) for table in TABLES if table.moves_with is not None]


def allow(tx: Transaction, account: str, chat: str, *, by: str) -> None:
    """Let everybody in this chat talk to us."""
    tx.execute(
        """INSERT INTO chats (account, chat, allowed_ms, allowed_by) VALUES (?, ?, ?, ?)
           ON CONFLICT (account, chat)
           DO UPDATE SET allowed_ms = excluded.allowed_ms, allowed_by = excluded.allowed_by""",
        account,
        chat,
        now_ms(),
        by,
    )


def disallow(tx: Transaction, account: str, chat: str, *, stays_open: bool = False) -> bool:
    """Close a chat and drop its guests' waiting messages unless it `stays_open`; return whether it was allowed."""
    changed = tx.execute(
        """UPDATE chats SET allowed_ms = NULL, allowed_by = ''
            WHERE account = ? AND chat = ? AND allowed_ms IS NOT NULL""",
        account,
        chat,
    )
    if changed and not stays_open:
        inbox.drop_waiting_in(tx, account, chat, "guest", TrailEvent.CHAT_CLOSED)
    return changed > 0


def set_home(tx: Transaction, account: str, chat: str) -> None:
    """Make a chat the home of its account, replacing the previous one."""
    tx.execute("UPDATE chats SET home_ms = NULL WHERE account = ? AND chat <> ?", account, chat)
    tx.execute(
        """INSERT INTO chats (account, chat, home_ms) VALUES (?, ?, ?)
           ON CONFLICT (account, chat) DO UPDATE SET home_ms = excluded.home_ms""",
        account,
        chat,
        now_ms(),
    )


def find_home(tx: Transaction, account: str) -> str | None:
    row = tx.one("SELECT chat FROM chats WHERE account = ? AND home_ms IS NOT NULL", account)
    return str(row["chat"]) if row is not None else None


def move(tx: Transaction, account: str, old: str, new: str) -> None:
    """Give a group its new id: its conversations, open work and permissions follow."""
    platform, _, name = account.partition("@")
    for key in _keys(tx, account, old):
        _rename(tx, key, _replace_chat(key, old, new))
    tx.execute("UPDATE sessions SET chat = ? WHERE platform = ? AND account = ? AND chat = ?", new, platform, name, old)
    for table, move in _MOVED:
        match move.chat:
            case [_, _] if move.delete:
                tx.execute(f"DELETE FROM {table} WHERE (account, chat) = (?, ?)", account, old)  # noqa: S608
            case [of_account, chat]:
                changes = ", ".join(filter(None, (f"{chat} = ?1", move.reset)))
                rows = f"{of_account} = ?2 AND {chat} = ?3 AND {move.when}"
                tx.execute(f"UPDATE {table} SET {changes} WHERE {rows}", new, account, old)  # noqa: S608
            case [place]:
                query = f"UPDATE {table} SET {place} = ? WHERE {place} = ? AND {move.when}"  # noqa: S608
                tx.execute(query, f"{account}:{new}", f"{account}:{old}")
    tx.execute(
        """INSERT INTO chats (account, chat, title, allowed_ms, allowed_by, home_ms)
           SELECT account, ?, title, allowed_ms, allowed_by, home_ms FROM chats WHERE account = ? AND chat = ?
           ON CONFLICT (account, chat) DO UPDATE SET
                  allowed_ms = COALESCE(chats.allowed_ms, excluded.allowed_ms),
                  allowed_by = COALESCE(NULLIF(chats.allowed_by, ''), excluded.allowed_by),
                  home_ms = COALESCE(chats.home_ms, excluded.home_ms)""",
        new,
        account,
        old,
    )
    tx.execute("DELETE FROM chats WHERE account = ? AND chat = ?", account, old)


def _keys(tx: Transaction, account: str, chat: str) -> list[str]:
    """Return the keys of all conversations in a chat, including those that have not begun."""
    platform, _, name = account.partition("@")
    found = tx.all(
        """SELECT key FROM sessions WHERE platform = ? AND account = ? AND chat = ?
            UNION SELECT session_key FROM inbox WHERE account = ? AND chat = ? AND state <> 'done'
            UNION SELECT session_key FROM overheard WHERE account = ?""",
        platform,
        name,
        chat,
        account,
        chat,
        account,
    )
    return [row["key"] for row in found if chat in row["key"].split(":")]


def _replace_chat(key: str, old: str, new: str) -> str:
    parts = key.split(":")
    parts[parts.index(old)] = new
    return ":".join(parts)


def _rename(tx: Transaction, old: str, new: str) -> None:
    """Give a conversation a new key. One begun under the new key meanwhile stays the current one."""
    taken = tx.one("SELECT 1 FROM sessions WHERE key = ? AND ended_ms IS NULL", new)
    if taken is not None:
        tx.execute(
            "UPDATE sessions SET ended_ms = updated_ms, end_reason = 'moved' WHERE key = ? AND ended_ms IS NULL", old
        )
    tx.execute("UPDATE sessions SET key = ? WHERE key = ?", new, old)
    for table, move in _MOVED:
        if move.session_key:
            changes = ", ".join(filter(None, ("session_key = ?1", move.rename)))
            # OR IGNORE: rows that the new key already has, such as a running turn, stay.
            query = f"UPDATE OR IGNORE {table} SET {changes} WHERE session_key = ?2 AND {move.when}"  # noqa: S608
            tx.execute(query, new, old)


def find_notice_address(tx: Transaction, accounts: Collection[str]) -> Address | None:
    """Return where to send notices for an owner: a home, else the chat in which an owner last wrote."""
    for account in sorted(accounts):
        if (chat := find_home(tx, account)) is not None:
            return Address(account=account, chat=chat)
    return find_owner_chat(tx, accounts)


def find_owner_chat(tx: Transaction, accounts: Collection[str]) -> Address | None:
    """Return the private chat in which an owner last wrote on one of these accounts; never a former owner's.

    The config's owners may be paired with a lesser role: their role at the time of writing counts, unless they were
    paired again since.
    """
    row = tx.one(
        """SELECT i.account, i.chat, i.thread FROM inbox i
             JOIN identities known ON known.account = i.account AND known.user_id = i.sender_id
             JOIN people p ON p.id = known.person_id
            WHERE i.role = 'owner' AND i.chat_kind IN ('dm', '')
              AND i.account IN (SELECT value FROM json_each(?)) AND i.id > (SELECT MAX(id) FROM inbox) - ?
              AND known.revoked_ms IS NULL
              AND (p.role = 'owner' OR COALESCE(known.paired_ms, 0) < i.accepted_ms)
            ORDER BY i.id DESC LIMIT 1""",
        json.dumps(list(accounts)),
        _MESSAGES_SEARCHED,
    )
    return Address(account=row["account"], chat=row["chat"], thread=row["thread"]) if row is not None else None


_PLACES_MESSAGES_SEARCHED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlace:
    account: str
    chat: str
    thread: str = ""
    kind: str = ""  # dm, group, channel, thread; empty when unknown
    name: str = ""  # its title, or the other person's name
    is_home: bool = False

    @property
    def id(self) -> str:
        return ":".join(filter(None, (self.account, self.chat, self.thread)))

    @property
    def address(self) -> Address:
        return Address(account=self.account, chat=self.chat, thread=self.thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A conversation in which somebody has written, and the id they used."""

    key: SessionKey
    sender_id: str


def find(tx: Transaction, account: str, chat: str, thread: str = "") -> ChatPlace | None:
    """Return a chat we have been in, or a thread of it; None when it is unknown."""
    platform, _, name = account.partition("@")
    # Without a thread, any thread will do: it proves that the chat is known.
    session = tx.one(
        """SELECT kind, display_name FROM sessions WHERE platform = ? AND account = ? AND chat = ? AND ? IN ('', thread)
            ORDER BY updated_ms DESC, id DESC LIMIT 1""",
        platform,
        name,
        chat,
        thread,
    )
    heard = tx.one(
        """SELECT chat_kind AS kind, sender_name AS display_name FROM inbox
            WHERE account = ? AND chat = ? AND ? IN ('', thread) ORDER BY id DESC LIMIT 1""",
        account,
        chat,
        thread,
    )
    set_up = tx.one(
        """SELECT title, home_ms FROM chats
            WHERE account = ? AND chat = ? AND (home_ms IS NOT NULL OR allowed_ms IS NOT NULL)""",
        account,
        chat,
    )
    known = session or heard
    if known is None and (set_up is None or thread):
        return None
    return _place(account, chat, thread, known, set_up)


def list_homes(tx: Transaction, accounts: Collection[str]) -> list[ChatPlace]:
    rows = tx.all(
        """SELECT account, chat FROM chats WHERE home_ms IS NOT NULL AND account IN (SELECT value FROM json_each(?))
            ORDER BY account""",
        json.dumps(list(accounts)),
    )
    return [place for row in rows if (place := find(tx, row["account"], row["chat"])) is not None]


def list_recent(tx: Transaction, accounts: Collection[str], *, limit: int) -> list[ChatPlace]:
    """Return the chats that had a conversation, most recently used first, without their threads."""
    rows = tx.all(
        """SELECT platform, account, chat FROM sessions
            WHERE CASE account WHEN '' THEN platform ELSE platform || '@' || account END
                  IN (SELECT value FROM json_each(?))
            GROUP BY platform, account, chat ORDER BY MAX(updated_ms) DESC, chat LIMIT ?""",
        json.dumps(list(accounts)),
        limit,
    )
    names = (f"{row['platform']}@{row['account']}" if row["account"] else row["platform"] for row in rows)
    found = (find(tx, account, row["chat"]) for account, row in zip(names, rows, strict=True))
    return [place for place in found if place is not None]


def list_spoken(tx: Transaction, person_id: str) -> list[Spoken]:
    """Return the conversations in which a person has written to us, under any of their identities."""
    rows = tx.all(
        """SELECT DISTINCT account, chat, thread, within, chat_kind, user_id, sender_id FROM inbox
            WHERE person_id = ? AND kind IN ('message', 'command') AND id > (SELECT MAX(id) FROM inbox) - ?""",
        person_id,
        _PLACES_MESSAGES_SEARCHED,
    )
    return [Spoken(key=key_of(row), sender_id=row["sender_id"]) for row in rows]


def _place(account: str, chat: str, thread: str, known: Row | None, set_up: Row | None) -> ChatPlace:
    kind = known["kind"] if known is not None else ""
    title = set_up["title"] if set_up is not None else ""
    # In a group it is only the name of the first speaker.
    with_whom = known["display_name"] if known is not None and kind == "dm" else ""
    is_home = set_up is not None and set_up["home_ms"] is not None and not thread
    return ChatPlace(account=account, chat=chat, thread=thread, kind=kind, name=title or with_whom, is_home=is_home)


_MAX_CHARS = 2_000


def add_overheard(tx: Transaction, message: InboundMessage, *, keep: int) -> None:
    key = str(message.key)
    tx.execute(
        """INSERT INTO overheard (session_key, account, sender_id, sender_name, message_id, text, sent_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING""",
        key,
        message.key.account_name,
        message.sender.id,
        message.sender.name,
        message.message_id,
        message.text[:_MAX_CHARS],
        message.sent_ms,
    )
    tx.execute(
        """DELETE FROM overheard WHERE session_key = ? AND id <=
           (SELECT id FROM overheard WHERE session_key = ? ORDER BY id DESC LIMIT 1 OFFSET ?)""",
        key,
        key,
        keep,
    )


def take_overheard(tx: Transaction, session_key: str) -> str:
    """Return a line for each overheard message, oldest first, and delete them; empty when there is none."""
    rows = tx.all("SELECT * FROM overheard WHERE session_key = ? ORDER BY sent_ms, id", session_key)
    if rows:
        tx.execute("DELETE FROM overheard WHERE session_key = ?", session_key)
    return "\n".join(f"{row['sender_name'] or row['sender_id']}: {row['text']}" for row in rows)


def read_cursor(tx: Transaction, account: str, channel: str) -> str:
    """Return the stored cursor of a channel; empty when nothing was read yet."""
    row = tx.one("SELECT value FROM cursors WHERE account = ? AND channel = ?", account, channel)
    return str(row["value"]) if row is not None else ""


def read_cursors(tx: Transaction, account: str) -> dict[str, str]:
    rows = tx.all("SELECT channel, value FROM cursors WHERE account = ?", account)
    return {row["channel"]: row["value"] for row in rows}


def move_cursor(tx: Transaction, account: str, cursor: Cursor) -> None:
    tx.execute(
        """INSERT INTO cursors (account, channel, value) VALUES (?, ?, ?)
           ON CONFLICT (account, channel) DO UPDATE SET value = excluded.value""",
        account,
        cursor.channel,
        cursor.value,
    )
