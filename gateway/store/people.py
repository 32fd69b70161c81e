"""People, and their identities on platforms."""

from collections.abc import Callable
from typing import cast

from gateway.clock import new_id, now_ms
from gateway.messages import InboundMessage, Sender, SessionKey
from gateway.policies.access import Role, Rules, SenderStatus, decide
from gateway.store.db.connection import Transaction

OWNER = "owner"  # the person who runs this machine account: CLI, local platforms

RoleOf = Callable[[Transaction, SessionKey, str], Role | None]
"""Returns the current role of somebody in a conversation; None when they have no access."""


def read_status(tx: Transaction, account: str, user_id: str, chat: str, within: str = "") -> SenderStatus:
    """Return what is known of a sender, of their chat, and of the channel around it."""
    query = """SELECT i.paired_ms, i.revoked_ms, p.role FROM identities i JOIN people p ON p.id = i.person_id
                WHERE i.account = ? AND i.user_id = ?"""
    known = tx.one(query, account, user_id)
    query = "SELECT 1 FROM chats WHERE account = ? AND chat IN (?, ?) AND allowed_ms IS NOT NULL"
    return SenderStatus(
        paired_as=cast(Role, known["role"]) if known is not None and known["paired_ms"] is not None else None,
        revoked=known is not None and known["revoked_ms"] is not None,
        chat_allowed=tx.exists(query, account, chat, within or chat),
    )


def find_role(tx: Transaction, key: SessionKey, user_id: str, rules: Rules, *, local: bool) -> Role | None:
    """See `RoleOf`."""
    message = InboundMessage(key=key, message_id="", sender=Sender(id=user_id), parts=(), sent_ms=0)
    known = read_status(tx, key.account_name, user_id, key.chat, key.within)
    return decide(message, rules, known, local=local).role


def find(tx: Transaction, account: str, user_id: str) -> str | None:
    """Return the person behind an identity, if there is one."""
    return tx.value("SELECT person_id FROM identities WHERE account = ? AND user_id = ?", account, user_id)


def recognise(tx: Transaction, account: str, sender: Sender, *, role: str) -> str:
    """Return the person behind a sender who was let in; create one on first sight."""
    known = find(tx, account, sender.id)
    if known is not None:
        return known
    person_id = OWNER if role == "owner" else new_id()
    name = sender.name or sender.id
    tx.insert("people", "(id) DO NOTHING", id=person_id, name=name, role=role, created_ms=now_ms())
    tx.insert("identities", account=account, user_id=sender.id, person_id=person_id, name=name)
    return person_id
