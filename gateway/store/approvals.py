"""Store approval requests for tool calls, and the rules that a lasting approval grants.

An approval is good for one call with exactly the effect that was shown. The unit that starts the call uses it up.
Approvals and rules are signed: a row that somebody else has written does not count, and the owner is told.
"""

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from gateway.clock import now_ms
from gateway.messages import Address
from gateway.store import trail
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.people import OWNER
from gateway.store.signing import is_signed, make_key, sign
from gateway.store.trail import TrailEvent
from tools.approval.gate import Question
from tools.content import loads_list

State = Literal["waiting", "approved", "used", "denied", "expired", "withdrawn"]
Scope = Literal["once", "session", "always"]

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_ID_CHARS = 6
_TOLD = "forged"  # the signature of a forged rule of which the owner knows


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
    asked_ms: int
    expires_ms: int

    @property
    def is_waiting(self) -> bool:
        return self.state == "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedRule:
    """A rule that lets matching calls run without asking."""

    id: int
    holder: str
    holder_name: str  # as shown to people
    session_id: str  # empty: holds in all conversations
    rule: str
    granted_by: str
    granted_ms: int
    is_signed: bool = True  # a rule that is not was written by somebody else, and does not count

    @property
    def is_lasting(self) -> bool:
        return not self.session_id


def create(
    tx: Transaction, asker: Asker, call_id: str, question: Question, asked_at: Address, *, expires_ms: int
) -> Approval:
    """Store an approval request. The caller posts it in a chat and then calls `set_outbox_row`."""
    approval_id = _new_id(tx)
    tx.insert(
        "approvals",
        id=approval_id,
        call_id=call_id,
        **asdict(asker),
        tool=question.tool,
        action=_escape(question.action),
        place=_escape(question.where),
        reasons=json.dumps(question.reasons),
        rules=json.dumps(question.rules),
        binding=question.binding,
        decider=question.decider,
        asked_account=asked_at.account,
        asked_chat=asked_at.chat,
        asked_thread=asked_at.thread,
        state="waiting",
        asked_ms=now_ms(),
        expires_ms=expires_ms,
    )
    trail.record(tx, TrailEvent.APPROVAL_ASKED, turn_id=asker.turn_id, tool=question.tool, approval=approval_id)
    approval = get(tx, approval_id)
    assert approval is not None
    return approval


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
    return not tx.exists(since, approval.id)


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
    """Use up the approval of exactly this call; return False if there is none, or it is not signed."""
    query = "SELECT * FROM approvals WHERE turn_id = ? AND call_id = ? AND binding = ? AND state = 'approved'"
    row = tx.one(query, turn_id, call_id, binding)
    if row is None or not is_signed(tx, row["signature"], *_signed_content(row, row["scope"])):
        return False
    return tx.execute("UPDATE approvals SET state = 'used' WHERE id = ? AND state = 'approved'", row["id"]) > 0


# Rules.


def grant(tx: Transaction, holder: str, rule: str, *, session_id: str, by: str) -> None:
    tx.insert(
        "approval_rules",
        "(holder, session_id, rule) DO UPDATE SET signature = excluded.signature",
        holder=holder,
        session_id=session_id,
        rule=rule,
        granted_by=by,
        granted_ms=now_ms(),
        signature=sign(tx, "rule", holder, session_id, rule),
    )
    trail.record(tx, TrailEvent.RULE_GRANTED, rule=rule, by=by, lasting=not session_id)


def list_rules_of(tx: Transaction, holder: str, session_id: str) -> list[str]:
    """Return the rules that hold for a person in one conversation."""
    query = "SELECT * FROM approval_rules WHERE holder = ? AND session_id IN ('', ?) ORDER BY id"
    rows = tx.all(query, holder, session_id)
    return [row["rule"] for row in rows if _is_rule_signed(tx, row)]


def is_covered(tx: Transaction, asker: Asker, rules: Sequence[str]) -> bool:
    """Return whether granted rules cover everything a call needs. A call that needs no rule is never covered."""
    granted = list_rules_of(tx, asker.holder, asker.session_id) if rules else []
    return bool(granted) and all(any(_covers(one, rule) for one in granted) for rule in rules)


def rules(tx: Transaction) -> list[GrantedRule]:
    rows = tx.all("SELECT * FROM approval_rules ORDER BY id")
    names = {holder: _describe_holder(tx, holder) for holder in {row["holder"] for row in rows}}
    return [
        build(GrantedRule, row, holder_name=names[row["holder"]], is_signed=_is_rule_signed(tx, row)) for row in rows
    ]


def revoke(tx: Transaction, ids: Collection[int], *, by: str) -> list[str]:
    """Revoke rules and return those that existed. From the next call on, people are asked again."""
    gone: list[str] = []
    for rule_id in ids:
        for row in tx.all("DELETE FROM approval_rules WHERE id = ? RETURNING rule", rule_id):
            trail.record(tx, TrailEvent.RULE_REVOKED, rule=row["rule"], by=by)
            gone.append(row["rule"])
    return gone


# Signatures.


