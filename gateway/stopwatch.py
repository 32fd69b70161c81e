"""Measure the model calls and tools of a turn for its trail, and know which tools run now."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_core.events import Emit, Event, ToolFinished, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    ms: int
    input_tokens: int | None = None  # None where the model does not count
    output_tokens: int | None = None
    context_tokens: int = 0  # of its last attempt: so long is the conversation now; 0: not counted


class Stopwatch:
    """Measures a turn by its events, which it passes on. A model call begins with the turn, or after the last tool."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._tools: dict[str, float] = {}  # start times by call
        self._running: set[str] = set()  # calls without a stored result
        self.at_rest: Callable[[], None] = lambda: None  # called when the last of them has ended
        self._begin_call()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Usage):
            self._input_tokens += event.input_tokens
            self._output_tokens += event.output_tokens
            self._context_tokens = event.total_tokens if event.input_tokens else 0
        self._emit(event)
        if isinstance(event, ToolFinished) and event.call.id in self._running:
            self._running.remove(event.call.id)
            if not self._running:
                self.at_rest()

    @property
    def runs_a_tool(self) -> bool:
        return bool(self._running)

    def model_replied(self) -> ModelCall:
        """Return the model call that has just ended."""
        used, made = self._input_tokens, self._output_tokens
        call = ModelCall(
            ms=_ms_since(self._began),
            input_tokens=used or None,
            output_tokens=made or None,
            context_tokens=self._context_tokens,
        )
        self._begin_call()
        return call

    def tool_started(self, call_id: str) -> None:
        self._tools[call_id] = time.monotonic()
        self._running.add(call_id)

    def tool_finished(self, call_id: str) -> int | None:
        """Return the milliseconds that a tool took; None when an earlier process started it."""
        began = self._tools.pop(call_id, None)
        self._begin_call()
        return _ms_since(began) if began is not None else None

    def _begin_call(self) -> None:
        self._began = time.monotonic()
        self._input_tokens = self._output_tokens = 0
        self._context_tokens = 0


def _ms_since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
