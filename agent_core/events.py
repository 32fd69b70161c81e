"""Events of a turn, for whoever shows its progress. They may be lost without harm: the journal has everything."""

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
    """The model begins its reply again: forget the text of this reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    call: ToolCall
    result: Message
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReported:
    """A running tool says in a line how far it is."""

    call: ToolCall
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWaiting:
    """A tool begins or stops waiting for a person."""

    waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens and the cost of one or more model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of the input
    cost_micros: int | None = None  # millionths of a US dollar; None: the provider does not say
    model: str = ""  # the one of a chain that answered; empty: the model that was asked

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum; the model is that of the later one."""
        costs = [usage.cost_micros for usage in (self, other) if usage.cost_micros is not None]
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


Event = TextDelta | ReasoningDelta | Restarted | ToolStarted | ToolFinished | ToolReported | ToolWaiting | Usage | Done
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drop the event, for callers with nothing to show."""


class RestartableEmit:
    """Passes on the events of a reply that may begin again, so that nobody shows a text twice.

    After `restart` a `Restarted` event precedes the next text. It is sent as late as possible: half an answer stays on
    the screen until there is a better one.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._has_text = False
        self._must_restart = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Restarted):
            self.restart()
            self.settle()
            return
        if isinstance(event, TextDelta | ReasoningDelta):
            self.settle()
            self._has_text = True
        self._emit(event)

    def restart(self) -> None:
        self._must_restart = self._has_text

    def settle(self) -> None:
        """Send a `Restarted` event that is still due; call it once the reply is complete."""
        if self._must_restart:
            self._emit(Restarted())
            self._has_text = self._must_restart = False
