"""`hermes` with a model that says what it is told: `say …` at once, `hold …` half of it until the file `go` is there.
`try …` fails without that file.

Everything else it leaves to the demo model, tools included. A message with the words in the file `refused` is not taken
while that file is there.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agent_core.conversation import Message, assistant
from agent_core.events import Emit, TextDelta
from agent_core.model import ModelError
from agent_core.models.demo import DemoModel
from gateway.errors import StoreUnavailable
from gateway.messages import Part
from gateway.platforms import web
from gateway.turns.metering import MonitoredModel
from gateway.wiring import app
from hermes_cli.main import main
from hermes_config.places import Home
from tools.base import Tool

_PIECE_CHARS = 7


class EchoModel:
    name = "echo"

    def __init__(self, home: Path) -> None:
        self._go = home / "go"
        self._demo = DemoModel()

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        order, _, text = messages[-1].text.partition(" ")
        if messages[-1].role != "user" or order not in ("say", "hold", "try"):
            return await self._demo.reply(messages, tools, emit)
        if order == "try" and not self._go.exists():
            raise ModelError("The model did not answer.")
        await self._write(text[: len(text) // 2], emit)
        while order == "hold" and not self._go.exists():
            await asyncio.sleep(0.01)  # another process decides
        await self._write(text[len(text) // 2 :], emit)
        return assistant(text)

    async def _write(self, text: str, emit: Emit) -> None:
        for start in range(0, len(text), _PIECE_CHARS):
            emit(TextDelta(text=text[start : start + _PIECE_CHARS]))
            await asyncio.sleep(0)  # so that pieces travel one by one


def _build_model(*_: Any, **__: Any) -> MonitoredModel:
    return MonitoredModel(EchoModel(Home.locate().root))


class RefusingPlatform(web.WebPlatform):
    async def accept(self, message_id: str, chat: str, parts: Sequence[Part]) -> None:
        refused = Home.locate().root / "refused"
        if refused.exists() and refused.read_text() in web.words(parts):
            raise StoreUnavailable("there is no room just now")
        await super().accept(message_id, chat, parts)


if __name__ == "__main__":
    patch.object(app, "build_model", _build_model).start()
    web.WebPlatform = RefusingPlatform  # type: ignore[misc]
    main()
