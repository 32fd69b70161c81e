"""A model for the agent that an editor talks to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from playground.model_server import ModelServer
from tests.hermes_cli.editor.desk import write_config


@pytest.fixture
async def model(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        monkeypatch.setenv("OPENAI_API_KEY", server.api_key)
        write_config(server, home)
        yield server
