"""How long the model calls and the tools of a turn take, and what the calls use: for its trail. And what runs now."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_core.events import Emit, Event, ToolFinished, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    ms: int
    input_tokens: int | None = None  # None where the model does not count
    output_tokens: int | None = None


class Stopwatch:
    """Passes a turn's events on, and counts. A model call begins with the turn, or where the last tool ended."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._tools: dict[str, float] = {}  # by call: when it began
        self._running: set[str] = set()  # calls whose results are not written down yet
        self.at_rest: Callable[[], None] = lambda: None  # the last of them has ended
        self._begin_call()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Usage):
            self._input_tokens += event.input_tokens
            self._output_tokens += event.output_tokens
        self._emit(event)
        if isinstance(event, ToolFinished) and event.call.id in self._running:
            self._running.remove(event.call.id)
            if not self._running:
                self.at_rest()

    @property
    def runs_a_tool(self) -> bool:
        return bool(self._running)

    def model_replied(self) -> ModelCall:
        """The call that is over now."""
        used, made = self._input_tokens, self._output_tokens
        call = ModelCall(ms=_ms_since(self._began), input_tokens=used or None, output_tokens=made or None)
        self._begin_call()
        return call

    def tool_started(self, call_id: str) -> None:
        self._tools[call_id] = time.monotonic()
        self._running.add(call_id)

    def tool_finished(self, call_id: str) -> int | None:
        """The milliseconds it took; None of one that an earlier process began."""
        began = self._tools.pop(call_id, None)
        self._begin_call()
        return _ms_since(began) if began is not None else None

    def _begin_call(self) -> None:
        self._began = time.monotonic()
        self._input_tokens = self._output_tokens = 0


def _ms_since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
