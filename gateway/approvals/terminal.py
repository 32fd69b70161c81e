"""The gate of a conversation at the terminal: whoever sits there is asked, and what they grant lasts as in a chat.

A question there is no row: it ends with the process that asks, and nobody else could answer it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from gateway.approvals.wording import Verdict
from gateway.stopwatch import Stopwatch
from gateway.store import approvals
from gateway.store.approvals import Asker
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.people import OWNER
from gateway.store.turns import Turn
from tools.approval.gate import (
    CHANGED_MEANWHILE,
    Gate,
    NobodyNeedsToBeAsked,
    NobodyToAsk,
    NotApproved,
    Question,
    refusal,
)

Answer = Verdict | Literal["nobody"]
Prompt = Callable[[Question, str], Awaitable[Answer]]
"""Asks about the call with this id; returns "nobody" when nobody answers, or could."""

_BY = "hermes chat"
_REFUSED = "A human said no. Tell the user that it was not done, and ask what they want instead."
_UNANSWERED = "Nobody answered. Tell the user that it was not done, and what you would have done."


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGates:
    """Makes the gate of each conversation, as the operator wants it."""

    db: Database
    mode: Literal["ask", "deny", "off"]
    prompt: Prompt

    def gate(self, turn: Turn, watch: Stopwatch) -> Gate:
        if self.mode == "ask":
            asker = Asker(
                turn_id="",
                session_id=turn.session_id,
                session_key=turn.session_key,
                holder=OWNER,
                person_id=OWNER,
                account=turn.address.account,
                sender_id="",
                sender_name="",
            )
            return _LocalGate(db=self.db, asker=asker, prompt=self.prompt)
        return NobodyToAsk() if self.mode == "deny" else NobodyNeedsToBeAsked()


@dataclass(slots=True, kw_only=True)
class _LocalGate:
    """Implements `tools.approval.gate.Gate` for one turn."""

    db: Database
    asker: Asker
    prompt: Prompt
    _allowed: set[tuple[str, str]] = field(default_factory=set)  # a yes for once: the call, and what it is bound to
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, question: Question, call_id: str) -> None:
        async with self._one_at_a_time:
            if await self._is_covered(question):  # perhaps by what was said to the question before it
                return
            answer = await self.prompt(question, call_id)
            if answer == "nobody":
                raise NotApproved(refusal(question, _UNANSWERED))
            if answer == "deny":
                raise NotApproved(refusal(question, _REFUSED))
            if answer != "once":
                await self._grant(question, lasting=answer == "always")
            self._allowed.add((call_id, question.binding))

    async def use(self, question: Question, call_id: str) -> None:
        if (call_id, question.binding) in self._allowed:
            self._allowed.remove((call_id, question.binding))
        elif not await self._is_covered(question):
            raise NotApproved(CHANGED_MEANWHILE)

    async def _grant(self, question: Question, *, lasting: bool) -> None:
        session_id = "" if lasting else self.asker.session_id

        def unit(tx: Transaction) -> None:
            for rule in question.rules:
                approvals.grant(tx, self.asker.holder, rule, session_id=session_id, by=_BY)

        await self.db.write(unit)

    async def _is_covered(self, question: Question) -> bool:
        return await self.db.read(lambda tx: approvals.is_covered(tx, self.asker, question.rules))
