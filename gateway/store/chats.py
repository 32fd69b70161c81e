"""Chats as places: which ones an owner has opened, the home for notices, and the move of a chat to another id."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from gateway.clock import now_ms
from gateway.messages import PROGRAMS, Address, Cursor, InboundMessage, SessionKey
from gateway.store import inbox
from gateway.store.db.connection import Transaction
from gateway.store.inbox import key_of
from gateway.store.tables import INBOX_OPEN, TABLES

_MESSAGES_SEARCHED = 100_000
_MOVED = [(table.name, table.moves_with) for table in TABLES if table.moves_with is not None]


def allow(tx: Transaction, account: str, chat: str, *, by: str) -> None:
    """Let everybody in this chat talk to us."""
    update = "(account, chat) DO UPDATE SET allowed_ms = excluded.allowed_ms, allowed_by = excluded.allowed_by"
    tx.insert("chats", update, account=account, chat=chat, allowed_ms=now_ms(), allowed_by=by)


def disallow(tx: Transaction, account: str, chat: str, *, stays_open: bool = False) -> bool:
    """Close a chat and drop its guests' waiting messages unless it `stays_open`; return whether it was allowed."""
    query = """UPDATE chats SET allowed_ms = NULL, allowed_by = ''
                WHERE account = ? AND chat = ? AND allowed_ms IS NOT NULL"""
    changed = tx.execute(query, account, chat)
    if changed and not stays_open:
        inbox.drop_waiting_in(tx, account, chat, "guest", inbox.Outcome.CHAT_CLOSED)
    return changed > 0


def set_home(tx: Transaction, account: str, chat: str) -> None:
    """Make a chat the home of its account, replacing the previous one."""
    tx.execute("UPDATE chats SET home_ms = NULL WHERE account = ? AND chat <> ?", account, chat)
    update = "(account, chat) DO UPDATE SET home_ms = excluded.home_ms"
    tx.insert("chats", update, account=account, chat=chat, home_ms=now_ms())


def find_home(tx: Transaction, account: str) -> str | None:
    return tx.value("SELECT chat FROM chats WHERE account = ? AND home_ms IS NOT NULL", account)


def move(tx: Transaction, account: str, old: str, new: str) -> None:
    """Give a group its new id: its conversations, open work and permissions follow."""
    platform, _, name = account.partition("@")
    for key in _keys(tx, account, old):
        parts = key.split(":")
        parts[parts.index(old)] = new
        _rename(tx, key, ":".join(parts))
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
                changes = ", ".join(filter(None, (f"{place} = ?1", move.reset)))
                query = f"UPDATE {table} SET {changes} WHERE {place} = ?2 AND {move.when}"  # noqa: S608
                tx.execute(query, f"{account}:{new}", f"{account}:{old}")
    query = """INSERT INTO chats (account, chat, title, allowed_ms, allowed_by, home_ms)
               SELECT account, ?, title, allowed_ms, allowed_by, home_ms FROM chats WHERE account = ? AND chat = ?
               ON CONFLICT (account, chat) DO UPDATE SET
                      allowed_ms = COALESCE(chats.allowed_ms, excluded.allowed_ms),
                      allowed_by = COALESCE(NULLIF(chats.allowed_by, ''), excluded.allowed_by),
                      home_ms = COALESCE(chats.home_ms, excluded.home_ms)"""
    tx.execute(query, new, account, old)
    tx.execute("DELETE FROM chats WHERE account = ? AND chat = ?", account, old)


def _keys(tx: Transaction, account: str, chat: str) -> list[str]:
    """Return the keys of all conversations in a chat, including those that have not begun."""
    platform, _, name = account.partition("@")
    query = f"""SELECT key FROM sessions WHERE platform = ? AND account = ? AND chat = ?
                UNION SELECT session_key FROM inbox WHERE account = ? AND chat = ? AND {INBOX_OPEN}
                UNION SELECT session_key FROM overheard WHERE account = ?"""  # noqa: S608
    found = tx.all(query, platform, name, chat, account, chat, account)
    return [row["key"] for row in found if chat in row["key"].split(":")]


