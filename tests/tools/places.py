"""Workplaces for tests of the tools: on this machine, and in a sandbox where one can be made."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.programs import needs
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext
from tools.workplaces import build_workplace, local_workplace

KINDS = ["local", pytest.param("bubblewrap", marks=needs("bubblewrap"))]

Ask = Callable[..., Awaitable[dict[str, Any]]]


def place_in(tmp_path: Path, kind: str = "local", holder: str = "me") -> Workplace:
    folder = tmp_path / "project"
    folder.mkdir(exist_ok=True)
    home = Home(tmp_path / "home")
    if kind == "local":
        place = local_workplace(folder, home=home, outputs=tmp_path / "outputs")
    else:
        place = build_workplace(TerminalSettings(), folder, home=home, private=tmp_path / "private", is_owner=False)
    place.holder = holder
    return place


def asking(tool: Tool, place: Workplace | None, **context: Any) -> Ask:
    async def ask(**arguments: Any) -> dict[str, Any]:
        output = await tool.run(json.dumps(arguments), ToolContext(task_id="one", workplace=place, **context))
        assert isinstance(output, dict)
        json.dumps(output, ensure_ascii=False).encode()  # as it goes to the model
        return output

    return ask
