"""Whoever sits at the terminal decides, and what they grant holds as long as they said."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import pytest

from agent_core.events import ignore
from gateway.approvals.terminal import Answer, LocalGates
from gateway.messages import InboundMessage, Sender, SessionKey
from gateway.stopwatch import Stopwatch
from gateway.store import approvals
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from tests.gateway.scene import rows
from tests.gateway.store.rows import a_question, accepted
from tools.approval.gate import Gate, NotApproved, Question

KEY = SessionKey(platform="cli", chat="1a2b3c4d")
RULE = "recursive-delete /home/ann/proj"
DELETE = a_question("rm -r build", rules=(f"{RULE}/build",))


@dataclass
class Human:
    """Answers what it was told to, one after the other."""

    answers: list[Answer]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, question: Question, call_id: str) -> Answer:
        self.asked.append(question.action)
        await asyncio.sleep(0)
        return self.answers.pop(0)


def gate_of(db: Database, human: Human, session_id: str = "s1", mode: Literal["ask", "deny", "off"] = "ask") -> Gate:
    said = accepted(InboundMessage(key=KEY, message_id="1", sender=Sender(id=""), parts=(), sent_ms=1))
    turn = Turn(id="t1", session_key=str(KEY), session_id=session_id, messages=(said,))
    return LocalGates(db=db, mode=mode, prompt=human).gate(turn, Stopwatch(ignore))


async def test_a_yes_is_good_once_and_for_this_alone(db: Database) -> None:
    gate = gate_of(db, Human(["once"]))
    await gate.ask(DELETE, "c1")
    with pytest.raises(NotApproved, match="changed since it was approved"):
        await gate.use(a_question("rm -r /"), "c1")
    with pytest.raises(NotApproved):
        await gate.use(DELETE, "c2")
    await gate.use(DELETE, "c1")
    with pytest.raises(NotApproved):
        await gate.use(DELETE, "c1")
    assert await rows(db, "SELECT COUNT(*) FROM approval_rules") == [(0,)]


@pytest.mark.parametrize(("answer", "words"), [("deny", "A human said no"), ("nobody", "Nobody answered")])
async def test_what_is_not_allowed_is_told_to_the_model(db: Database, answer: Answer, words: str) -> None:
    with pytest.raises(NotApproved, match=rf"Do not try to do the same in another way\. {words}"):
        await gate_of(db, Human([answer])).ask(DELETE, "c1")


@pytest.mark.parametrize(("answer", "asked_elsewhere"), [("session", 1), ("always", 0)])
async def test_a_lasting_yes_is_kept(db: Database, answer: Answer, asked_elsewhere: int) -> None:
    human = Human([answer, "deny", "deny"])
    gate = gate_of(db, human)
    await gate.ask(DELETE, "c1")
    await gate.ask(a_question("rm -r build/x", rules=(f"{RULE}/build/x",)), "c2")
    await gate.use(a_question("rm -r build/x", rules=(f"{RULE}/build/x",)), "c2")
    assert len(human.asked) == 1
    later = gate_of(db, human, "s2")
    with suppress(NotApproved):
        await later.ask(DELETE, "c3")
    assert len(human.asked) == 1 + asked_elsewhere
    with pytest.raises(NotApproved):
        await gate.ask(a_question("rm -r src", rules=(f"{RULE}/src",)), "c4")
    [kept] = await db.read(approvals.rules)
    assert (kept.holder, kept.rule, kept.granted_by) == ("owner", f"{RULE}/build", "hermes chat")


async def test_what_was_granted_in_a_chat_holds_here_until_it_is_taken_back(db: Database) -> None:
    await db.write(lambda tx: approvals.grant(tx, "owner", RULE, session_id="", by="telegram:1"))
    human = Human(["deny"])
    await gate_of(db, human).ask(DELETE, "c1")
    assert human.asked == []
    [granted] = await db.read(approvals.rules)
    await db.write(lambda tx: approvals.revoke(tx, [granted.id], by="me"))
    with pytest.raises(NotApproved):
        await gate_of(db, human).ask(DELETE, "c1")


async def test_questions_come_one_at_a_time_and_a_yes_may_settle_the_next(db: Database) -> None:
    human = Human(["session"])
    gate = gate_of(db, human)
    await asyncio.gather(gate.ask(DELETE, "c1"), gate.ask(DELETE, "c2"))
    assert human.asked == ["rm -r build"]


async def test_the_operator_may_want_nobody_to_be_asked(db: Database) -> None:
    human = Human([])
    await gate_of(db, human, mode="off").ask(DELETE, "c1")
    with pytest.raises(NotApproved):
        await gate_of(db, human, mode="deny").ask(DELETE, "c1")
    assert human.asked == []
