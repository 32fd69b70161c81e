"""What waits for a human, and what was granted: for whoever looks after both from outside the chats."""

from dataclasses import dataclass

from gateway.store import approvals
from gateway.store.approvals import Approval, Granted
from gateway.store.connection import Transaction
from gateway.store.people import OWNER


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    approval: Approval
    asked_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    granted: Granted
    holder: str  # in words

    @property
    def is_lasting(self) -> bool:
        return not self.granted.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    waiting: tuple[Waiting, ...] = ()
    rules: tuple[Rule, ...] = ()


def read(tx: Transaction) -> Lists:
    """The oldest first."""
    since = {row["id"]: row["asked_ms"] for row in tx.all("SELECT id, asked_ms FROM approvals WHERE state = 'waiting'")}
    return Lists(
        waiting=tuple(Waiting(approval=one, asked_ms=since[one.id]) for one in approvals.waiting(tx)),
        rules=rules(tx),
    )


def rules(tx: Transaction) -> tuple[Rule, ...]:
    return tuple(Rule(granted=one, holder=_in_words(tx, one.holder)) for one in approvals.rules(tx))


def _in_words(tx: Transaction, holder: str) -> str:
    """A person is told by the handles that `hermes pairing list` shows."""
    if holder == OWNER:
        return "the owner"
    if holder.startswith("chat-"):
        return "those of one chat together"
    rows = tx.all("SELECT account, user_id, name FROM identities WHERE person_id = ? ORDER BY account, user_id", holder)
    handles = [f"{row['name']} ({row['account']}:{row['user_id']})".strip() for row in rows]
    return ", ".join(handles) or f"person {holder}"
