"""Who is who: people, and the identities they have on platforms."""

from gateway.clock import new_id, now_ms
from gateway.messages import Sender
from gateway.store.connection import Transaction

OWNER = "owner"  # the person who runs this machine account: CLI, local platforms


def recognise(tx: Transaction, account: str, sender: Sender, *, role: str) -> str:
    """The person behind a sender that access has let in; made on first sight."""
    known = tx.one("SELECT person_id FROM identities WHERE account = ? AND user_id = ?", account, sender.id)
    if known is not None:
        return str(known["person_id"])
    person_id = OWNER if role == "owner" else new_id()
    name = sender.name or sender.id
    tx.execute(
        "INSERT INTO people (id, name, role, created_ms) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        person_id,
        name,
        role,
        now_ms(),
    )
    tx.execute(
        "INSERT INTO identities (account, user_id, person_id, name) VALUES (?, ?, ?, ?)",
        account,
        sender.id,
        person_id,
        name,
    )
    return person_id
