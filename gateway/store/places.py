"""Places where something can be said: chats in which we have been, and those in which somebody has spoken to us."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from gateway.messages import Address, SessionKey
from gateway.store.connection import Row, Transaction
from gateway.store.inbox import key_of

_MESSAGES_SEARCHED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    account: str
    chat: str
    thread: str = ""
    kind: str = ""  # dm, group, channel, thread; empty when that is not known
    name: str = ""  # what people call it, or with whom it is
    is_home: bool = False

    @property
    def id(self) -> str:
        return ":".join(filter(None, (self.account, self.chat, self.thread)))

    @property
    def address(self) -> Address:
        return Address(account=self.account, chat=self.chat, thread=self.thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """That somebody has spoken in a conversation, under this id."""

    key: SessionKey
    sender_id: str


def find(tx: Transaction, account: str, chat: str, thread: str = "") -> Place | None:
    """A chat in which we have been, or a thread of it; None when nothing is known of it."""
    platform, _, name = account.partition("@")
    # The thread itself, or any when none is wanted: where one was, the chat is known.
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


def homes(tx: Transaction, accounts: Collection[str]) -> list[Place]:
    rows = tx.all(
        """SELECT account, chat FROM chats WHERE home_ms IS NOT NULL AND account IN (SELECT value FROM json_each(?))
            ORDER BY account""",
        json.dumps(list(accounts)),
    )
    return [place for row in rows if (place := find(tx, row["account"], row["chat"])) is not None]


def recent(tx: Transaction, accounts: Collection[str], *, limit: int) -> list[Place]:
    """Chats in which there was a conversation, the one used last first; without their threads."""
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


def spoken_in(tx: Transaction, person_id: str) -> list[Spoken]:
    """Where a person has said something to us, under whichever of their identities."""
    rows = tx.all(
        """SELECT DISTINCT account, chat, thread, within, chat_kind, user_id, sender_id FROM inbox
            WHERE person_id = ? AND kind IN ('message', 'command') AND id > (SELECT MAX(id) FROM inbox) - ?""",
        person_id,
        _MESSAGES_SEARCHED,
    )
    return [Spoken(key=key_of(row), sender_id=row["sender_id"]) for row in rows]


def _place(account: str, chat: str, thread: str, known: Row | None, set_up: Row | None) -> Place:
    kind = known["kind"] if known is not None else ""
    title = set_up["title"] if set_up is not None else ""
    # Of a group it is only who spoke first.
    with_whom = known["display_name"] if known is not None and kind == "dm" else ""
    is_home = set_up is not None and set_up["home_ms"] is not None and not thread
    return Place(account=account, chat=chat, thread=thread, kind=kind, name=title or with_whom, is_home=is_home)
