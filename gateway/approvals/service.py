"""Ask a human before risky calls of a turn, and wait for the answer, across restarts.

The question is a row in the database; only those who wait for it are in this process. A turn that waits holds no slot
and types nothing.
"""

import asyncio
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import structlog

from agent_core.events import ToolWaiting
from gateway.approvals import decisions
from gateway.approvals.wording import WROTE_INSTEAD
from gateway.changes import Changes
from gateway.clock import how_long, now_ms
from gateway.errors import StoreUnavailable
from gateway.messages import Address
from gateway.stopwatch import Stopwatch
from gateway.store import approvals, chats, turns
from gateway.store.approvals import Approval, Asker
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from tools.approval.gate import (
    CHANGED_MEANWHILE,
    NOT_ANOTHER_WAY,
    Gate,
    NobodyNeedsToBeAsked,
    NobodyToAsk,
    NotApproved,
    Question,
    refusal,
)

log = structlog.get_logger()

Mode = Literal["ask", "deny", "off"]

_LOOK_AGAIN_SECONDS = 30.0  # a clock may be set, and a machine may sleep
_TRY_AGAIN_SECONDS = 2.0
_STOPPED = "This was not done: the user has stopped what you are doing."
_MAX_AT_ONCE = 5  # questions of one turn: nobody reads more


@dataclass(slots=True, kw_only=True)
class Approvals:
    db: Database
    mode: Mode = "ask"
    wait_ms: int = 3_600_000
    owner_accounts: Collection[str] = ()  # where owners may be asked
    changes: Changes = field(default_factory=Changes)
    _told: frozenset[str] = frozenset()  # of these
    _waiting: dict[str, asyncio.Event] = field(default_factory=dict)  # by question
    _turns: dict[str, Stopwatch] = field(default_factory=dict)  # by turn in which a call waits: knows what others do
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def gate(self, turn: Turn, watch: Stopwatch) -> Gate:
        if self.mode == "ask":
            watch.at_rest = self._notify_lanes
            return _TurnGate(approvals=self, turn=turn, watch=watch)
        return NobodyToAsk() if self.mode == "deny" else NobodyNeedsToBeAsked()

    def is_waiting(self, turn_id: str) -> bool:
        """Return whether a turn does nothing but wait for a human. While another of its calls works, it keeps its slot
        and may not be paused."""
        watch = self._turns.get(turn_id)
        return watch is not None and not watch.runs_a_tool

    def wake(self) -> None:
        """Look soon: something was written, perhaps a decision."""
        self._stirred.set()

    async def run(self) -> None:
        """Wake those whose question is decided, and expire questions, until cancelled."""
        while True:
            self._stirred.clear()
            # Also when nobody waits any more: that the last question is gone is news, too.
            wait_seconds = await self._look_if_possible() if self._waiting or self._told else None
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._stirred.wait()
            except TimeoutError:
                continue

    def _notify_lanes(self) -> None:
        """Tell the lanes that a turn only waits from now on, or works again: there may be room for another."""
        self.changes.notify("inbox")

    def begin_waiting(self, turn_id: str, watch: Stopwatch) -> None:
        self._turns[turn_id] = watch
        self._notify_lanes()

    def end_waiting(self, turn_id: str) -> None:
        self._turns.pop(turn_id, None)

    async def wait_until_settled(self, approval: Approval) -> Approval:
        """Return the question once it waits no longer."""
        event = self._waiting.setdefault(approval.id, asyncio.Event())
        self.wake()
        try:
            await event.wait()
        finally:
            self._waiting.pop(approval.id, None)
        # Not `read`, which would raise while the store is unavailable, and lose a yes.
        return await self.db.write_when_possible(lambda tx: approvals.get(tx, approval.id)) or approval

    async def _look_if_possible(self) -> float:
        """Look, unless the store cannot be read for a moment, which must not end the gateway; nothing is lost by it."""
        try:
            return await self._look()
        except StoreUnavailable as error:  # tells the operator of itself
            log.debug("questions not looked at", problem=str(error))
        except sqlite3.Error as error:
            log.warning("questions not looked at", problem=str(error))
        return _TRY_AGAIN_SECONDS

    async def _look(self) -> float:
        """Return the seconds until the next question expires."""
        if await self.db.read(approvals.has_forged) and (
            notice := await self.db.write_when_possible(approvals.refuse_forged)
        ):
            log.error("approvals that nobody gave were found", notice=notice)
        still_waiting = await self.db.read(approvals.waiting)
        if any(one.expires_ms <= now_ms() for one in still_waiting):
            still_waiting = await self.db.write_when_possible(_expire_those_due)
            for account in self.owner_accounts:
                self.changes.notify("outbox", account=account)
        open_ids = frozenset(one.id for one in still_waiting)
        if open_ids != self._told:
            self._told = open_ids
            self.changes.notify("approvals")
        for approval_id in self._waiting.keys() - open_ids:
            self._waiting[approval_id].set()
        due_ms = min((one.expires_ms for one in still_waiting), default=now_ms())
        return min((due_ms - now_ms()) / 1000 + 0.01, _LOOK_AGAIN_SECONDS)


