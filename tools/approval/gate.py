"""The question about a risky call, and the gate that puts it to a human."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tools.errors import ToolFailed

Decider = Literal["owner", "asker"]
"""Who may say yes: an owner of this machine, or also the person for whom it is done."""

NOT_ANOTHER_WAY = "Do not try to do the same in another way."
CHANGED_MEANWHILE = (
    "This was not done: something has changed since it was approved. Check the current state, and try again if it is "
    "still wanted."
)


class NotApproved(ToolFailed):
    """A call was not approved. The text tells the model so, and what to do now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a human: what would be done, where, and why it needs approval."""

    tool: str
    action: str  # all of what would be done: the command, the path, the message and to whom
    where: str = ""  # "on this machine, in ~/proj"
    reasons: tuple[str, ...]  # clauses: "it deletes ~/proj and everything in it"
    rules: tuple[str, ...] = ()  # granted by a lasting yes; none: it can only be approved once
    binding: str  # see `bound_to`
    decider: Decider = "owner"
    is_blocked: bool = False  # refused without asking; nothing overrides it


class Gate(Protocol):
    async def ask(self, question: Question, call_id: str) -> None:
        """Return once the call may be made, however long that takes; raises NotApproved."""

    async def use(self, question: Question, call_id: str) -> None:
        """Use up the approval right before the call is made; raises NotApproved when it is not for this call."""


def bound_to(*facts: Any) -> str:
    """Return a digest of the facts on which the effect of a call depends: an approval is good for these alone."""
    # In ASCII: names of folders and what was exported may hold bytes that are no text.
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class NobodyToAsk:
    """Refuses every question: there is no human to ask, or the operator wants it so."""

    advice: str = "Say what you would do and why, so that the user can do it themselves."

    async def ask(self, question: Question, call_id: str) -> None:
        raise NotApproved(refusal(question, self.advice))

    async def use(self, question: Question, call_id: str) -> None:
        raise NotApproved(refusal(question, self.advice))


@dataclass(frozen=True, slots=True)
class NobodyNeedsToBeAsked:
    """Approves every question: the operator has switched approvals off."""

    async def ask(self, question: Question, call_id: str) -> None:
        return

    async def use(self, question: Question, call_id: str) -> None:
        return


Approve = Callable[[Question], bool | Awaitable[bool]]
"""Decides about one call, at once or when awaited."""


@dataclass(slots=True)
class AskCallback:
    """Asks a function of a script; its yes is good for one call."""

    approve: Approve
    _allowed: set[tuple[str, str]] = field(default_factory=set)

    async def ask(self, question: Question, call_id: str) -> None:
        decided = self.approve(question)
        if not (await decided if isinstance(decided, Awaitable) else decided):
            raise NotApproved(refusal(question, "Tell the user that it was not done, and ask what they want instead."))
        self._allowed.add((call_id, question.binding))

    async def use(self, question: Question, call_id: str) -> None:
        if (call_id, question.binding) not in self._allowed:
            raise NotApproved(CHANGED_MEANWHILE)
        self._allowed.remove((call_id, question.binding))


def refusal(question: Question, what_now: str) -> str:
    return f"This was not done: {'; '.join(question.reasons)}. {NOT_ANOTHER_WAY} {what_now}"
