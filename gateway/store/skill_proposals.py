"""Changes of skills that wait for the owner's decision."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.clock import now_ms
from gateway.messages import Address
from gateway.store import inbox
from gateway.store.db.connection import Row, Transaction, build
from gateway.store.people import OWNER


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillProposal:
    id: int = 0
    session_id: str
    turn_id: str | None = None
    person_id: str | None = None
    name: str
    category: str = ""
    action: str
    files: Mapping[str, str | None]
    base: str
    question: str = ""
    state: str = "waiting"
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposer:
    """The turn in which a change is proposed."""

    turn_id: str
    person_id: str | None
    address: Address | None  # None at the terminal


def find_proposer(tx: Transaction, session_id: str) -> Proposer | None:
    """Return the turn that runs in a session; None unless only an owner asks in it."""
    turn_id, asked = inbox.read_asking(tx, session_id)
    if not asked or any(message.role != "owner" for message in asked):
        return None
    last = asked[-1]
    if last.is_at_terminal:
        return Proposer(turn_id=turn_id, person_id=OWNER, address=None)
    return Proposer(turn_id=turn_id, person_id=last.person_id, address=last.key.reply_address(last.message_id))


def add(tx: Transaction, proposal: SkillProposal) -> int:
    """Store a proposal; it takes the place of an earlier one of the same session for the same skill."""
    query = "UPDATE skill_proposals SET state = 'replaced' WHERE session_id = ? AND name = ? AND state = 'waiting'"
    tx.execute(query, proposal.session_id, proposal.name)
    row_id = tx.insert(
        "skill_proposals",
        session_id=proposal.session_id,
        turn_id=proposal.turn_id,
        person_id=proposal.person_id,
        name=proposal.name,
        category=proposal.category,
        action=proposal.action,
        files=json.dumps(dict(proposal.files), ensure_ascii=False),
        base=proposal.base,
        question=proposal.question,
        state=proposal.state,
        created_ms=now_ms(),
    )
    assert row_id is not None  # without a clause on conflicts
    return row_id


def set_question(tx: Transaction, proposal_id: int, question: str) -> None:
    tx.execute("UPDATE skill_proposals SET question = ? WHERE id = ?", question, proposal_id)


def get(tx: Transaction, proposal_id: int) -> SkillProposal | None:
    row = tx.one("SELECT * FROM skill_proposals WHERE id = ?", proposal_id)
    return _read(row) if row is not None else None


def list_waiting(tx: Transaction, *, turn_id: str | None = None) -> list[SkillProposal]:
    """Return the proposals that nobody has decided: all, or those of one turn."""
    only, values = (" AND turn_id = ?", (turn_id,)) if turn_id is not None else ("", ())
    rows = tx.all(f"SELECT * FROM skill_proposals WHERE state = 'waiting'{only} ORDER BY id", *values)  # noqa: S608
    return [_read(row) for row in rows]


def settle(tx: Transaction, proposal_id: int, state: str, *, by: str) -> None:
    tx.execute("UPDATE skill_proposals SET state = ?, decided_by = ? WHERE id = ?", state, by, proposal_id)


def _read(row: Row) -> SkillProposal:
    return build(SkillProposal, row, files=json.loads(row["files"]))
