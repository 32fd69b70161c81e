"""A model, and whether we can hear it: when it last answered, and what was wrong last."""

from collections.abc import Sequence
from typing import Any

from agent_core.conversation import Message
from agent_core.events import Emit
from agent_core.model import Model, ModelError
from gateway.clock import now_ms
from tools.base import Tool


class HeardModel:
    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model
        self._answered_ms = 0
        self._problem = ""

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        try:
            message = await self._model.reply(messages, tools, emit, may_call=may_call)
        except ModelError as error:
            self._problem = str(error)
            raise
        self._answered_ms, self._problem = now_ms(), ""
        return message

    async def aclose(self) -> None:
        if close := getattr(self._model, "aclose", None):
            await close()

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "answered_ms": self._answered_ms, "problem": self._problem[:300]}
