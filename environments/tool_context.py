"""The sandbox of one rollout: the policy works in it, the reward function looks into it, then it is gone."""

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tools import base
from tools.backends.base import Command, Workplace
from tools.base import Tool, ToolFailed
from tools.task_workplace import end_task_here, open_task

RolloutBackend = Literal["sandbox", "local"]

MAX_FILE_BYTES = 10_000_000


@dataclass(slots=True, kw_only=True)
class RewardContext:
    """Terminal, files and tools of one rollout. Use it with `async with`, or call `cleanup` at the end.

    Paths are relative to the workspace, wherever the policy has gone with `cd`.
    """

    workplace: Workplace  # the policy's own, with its current folder
    tools: Sequence[Tool]
    _folder: Path

    @classmethod
    async def open(
        cls, tools: Sequence[Tool], files: Mapping[str, str] | None = None, *, backend: RolloutBackend = "sandbox"
    ) -> Self:
        """Make a workspace with these files. Raises BackendFailed where no sandbox can be made."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermes-rollout-"))
        try:
            place = await open_task(TerminalSettings(backend=backend), folder, home=Home.locate())
            ctx = cls(workplace=place, tools=tools, _folder=folder)
            for path, content in (files or {}).items():
                await ctx.write_file(path, content)
        except BaseException:
            await asyncio.to_thread(end_task_here, folder)
            raise
        return ctx

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.cleanup()
        except asyncio.CancelledError:  # a worker of atroposlib is cancelled by it, and again when the loop ends
            await self.cleanup()
            raise

    @property
    def calling(self) -> base.ToolContext:
        """Return the surroundings of the rollout's tool calls. Risky ones are refused: there is nobody to ask."""
        return base.ToolContext(task_id=self.workplace.holder, workplace=self.workplace)

    async def terminal(self, command: str, timeout: float = 60) -> dict[str, Any]:
        """Run a shell command in the workspace; return `output` and `exit_code`."""
        place = self.workplace
        done = await place.backend.run(Command(text=command, workdir=place.workspace, timeout_seconds=timeout))
        return {"output": done.output, "exit_code": done.exit_code, "timed_out": done.timed_out}

    async def read_file(self, path: str) -> str | None:
        """Return a file's text; None when it is not there. Raises ToolFailed for anything but a file."""
        located = self._locate(path)
        if await self.workplace.backend.files.look(located) is None:
            return None
        content = await self.workplace.backend.files.read(located, max_bytes=MAX_FILE_BYTES)
        return content.content.decode(errors="replace")

    async def write_file(self, path: str, content: str) -> None:
        await self.workplace.backend.files.write(self._locate(path), content.encode())

    async def call_tool(self, name: str, **arguments: Any) -> Any:
        """Call one of the policy's tools; raises ToolFailed."""
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise ToolFailed(f"This rollout has no tool named {name!r}.")
        return await tool.run(json.dumps(arguments), self.calling)

    async def cleanup(self) -> None:
        """End all processes of the rollout and delete its folder. A second call does nothing."""
        await asyncio.to_thread(end_task_here, self._folder)
        await self.workplace.backend.close()

    def _locate(self, path: str) -> str:
        return replace(self.workplace, current_folder=self.workplace.workspace).locate(path)


ToolContext = RewardContext  # as reward functions elsewhere call it
