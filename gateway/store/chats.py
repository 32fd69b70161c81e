"""Chats as places: opened by an owner, the home for notices, and what becomes of one that goes on under another id."""

import json
from collections.abc import Collection

from gateway.clock import now_ms
from gateway.messages import Address
from gateway.store import approvals, drafts, inbox, processes, spending
from gateway.store.connection import Transaction

_MESSAGES_SEARCHED = 100_000


def allow(tx: Transaction, account: str, chat: str, *, by: str) -> None:
    """Everybody in this chat may talk to us from now on."""
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
    """Whether it had been allowed. What guests have waiting in it ends with that, unless the config lets them in."""
    changed = tx.execute(
        """UPDATE chats SET allowed_ms = NULL, allowed_by = ''
            WHERE account = ? AND chat = ? AND allowed_ms IS NOT NULL""",
        account,
        chat,
    )
    if changed and not stays_open:
        inbox.drop_waiting_in(tx, account, chat, "guest", "chat closed")
    return changed > 0


def set_home(tx: Transaction, account: str, chat: str) -> None:
    """One home an account: the one before is none any more."""
    tx.execute("UPDATE chats SET home_ms = NULL WHERE account = ? AND chat <> ?", account, chat)
    tx.execute(
        """INSERT INTO chats (account, chat, home_ms) VALUES (?, ?, ?)
           ON CONFLICT (account, chat) DO UPDATE SET home_ms = excluded.home_ms""",
        account,
        chat,
        now_ms(),
    )


def home(tx: Transaction, account: str) -> str | None:
    row = tx.one("SELECT chat FROM chats WHERE account = ? AND home_ms IS NOT NULL", account)
    return str(row["chat"]) if row is not None else None


def move(tx: Transaction, account: str, old: str, new: str) -> None:
    """A group was given another id: its conversations, what waits in it and what was allowed in it go along."""
    platform, _, name = account.partition("@")
    for key in _keys(tx, account, old):
        _rename(tx, key, _moved(key, old, new))
    tx.execute("UPDATE sessions SET chat = ? WHERE platform = ? AND account = ? AND chat = ?", new, platform, name, old)
    # Messages are numbered anew there: without a mark of their own the old ones would be taken for the new, or for
    # second copies of them.
    tx.execute(
        "UPDATE inbox SET chat = ?, edited_ms = -id WHERE account = ? AND chat = ? AND state <> 'done'",
        new,
        account,
        old,
    )
    tx.execute(
        """UPDATE outbox SET chat = ?, reply_to = '', edits = '', replaces = ''
            WHERE account = ? AND chat = ? AND state IN ('ready', 'sending', 'unsure', 'in_doubt')""",
        new,
        account,
        old,
    )
    spending.move(tx, account, old, new)
    processes.move(tx, account, old, new)
    approvals.move(tx, account, old, new)
    drafts.forget_in(tx, account, old)  # out of reach: what stands in the old group can no longer be changed
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
    """Of all conversations in a chat, also of those that have not been begun."""
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


def _moved(key: str, old: str, new: str) -> str:
    parts = key.split(":")
    parts[parts.index(old)] = new
    return ":".join(parts)


def _rename(tx: Transaction, old: str, new: str) -> None:
    """One that was begun under the new key meanwhile is the current one."""
    taken = tx.one("SELECT 1 FROM sessions WHERE key = ? AND ended_ms IS NULL", new)
    if taken is not None:
        tx.execute(
            "UPDATE sessions SET ended_ms = updated_ms, end_reason = 'moved' WHERE key = ? AND ended_ms IS NULL", old
        )
    tx.execute("UPDATE sessions SET key = ? WHERE key = ?", new, old)
    tx.execute("UPDATE OR IGNORE turns SET session_key = ? WHERE session_key = ?", new, old)
    tx.execute("UPDATE inbox SET session_key = ? WHERE session_key = ? AND state <> 'done'", new, old)
    tx.execute("UPDATE OR IGNORE overheard SET session_key = ? WHERE session_key = ?", new, old)
    processes.rename(tx, old, new)
    approvals.rename(tx, old, new)


def where_to_tell(tx: Transaction, accounts: Collection[str]) -> Address | None:
    """Where an owner reads what we have to say about ourselves: a home, else where one was heard last."""
    for account in sorted(accounts):
        if (chat := home(tx, account)) is not None:
            return Address(account=account, chat=chat)
    return newest_of_an_owner(tx, accounts)


def newest_of_an_owner(tx: Transaction, accounts: Collection[str]) -> Address | None:
    """Where an owner was heard last, alone with us, on one of these accounts; never who is an owner no longer.

    The config's owners may be paired as something less: what they were when they spoke counts, unless they were
    let in anew since.
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