def sign_old_rows(tx: Transaction) -> None:
    """Make the key, once, and sign what was decided and granted before there was one."""
    if not make_key(tx):
        return
    for row in tx.all("SELECT * FROM approvals WHERE state = 'approved' ORDER BY id"):
        signature = sign(tx, *_signed_content(row, row["scope"]))
        tx.execute("UPDATE approvals SET signature = ? WHERE id = ?", signature, row["id"])
    for row in tx.all("SELECT * FROM approval_rules ORDER BY id"):
        signature = sign(tx, "rule", row["holder"], row["session_id"], row["rule"])
        tx.execute("UPDATE approval_rules SET signature = ? WHERE id = ?", signature, row["id"])


def has_forged(tx: Transaction) -> bool:
    return bool(_forged_approvals(tx) or _forged_rules(tx))


def refuse_forged(tx: Transaction) -> str:
    """Let requests that somebody else has marked as approved wait again; return the notice for the owner, stored too.

    Forged rules stay, without effect, until an owner revokes them. Each is told once.
    """
    approvals, rules = _forged_approvals(tx), _forged_rules(tx)
    if not approvals and not rules:
        return ""
    query = "UPDATE approvals SET state = 'waiting', scope = '', decided_by = '', decided_ms = NULL WHERE id = ?"
    for row in approvals:
        tx.execute(query, row["id"])
        trail.record(tx, TrailEvent.APPROVAL_FORGED, turn_id=row["turn_id"], approval=row["id"])
    for row in rules:
        tx.execute("UPDATE approval_rules SET signature = ? WHERE id = ?", _TOLD, row["id"])
    told = [f"request {row['id']}" for row in approvals] + [f"rule {row['id']} ({row['rule']})" for row in rules]
    notice = (
        f"Somebody has written approvals into the database without your yes: {', '.join(told)}. They do not count. "
        "Look at what ran last, and remove such rules with `hermes approvals revoke`."
    )
    tx.execute("INSERT INTO notices (at_ms, text) VALUES (?, ?)", now_ms(), notice)
    return notice


def _forged_approvals(tx: Transaction) -> list[Row]:
    rows = tx.all("SELECT * FROM approvals WHERE state = 'approved' ORDER BY id")
    return [row for row in rows if not is_signed(tx, row["signature"], *_signed_content(row, row["scope"]))]


def _forged_rules(tx: Transaction) -> list[Row]:
    rows = tx.all("SELECT * FROM approval_rules WHERE signature <> ? ORDER BY id", _TOLD)
    return [row for row in rows if not _is_rule_signed(tx, row)]


def _is_rule_signed(tx: Transaction, row: Row) -> bool:
    return is_signed(tx, row["signature"], "rule", row["holder"], row["session_id"], row["rule"])


def _signed_content(row: Row, scope: str) -> tuple[str, ...]:
    """Return what an approval is about. Not who decided: that is blanked when a person is forgotten."""
    return ("approval", row["id"], row["turn_id"], row["call_id"], row["holder"], row["binding"], row["rules"], scope)


# Queries and conversions


def _waiting(tx: Transaction, **where: str) -> list[Approval]:
    wanted = "".join(f" AND {column} = ?" for column in where)
    query = f"SELECT * FROM approvals WHERE state = 'waiting'{wanted} ORDER BY asked_ms, id"  # noqa: S608 our columns
    return [_approval(row) for row in tx.all(query, *where.values())]


def _covers(granted: str, wanted: str) -> bool:
    from tools.shell_guard.granting import Rule, covers  # here: `hermes status` must not load the shell guard

    try:
        return covers(Rule.parse(granted), Rule.parse(wanted))
    except ValueError:  # written by another version
        return False


def _settle(tx: Transaction, approval: Approval, state: State, *, by: str = "", scope: str = "") -> bool:
    row = tx.one("SELECT * FROM approvals WHERE id = ? AND state = 'waiting'", approval.id)
    if row is None:
        return False
    signature = sign(tx, *_signed_content(row, scope)) if state == "approved" else ""
    query = "UPDATE approvals SET state = ?, scope = ?, decided_by = ?, decided_ms = ?, signature = ? WHERE id = ?"
    tx.execute(query, state, scope, by, now_ms(), signature, approval.id)
    event = TrailEvent(f"approval_{state}")
    trail.record(tx, event, turn_id=approval.asker.turn_id, approval=approval.id, by=by, scope=scope)
    return True


def _new_id(tx: Transaction) -> str:
    while True:
        made = "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS))
        if not tx.exists("SELECT 1 FROM approvals WHERE id = ?", made):
            return made


def _escape(words: str) -> str:
    """Escape paths with bytes that are not text: the store accepts only text."""
    return words.encode("utf-8", "backslashreplace").decode()


def _approval(row: Row) -> Approval:
    reasons, rules = (tuple(map(str, loads_list(row[column]))) for column in ("reasons", "rules"))
    return build(
        Approval,
        row,
        asker=build(Asker, row),
        question=build(Question, row, where=row["place"], reasons=reasons, rules=rules),
        asked_at=Address(account=row["asked_account"], chat=row["asked_chat"], thread=row["asked_thread"]),
    )


def _describe_holder(tx: Transaction, holder: str) -> str:
    """Name a person by the handles that `hermes pairing list` shows."""
    if holder == OWNER:
        return "the owner"
    if holder.startswith("chat-"):
        return "the members of one chat"
    rows = tx.all("SELECT account, user_id, name FROM identities WHERE person_id = ? ORDER BY account, user_id", holder)
    handles = [f"{row['name']} ({row['account']}:{row['user_id']})".strip() for row in rows]
    return ", ".join(handles) or f"person {holder}"