def _rename(tx: Transaction, old: str, new: str) -> None:
    """Give a conversation a new key. One begun under the new key meanwhile stays the current one."""
    if tx.exists("SELECT 1 FROM sessions WHERE key = ? AND ended_ms IS NULL", new):
        query = "UPDATE sessions SET ended_ms = updated_ms, end_reason = 'moved' WHERE key = ? AND ended_ms IS NULL"
        tx.execute(query, old)
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
    """Return the private chat in which an owner last wrote on one of these accounts; never a former owner's, nor one of
    their programs, where nobody would read it.

    The config's owners may be paired with a lesser role: their role at the time of writing counts, unless they were
    paired again since.
    """
    query = """SELECT i.account, i.chat, i.thread FROM inbox i
                 JOIN identities known ON known.account = i.account AND known.user_id = i.sender_id
                 JOIN people p ON p.id = known.person_id
                WHERE i.role = 'owner' AND i.chat_kind IN ('dm', '')
                  AND i.account IN (SELECT value FROM json_each(?)) AND i.id > (SELECT MAX(id) FROM inbox) - ?
                  AND known.revoked_ms IS NULL
                  AND (p.role = 'owner' OR COALESCE(known.paired_ms, 0) < i.accepted_ms)
                ORDER BY i.id DESC LIMIT 1"""
    read = [account for account in accounts if account != PROGRAMS]
    return tx.read_one(Address, query, json.dumps(read), _MESSAGES_SEARCHED)


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
    query = """SELECT kind, display_name FROM sessions WHERE platform = ? AND account = ? AND chat = ?
                  AND ? IN ('', thread) ORDER BY updated_ms DESC, id DESC LIMIT 1"""
    session = tx.one(query, platform, name, chat, thread)
    query = """SELECT chat_kind AS kind, sender_name AS display_name FROM inbox
                WHERE account = ? AND chat = ? AND ? IN ('', thread) ORDER BY id DESC LIMIT 1"""
    known = session or tx.one(query, account, chat, thread)
    query = """SELECT title, home_ms FROM chats
                WHERE account = ? AND chat = ? AND (home_ms IS NOT NULL OR allowed_ms IS NOT NULL)"""
    set_up = tx.one(query, account, chat)
    if known is None and (set_up is None or thread):
        return None
    kind = known["kind"] if known is not None else ""
    title = set_up["title"] if set_up is not None else ""
    # In a group it is only the name of the first speaker.
    with_whom = known["display_name"] if known is not None and kind == "dm" else ""
    is_home = set_up is not None and set_up["home_ms"] is not None and not thread
    return ChatPlace(account=account, chat=chat, thread=thread, kind=kind, name=title or with_whom, is_home=is_home)


def list_homes(tx: Transaction, accounts: Collection[str]) -> list[ChatPlace]:
    query = """SELECT account, chat FROM chats WHERE home_ms IS NOT NULL
                  AND account IN (SELECT value FROM json_each(?)) ORDER BY account"""
    rows = tx.all(query, json.dumps(list(accounts)))
    return [place for row in rows if (place := find(tx, row["account"], row["chat"])) is not None]


def list_recent(tx: Transaction, accounts: Collection[str], *, limit: int) -> list[ChatPlace]:
    """Return the chats that had a conversation, most recently used first, without their threads."""
    query = """SELECT CASE account WHEN '' THEN platform ELSE platform || '@' || account END AS name, chat
                 FROM sessions WHERE name IN (SELECT value FROM json_each(?))
                GROUP BY platform, account, chat ORDER BY MAX(updated_ms) DESC, chat LIMIT ?"""
    found = (find(tx, row["name"], row["chat"]) for row in tx.all(query, json.dumps(list(accounts)), limit))
    return [place for place in found if place is not None]


def list_spoken(tx: Transaction, person_id: str) -> list[Spoken]:
    """Return the conversations in which a person has written to us, under any of their identities."""
    query = """SELECT DISTINCT account, chat, thread, within, chat_kind, user_id, sender_id FROM inbox
                WHERE person_id = ? AND kind IN ('message', 'command') AND id > (SELECT MAX(id) FROM inbox) - ?"""
    return [Spoken(key=key_of(row), sender_id=row["sender_id"]) for row in tx.all(query, person_id, _MESSAGES_SEARCHED)]


_MAX_CHARS = 2_000


def add_overheard(tx: Transaction, message: InboundMessage, *, keep: int) -> None:
    key = str(message.key)
    tx.insert(
        "overheard",
        "DO NOTHING",
        session_key=key,
        account=message.key.account_name,
        sender_id=message.sender.id,
        sender_name=message.sender.name,
        message_id=message.message_id,
        text=message.text[:_MAX_CHARS],
        sent_ms=message.sent_ms,
    )
    query = """DELETE FROM overheard WHERE session_key = ? AND id <=
               (SELECT id FROM overheard WHERE session_key = ? ORDER BY id DESC LIMIT 1 OFFSET ?)"""
    tx.execute(query, key, key, keep)


def take_overheard(tx: Transaction, session_key: str) -> str:
    """Return a line for each overheard message, oldest first, and delete them; empty when there is none."""
    rows = tx.all("SELECT * FROM overheard WHERE session_key = ? ORDER BY sent_ms, id", session_key)
    if rows:
        tx.execute("DELETE FROM overheard WHERE session_key = ?", session_key)
    return "\n".join(f"{row['sender_name'] or row['sender_id']}: {row['text']}" for row in rows)


def read_cursor(tx: Transaction, account: str, channel: str) -> str:
    """Return the stored cursor of a channel; empty when nothing was read yet."""
    return tx.value("SELECT value FROM cursors WHERE account = ? AND channel = ?", account, channel) or ""


def read_cursors(tx: Transaction, account: str) -> dict[str, str]:
    rows = tx.all("SELECT channel, value FROM cursors WHERE account = ?", account)
    return {row["channel"]: row["value"] for row in rows}


def move_cursor(tx: Transaction, account: str, cursor: Cursor) -> None:
    update = "(account, channel) DO UPDATE SET value = excluded.value"
    tx.insert("cursors", update, account=account, channel=cursor.channel, value=cursor.value)