@dataclass(slots=True, kw_only=True)
class _TurnGate:
    """Implements `tools.approval.gate.Gate` for the calls of one turn."""

    approvals: Approvals
    turn: Turn
    watch: Stopwatch
    _asking: int = 0

    async def ask(self, question: Question, call_id: str) -> None:
        approval = await self.approvals.db.write_when_possible(lambda tx: self._put(tx, question, call_id))
        if approval is None:
            return
        if approval.is_waiting:
            log.info("asking", approval=approval.id, tool=question.tool)
            approval = await self._wait(approval)
        if approval.state != "approved":
            raise NotApproved(_not_approved(approval, self.approvals.wait_ms))

    async def use(self, question: Question, call_id: str) -> None:
        def unit(tx: Transaction) -> str:
            """Return why it may not be done; empty when it may."""
            # Somebody may say yes after /stop was said, and before it has ended the turn.
            if turns.must_stop(tx, self.turn.id):
                return _STOPPED
            is_allowed = approvals.use(tx, self.turn.id, call_id, question.binding) or self._is_covered(tx, question)
            return "" if is_allowed else CHANGED_MEANWHILE

        if problem := await self.approvals.db.write_when_possible(unit):
            raise NotApproved(problem)

    async def _wait(self, approval: Approval) -> Approval:
        self._asking += 1
        self.watch(ToolWaiting(waits=True))
        self.approvals.begin_waiting(self.turn.id, self.watch)
        for account in (approval.asked_at.account, self.turn.address.account):
            self.approvals.changes.notify("outbox", account=account)
        try:
            return await self.approvals.wait_until_settled(approval)
        finally:
            self._asking -= 1
            if not self._asking:
                self.approvals.end_waiting(self.turn.id)
                self.watch(ToolWaiting(waits=False))

    def _put(self, tx: Transaction, question: Question, call_id: str) -> Approval | None:
        """Store and post the question, unless an earlier process did; return None when nobody needs to be asked."""
        approvals.refuse_forged(tx)
        asked = approvals.find_for_call(tx, self.turn.id, call_id, question.binding)
        if asked is not None:
            return asked
        if self._is_covered(tx, question):
            return None
        if len(approvals.waiting_for(tx, self.turn.id)) >= _MAX_AT_ONCE:
            raise NotApproved(refusal(question, f"{_MAX_AT_ONCE} questions wait already: ask for one thing at a time."))
        turn = turns.reload(tx, self.turn)
        where = self._where_to_ask(tx, turn, question)
        if where is None:
            raise NotApproved(refusal(question, "No owner can be reached who could allow it. Tell the user so."))
        wait_ms = self.approvals.wait_ms
        origin = where if turn.run is not None else turn.address  # of a job, nobody waits in its chat
        return decisions.ask(tx, _asker(turn), call_id, question, where, origin=origin, wait_ms=wait_ms)

    def _where_to_ask(self, tx: Transaction, turn: Turn, question: Question) -> Address | None:
        """Return where somebody reads it who may decide."""
        is_owners = all(message.role == "owner" for message in turn.asked)
        # Nobody waits in the chat of a job, and a program cannot decide for a human.
        is_read = turn.run is None and not turn.asked[-1].key.is_of_program
        if is_read and (is_owners or (question.decider == "asker" and _asker(turn).sender_id)):
            return turn.address
        return chats.find_notice_address(tx, self.approvals.owner_accounts)

    def _is_covered(self, tx: Transaction, question: Question) -> bool:
        return approvals.is_covered(tx, _asker(self.turn), question.rules)


def _expire_those_due(tx: Transaction) -> list[Approval]:
    now = now_ms()
    for one in approvals.waiting(tx):
        if one.expires_ms <= now:
            decisions.expire(tx, one)
    return approvals.waiting(tx)


def _asker(turn: Turn) -> Asker:
    last = turn.asked[-1]
    is_one = len({message.speaker for message in turn.asked}) == 1
    return Asker(
        turn_id=turn.id,
        session_id=turn.session_id,
        session_key=str(last.key),
        holder=turn.holder,
        person_id=last.person_id if is_one else None,
        account=last.key.account_name,
        sender_id=last.sender_id if is_one else "",
        sender_name=last.sender_name if is_one else "",
    )


def _not_approved(approval: Approval, wait_ms: int) -> str:
    match approval.state:
        case "denied" if approval.decided_by == WROTE_INSTEAD:
            return f"This was not done: instead of allowing it the user has said something else. {NOT_ANOTHER_WAY}"
        case "expired":
            told = (
                f"Nobody has decided within {how_long(wait_ms)}. Tell the user; the question has a button to ask again."
            )
        case "withdrawn":
            told = "It is no longer needed."
        case _:
            told = "A human said no. Tell the user that it was not done, and ask what they want instead."
    return refusal(approval.question, told)
