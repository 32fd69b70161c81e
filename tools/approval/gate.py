"""Who is asked before a call does harm: the question, and the gate that puts it to a human."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tools.errors import ToolFailed

Decider = Literal["owner", "asker"]
"""Who may say yes: an owner of this machine, or also the person for whom it is done."""

NOT_ANOTHER_WAY = "Do not try to reach the same in another way."
CHANGED_MEANWHILE = (
    "This was not done: it is not what was approved, since something has changed meanwhile. Look how things stand, and "
    "try again if it is still wanted."
)


class NotApproved(ToolFailed):
    """No human has said yes; the text tells the model so, and what to do now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a human is asked: exactly this, here, and why it is not simply done."""

    tool: str
    action: str  # all of what would be done: the command, the path, the message and to whom
    where: str = ""  # "on this machine, in ~/proj"
    reasons: tuple[str, ...]  # clauses: "it deletes ~/proj with all that is in it"
    rules: tuple[str, ...] = ()  # what a lasting yes grants; none: it can only be said for this once
    binding: str  # see `bound_to`
    decider: Decider = "owner"
    is_blocked: bool = False  # nobody is asked, and nothing overrides it


class Gate(Protocol):
    async def ask(self, question: Question, call_id: str) -> None:
        """Returns once the call may be made, however long that takes; raises NotApproved."""

    async def use(self, question: Question, call_id: str) -> None:
        """Right before the call is made: takes the yes, which is good once, and for this alone; raises NotApproved."""


def bound_to(*facts: Any) -> str:
    """What a yes is good for: all facts on which the effect of a call depends. Another one is another question."""
    # In ASCII: names of folders and what was exported may hold bytes that are no text.
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class NobodyToAsk:
    """Says no for everybody: where there is no human, or where the operator wants it so."""

    advice: str = "Say what you would do and why, so that the user can do it themselves."

    async def ask(self, question: Question, call_id: str) -> None:
        raise NotApproved(refusal(question, self.advice))

    async def use(self, question: Question, call_id: str) -> None:
        raise NotApproved(refusal(question, self.advice))


@dataclass(frozen=True, slots=True)
class NobodyNeedsToBeAsked:
    """Says yes for everybody: the operator has switched asking off."""

    async def ask(self, question: Question, call_id: str) -> None:
        return

    async def use(self, question: Question, call_id: str) -> None:
        return


def refusal(question: Question, what_now: str) -> str:
    return f"This was not done: {'; '.join(question.reasons)}. {NOT_ANOTHER_WAY} {what_now}"
