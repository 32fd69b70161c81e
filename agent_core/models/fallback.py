"""A chain of models: when one fails, the next answers, until the first is back."""

import time
from collections.abc import Callable, Sequence

import structlog

from agent_core.conversation import Message
from agent_core.events import Emit, RestartableEmit
from agent_core.model import KeyRefused, Model, ModelUnknown, NoCredit, NoEndpoint, ProviderError, with_effort
from tools.base import Tool

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class FallbackModel:
    """A model made of several, in order of preference.

    The next one is asked when a model is overloaded, unreachable, out of credit or answers nonsense, and also when its
    key is missing or refused or its name unknown: people get answers while the operator sleeps, and the log has an
    error. A conversation that is too long, filtered content and a request that is called wrong are raised at once
    (`agent_core.model` says why).

    A failed model is asked last for `cooldown_seconds`, or as long as it asked for, and is then preferred again. When
    all fail, the error is that of the first model asked.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        cooldown_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ValueError("a chain needs at least one model")
        self.name = models[0].name
        self._models = tuple(models)
        self._cooldown_seconds = cooldown_seconds
        self._clock = clock
        self._unavailable_until: dict[int, float] = {}  # by position in the chain
        self._variants: dict[str, FallbackModel] = {}  # by effort

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        restartable = RestartableEmit(emit)
        first_error: ProviderError | None = None
        for position in self._order():
            try:
                message = await self._models[position].reply(messages, tools, restartable, may_call=may_call)
            except ProviderError as error:
                if not error.fails_over:
                    raise
                self._set_aside(position, error)
                first_error = first_error or error
                restartable.restart()
                continue
            restartable.settle()
            self._unavailable_until.pop(position, None)
            return message
        assert first_error is not None
        raise first_error

    def with_effort(self, effort: str) -> Model:
        if effort not in self._variants:
            models = [with_effort(model, effort) for model in self._models]
            variant = FallbackModel(models, cooldown_seconds=self._cooldown_seconds, clock=self._clock)
            variant._unavailable_until = self._unavailable_until
            self._variants[effort] = variant
        return self._variants[effort]

    @property
    def in_use(self) -> str:
        """Return the name of the model that is asked next."""
        return self._models[self._order()[0]].name

    async def aclose(self) -> None:
        for model in self._models:
            if close := getattr(model, "aclose", None):
                await close()

    def _order(self) -> list[int]:
        now = self._clock()
        waits = {position: self._unavailable_until.get(position, 0.0) - now for position in range(len(self._models))}
        return sorted(waits, key=lambda position: max(0.0, waits[position]))

    def _set_aside(self, position: int, error: ProviderError) -> None:
        seconds = error.retry_after_seconds if error.retry_after_seconds is not None else self._cooldown_seconds
        self._unavailable_until[position] = self._clock() + seconds
        needs_operator = isinstance(error, NoEndpoint | KeyRefused | NoCredit | ModelUnknown)
        (log.error if needs_operator else log.warning)(
            "model_out", model=self._models[position].name, error=type(error).__name__, rests_seconds=round(seconds)
        )
