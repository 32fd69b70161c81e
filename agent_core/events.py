"""What happens during a turn, as small facts for whoever wants to show it.

Events may be lost without harm: what counts is in the journal.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent_core.conversation import Message, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """Forget the text of this reply so far: the model begins it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    call: ToolCall
    result: Message
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    finished_naturally: bool


Event = TextDelta | ReasoningDelta | Restarted | ToolStarted | ToolFinished | Usage | Done
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """For callers with nothing to show."""
