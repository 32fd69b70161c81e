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
class ToolWaiting:
    """A tool waits for a person, or no longer: nothing will happen by itself meanwhile."""

    waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input
    cost_micros: int | None = None  # millionths of a US dollar; None: the provider does not say
    model: str = ""  # which of a chain it was; empty: whoever was asked

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Both together; the model is that of the later one."""
        costs = [one.cost_micros for one in (self, other) if one.cost_micros is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost_micros=sum(costs) if costs else None,
            model=other.model or self.model,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    finished_naturally: bool


Event = TextDelta | ReasoningDelta | Restarted | ToolStarted | ToolFinished | ToolWaiting | Usage | Done
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """For callers with nothing to show."""


class RestartableEmit:
    """Tells a reply that may have to be begun again, so that nobody shows a text twice.

    Passes events on. After `restart`, what was told is taken back before anything new is told.

    It is taken back as late as possible: half an answer stays on the screen until there is a better one.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._told = False
        self._take_back = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Restarted):
            self.restart()
            self.settle()
            return
        if isinstance(event, TextDelta | ReasoningDelta):
            self.settle()
            self._told = True
        self._emit(event)

    def restart(self) -> None:
        self._take_back = self._told

    def settle(self) -> None:
        """Takes back what is still to be taken back; called once the reply is complete."""
        if self._take_back:
            self._emit(Restarted())
            self._told = self._take_back = False
