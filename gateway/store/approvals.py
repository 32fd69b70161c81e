"""Store approval requests for tool calls, and the rules that a lasting approval grants.

An approval is good for one call with exactly the effect that was shown. The unit that starts the call uses it up.
"""

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from gateway.clock import now_ms
from gateway.messages import Address
from gateway.store import trail
from gateway.store.db.connection import Row, Transaction
from gateway.store.people import OWNER
from gateway.store.trail import TrailEvent
from tools.approval.gate import Decider, Question
from tools.content import loads_list

State = Literal["waiting", "approved", "used", "denied", "expired", "withdrawn"]
Scope = Literal["once", "session", "always"]

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_ID_CHARS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The person and the turn for which a tool call would be made."""

    turn_id: str
    session_id: str
    session_key: str
    holder: str
    person_id: str | None
    account: str
    sender_id: str  # empty when several asked together
    sender_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    id: str
    call_id: str
    asker: Asker
    question: Question
    asked_at: Address
    outbox_id: int | None
    state: State
    scope: str
    decided_by: str
    expires_ms: int

    @property
    def is_waiting(self) -> bool:
        return self.state == "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A rule that lets matching calls run without asking."""

    id: int
    holder: str
    session_id: str  # empty: holds in all conversations
    rule: str
    granted_by: str
    granted_ms: int


def create(
    tx: Transaction, asker: Asker, call_id: str, question: Question, asked_at: Address, *, expires_ms: int
) -> Approval:
    """Store an approval request. The caller posts it in a chat and then calls `set_outbox_row`."""
    row = tx.one(
        """INSERT INTO approvals (id, turn_id, call_id, session_id, session_key, holder, person_id, account, sender_id,
                                  sender_name, tool, action, place, reasons, rules, binding, decider,
                                  asked_account, asked_chat, asked_thread, state, asked_ms, expires_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?) RETURNING *""",
        _new_id(tx),
        asker.turn_id,
        call_id,
        asker.session_id,
        asker.session_key,
        asker.holder,
        asker.person_id,
        asker.account,
        asker.sender_id,
        asker.sender_name,
        question.tool,
        _escape(question.action),
        _escape(question.where),
        json.dumps(question.reasons),
        json.dumps(question.rules),
        question.binding,
        question.decider,
        asked_at.account,
        asked_at.chat,
        asked_at.thread,
        now_ms(),
        expires_ms,
    )
    assert row is not None
    trail.record(tx, TrailEvent.APPROVAL_ASKED, turn_id=asker.turn_id, tool=question.tool, approval=row["id"])
    return _approval(row)


def set_outbox_row(tx: Transaction, approval_id: str, outbox_id: int) -> None:
    tx.execute("UPDATE approvals SET outbox_id = ? WHERE id = ?", outbox_id, approval_id)


def get(tx: Transaction, approval_id: str) -> Approval | None:
    row = tx.one("SELECT * FROM approvals WHERE id = ?", approval_id)
    return _approval(row) if row is not None else None


def find_for_call(tx: Transaction, turn_id: str, call_id: str, binding: str) -> Approval | None:
    """Return the request about exactly this call, even if an earlier process stored it."""
    row = tx.one("SELECT * FROM approvals WHERE turn_id = ? AND call_id = ? AND binding = ?", turn_id, call_id, binding)
    return _approval(row) if row is not None else None


def waiting(tx: Transaction) -> list[Approval]:
    """Return the waiting requests, oldest first."""
    return _waiting(tx)


def waiting_for(tx: Transaction, turn_id: str) -> list[Approval]:
    return _waiting(tx, turn_id=turn_id)


def waiting_in(tx: Transaction, session_key: str) -> list[Approval]:
    return _waiting(tx, session_key=session_key)


def waiting_at(tx: Transaction, address: Address) -> list[Approval]:
    """Return the waiting requests posted in a chat."""
    return _waiting(tx, asked_account=address.account, asked_chat=address.chat, asked_thread=address.thread)


