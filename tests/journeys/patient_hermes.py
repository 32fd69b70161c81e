"""`hermes` with a model that thinks until the file `go` is in the home."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from gateway.turns.metering import MonitoredModel
from gateway.wiring import app
from hermes_cli.main import main
from hermes_config.places import Home
from tools.base import Tool


class PatientModel:
    name = "patient"

    def __init__(self, home: Path) -> None:
        self._home = home

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        (self._home / "logs").mkdir(exist_ok=True)
        (self._home / "logs" / "thinking").touch()
        while not (self._home / "logs" / "go").exists():
            await asyncio.sleep(0.01)  # another process decides
        return assistant(f"thought about: {messages[-1].text}")


def _build_model(*_: Any, **__: Any) -> MonitoredModel:
    return MonitoredModel(PatientModel(Home.locate().root))


if __name__ == "__main__":
    patch.object(app, "build_model", _build_model).start()
    main()
