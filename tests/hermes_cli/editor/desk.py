"""An editor: the Python SDK's client at the other end of a real `hermes acp`."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema

from playground.model_script import ModelAnswer, ScriptedCall, ask_for
from playground.model_server import ModelServer

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 200


class Editor:
    """Remembers what it is shown; answers questions with what it was told, or with silence (`None`), or not ("")."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.shown: list[Any] = []
        self.asked: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self._changed = asyncio.Condition()

    async def session_update(self, session_id: str, update: Any, **unused: Any) -> None:
        self.shown.append(update)
        async with self._changed:
            self._changed.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **unused: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        answer = self.answers.pop(0)
        if answer is None:
            await asyncio.Event().wait()
        if not answer:
            raise acp.RequestError.method_not_found("session/request_permission")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=answer)
        return schema.RequestPermissionResponse(outcome=outcome)

    def texts(self, kind: str = "agent_message_chunk") -> list[str]:
        return [one.content.text for one in self.shown if one.session_update == kind]

    def calls(self, call_id: str) -> list[Any]:
        return [one for one in self.shown if getattr(one, "tool_call_id", "") == call_id]

    async def until_status(self, call_id: str, status: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: any(one.status == status for one in self.calls(call_id)))


class Desk:
    def __init__(self, agent: Any, process: asyncio.subprocess.Process) -> None:
        self.agent = agent
        self.process = process

    async def ask(self, session: str, text: str) -> str:
        async with asyncio.timeout(PATIENCE_SECONDS):
            response = await self.agent.prompt(prompt=[acp.text_block(text)], session_id=session)
        return str(response.stop_reason)


@asynccontextmanager
async def open_desk(editor: Editor, errors: Path) -> AsyncIterator[Desk]:
    with errors.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-W", "error", "-m", "hermes_cli", "acp"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            cwd=ROOT,
            env=os.environ,
        )
    assert process.stdin is not None
    agent = acp.connect_to_agent(cast(acp.Client, editor), process.stdin, process.stdout, use_unstable_protocol=True)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert answer.agent_info is not None
        assert (answer.agent_info.name, answer.agent_capabilities.load_session) == ("hermes", True)  # type: ignore[union-attr]
        yield Desk(agent, process)
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await process.wait() in (0, -9)
    finally:
        await agent.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


def call(name: str, call_id: str, **arguments: Any) -> ModelAnswer:
    return ask_for(ScriptedCall(id=call_id, name=name, arguments=json.dumps(arguments)))


def write_config(model: ModelServer, home: Path, *, wait_seconds: float = 60) -> None:
    home.mkdir(exist_ok=True)
    settings = {
        "model": {"name": "playground", "base_url": model.url},
        "terminal": {"backend": "local"},  # in a sandbox nothing would ask
        "approvals": {"terminal_wait_seconds": wait_seconds},
    }
    (home / "config.yaml").write_text(json.dumps(settings))