def is_last_in_chat(tx: Transaction, approval: Approval) -> bool:
    """Return whether nobody, neither we nor anyone we can hear, has posted in its chat since the request."""
    # Edits that close a request do not count. A draft of an answer does, whenever it began.
    since = """
        SELECT 1 FROM approvals a JOIN outbox o
                   ON (o.account, o.chat, o.thread) = (asked_account, asked_chat, asked_thread)
                WHERE a.id = ?1 AND NOT (o.topic = 'approval' AND o.edits <> '')
                  AND CASE WHEN a.outbox_id IS NULL THEN o.created_ms >= asked_ms ELSE o.id > a.outbox_id END
        UNION ALL
        SELECT 1 FROM approvals a JOIN inbox i
                   ON (i.account, i.chat, i.thread) = (asked_account, asked_chat, asked_thread)
                WHERE a.id = ?1 AND i.kind IN ('message', 'edit', 'command') AND i.accepted_ms >= asked_ms
        UNION ALL
        SELECT 1 FROM approvals a JOIN drafts d
                   ON (d.account, d.chat, d.thread) = (asked_account, asked_chat, asked_thread) WHERE a.id = ?1
        LIMIT 1"""
    return tx.one(since, approval.id) is None


def approve(tx: Transaction, approval: Approval, scope: Scope, *, by: str) -> bool:
    """Approve a request, and grant its rules if the approval is lasting; return False if it was already decided."""
    if not _settle(tx, approval, "approved", by=by, scope=scope):
        return False
    if scope != "once":
        session_id = approval.asker.session_id if scope == "session" else ""
        for rule in approval.question.rules:
            grant(tx, approval.asker.holder, rule, session_id=session_id, by=by)
    return True


def deny(tx: Transaction, approval: Approval, *, by: str) -> bool:
    """Deny a request; return False if it was already decided."""
    return _settle(tx, approval, "denied", by=by)


def withdraw(tx: Transaction, approval: Approval) -> bool:
    """Withdraw a request that no longer needs an answer."""
    return _settle(tx, approval, "withdrawn")


def expire(tx: Transaction, approval: Approval) -> bool:
    return _settle(tx, approval, "expired")


def use(tx: Transaction, turn_id: str, call_id: str, binding: str) -> bool:
    """Use up the approval of exactly this call; return False if there is none."""
    return (
        tx.execute(
            """UPDATE approvals SET state = 'used'
                WHERE turn_id = ? AND call_id = ? AND binding = ? AND state = 'approved'""",
            turn_id,
            call_id,
            binding,
        )
        > 0
    )


# Rules.


def grant(tx: Transaction, holder: str, rule: str, *, session_id: str, by: str) -> None:
    tx.execute(
        """INSERT INTO approval_rules (holder, session_id, rule, granted_by, granted_ms) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (holder, session_id, rule) DO NOTHING""",
        holder,
        session_id,
        rule,
        by,
        now_ms(),
    )
    trail.record(tx, TrailEvent.RULE_GRANTED, rule=rule, by=by, lasting=not session_id)


def list_rules_of(tx: Transaction, holder: str, session_id: str) -> list[str]:
    """Return the rules that hold for a person in one conversation."""
    rows = tx.all(
        "SELECT rule FROM approval_rules WHERE holder = ? AND session_id IN ('', ?) ORDER BY id", holder, session_id
    )
    return [row["rule"] for row in rows]


def is_covered(tx: Transaction, asker: Asker, rules: Sequence[str]) -> bool:
    """Return whether granted rules cover everything a call needs. A call that needs no rule is never covered."""
    granted = list_rules_of(tx, asker.holder, asker.session_id) if rules else []
    return bool(granted) and all(any(_covers(one, rule) for one in granted) for rule in rules)


def rules(tx: Transaction) -> list[Granted]:
    return [
        Granted(
            id=row["id"],
            holder=row["holder"],
            session_id=row["session_id"],
            rule=row["rule"],
            granted_by=row["granted_by"],
            granted_ms=row["granted_ms"],
        )
        for row in tx.all("SELECT * FROM approval_rules ORDER BY id")
    ]


def revoke(tx: Transaction, ids: Collection[int], *, by: str) -> list[str]:
    """Revoke rules and return those that existed. From the next call on, people are asked again."""
    gone: list[str] = []
    for rule_id in ids:
        for row in tx.all("DELETE FROM approval_rules WHERE id = ? RETURNING rule", rule_id):
            trail.record(tx, TrailEvent.RULE_REVOKED, rule=row["rule"], by=by)
            gone.append(row["rule"])
    return gone


# Queries and conversions


def _waiting(tx: Transaction, **where: str) -> list[Approval]:
    wanted = "".join(f" AND {column} = ?" for column in where)
    rows = tx.all(
        f"SELECT * FROM approvals WHERE state = 'waiting'{wanted} ORDER BY asked_ms, id",  # noqa: S608 our column names
        *where.values(),
    )
    return [_approval(row) for row in rows]


def _covers(granted: str, wanted: str) -> bool:
    from tools.shell_guard.granting import Rule, covers  # here: `hermes status` must not load the shell guard

    try:
        return covers(Rule.parse(granted), Rule.parse(wanted))
    except ValueError:  # written by another version
        return False


def _settle(tx: Transaction, approval: Approval, state: State, *, by: str = "", scope: str = "") -> bool:
    changed = tx.execute(
        "UPDATE approvals SET state = ?, scope = ?, decided_by = ?, decided_ms = ? WHERE id = ? AND state = 'waiting'",
        state,
        scope,
        by,
        now_ms(),
        approval.id,
    )
    if changed:
        event = TrailEvent(f"approval_{state}")
        trail.record(tx, event, turn_id=approval.asker.turn_id, approval=approval.id, by=by, scope=scope)
    return changed > 0


def _new_id(tx: Transaction) -> str:
    while True:
        made = "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS))
        if tx.one("SELECT 1 FROM approvals WHERE id = ?", made) is None:
            return made


def _escape(words: str) -> str:
    """Escape paths with bytes that are not text: the store accepts only text."""
    return words.encode("utf-8", "backslashreplace").decode()


def _approval(row: Row) -> Approval:
    return Approval(
        id=row["id"],
        call_id=row["call_id"],
        asker=Asker(
            turn_id=row["turn_id"],
            session_id=row["session_id"],
            session_key=row["session_key"],
            holder=row["holder"],
            person_id=row["person_id"],
            account=row["account"],
            sender_id=row["sender_id"],
            sender_name=row["sender_name"],
        ),
        question=Question(
            tool=row["tool"],
            action=row["action"],
            where=row["place"],
            reasons=tuple(map(str, loads_list(row["reasons"]))),
            rules=tuple(map(str, loads_list(row["rules"]))),
            binding=row["binding"],
            decider=cast(Decider, row["decider"]),
        ),
        asked_at=Address(account=row["asked_account"], chat=row["asked_chat"], thread=row["asked_thread"]),
        outbox_id=row["outbox_id"],
        state=cast(State, row["state"]),
        scope=row["scope"],
        decided_by=row["decided_by"],
        expires_ms=row["expires_ms"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingApproval:
    approval: Approval
    asked_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedRule:
    granted: Granted
    holder: str  # as shown to people

    @property
    def is_lasting(self) -> bool:
        return not self.granted.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    waiting: tuple[WaitingApproval, ...] = ()
    rules: tuple[GrantedRule, ...] = ()


def read(tx: Transaction) -> Lists:
    """Return the waiting requests and the rules, oldest first."""
    since = {row["id"]: row["asked_ms"] for row in tx.all("SELECT id, asked_ms FROM approvals WHERE state = 'waiting'")}
    return Lists(
        waiting=tuple(WaitingApproval(approval=one, asked_ms=since[one.id]) for one in waiting(tx)),
        rules=list_rules(tx),
    )


def list_rules(tx: Transaction) -> tuple[GrantedRule, ...]:
    return tuple(GrantedRule(granted=one, holder=_describe_holder(tx, one.holder)) for one in rules(tx))


def _describe_holder(tx: Transaction, holder: str) -> str:
    """Name a person by the handles that `hermes pairing list` shows."""
    if holder == OWNER:
        return "the owner"
    if holder.startswith("chat-"):
        return "the members of one chat"
    rows = tx.all("SELECT account, user_id, name FROM identities WHERE person_id = ? ORDER BY account, user_id", holder)
    handles = [f"{row['name']} ({row['account']}:{row['user_id']})".strip() for row in rows]
    return ", ".join(handles) or f"person {holder}"
