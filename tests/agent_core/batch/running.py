"""`hermes batch` as a process against a model on loopback, to be killed and resumed."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.trajectory import FAILED, SUCCEEDED, Row, read_rows
from agent_core.trajectory_checks import find_problems
from playground.model_script import ModelRefusal, ScriptedCall, Step, ask_for, say
from playground.model_server import ModelServer

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 250  # Ray takes long to start on a busy machine


@dataclass
class BatchModel:
    """Answers prompts such as `number 17`: three of ten numbers with a tool call first."""

    refuse: Callable[[int], Step | None] = lambda number: None  # how a number is refused, if it is
    delay_seconds: float = 0.0
    tool: ScriptedCall = field(default_factory=lambda: ScriptedCall(name="todo", arguments='{"action": "list"}'))
    asked: int = 0
    _reached: dict[int, asyncio.Event] = field(default_factory=dict)

    def __call__(self, body: Mapping[str, Any]) -> Step:
        self.asked += 1
        for count, event in self._reached.items():
            if self.asked >= count:
                event.set()
        last = body["messages"][-1]
        [number] = [int(re.findall(r"\d+", one["content"])[0]) for one in body["messages"] if one["role"] == "user"]
        if refusal := self.refuse(number):
            return refusal
        if number % 10 < 3 and last["role"] == "user":
            return ask_for(self.tool, delay_seconds=self.delay_seconds)
        return say(f"This is number {number}.", delay_seconds=self.delay_seconds)

    async def reach(self, count: int) -> None:
        """Return when so many more requests have come."""
        event = self._reached[self.asked + count] = asyncio.Event()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await event.wait()


@asynccontextmanager
async def serving(model: BatchModel) -> AsyncIterator[ModelServer]:
    async with ModelServer(otherwise=model) as server:
        yield server
        assert not server.refusals


@dataclass
class BatchRun:
    """One run of so many prompts, in a folder."""

    folder: Path
    server: ModelServer
    prompts: int = 30
    workers: int = 2
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lines = [json.dumps({"id": f"t{n}", "prompt": f"number {n}"}) for n in range(self.prompts)]
        (self.folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")

    @property
    def root(self) -> Path:
        return self.folder / "data" / "r"

    async def start(self, *more: str, **environment: str) -> asyncio.subprocess.Process:
        known = {"HERMES_MODEL": "playground", "OPENAI_BASE_URL": self.server.url, "OPENAI_API_KEY": "sk-playground"}
        command = (
            "-m",
            "hermes_cli",
            "batch",
            "--dataset_file=prompts.jsonl",
            "--run_name=r",
            "--toolsets=todo,terminal",
        )
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *command, "--batch_size=4", f"--num_workers={self.workers}", *self.arguments, *more),
            cwd=self.folder,
            env=os.environ
            | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'guard'}", "TERMINAL_ENV": "local"}
            | known
            | environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def finish(self, process: asyncio.subprocess.Process) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            told, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, told.decode()

    async def run(self, *more: str) -> tuple[int, str]:
        return await self.finish(await self.start(*more))

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        process.send_signal(signal.SIGKILL)
        await process.communicate()

    def rows(self, name: str = SUCCEEDED) -> list[Row]:
        rows = [row for _, row in read_rows(self.root / name)]
        assert not any(map(find_problems, rows))
        return [row for row in rows if row is not None]

    def assert_each_prompt_once(self) -> None:
        assert sorted(int(row["task_id"][1:]) for row in self.rows()) == list(range(self.prompts))
        assert self.rows(FAILED) == []
        assert not (self.root / ".work").exists()


def refuse(status: int) -> Callable[[int], Step | None]:
    return lambda number: ModelRefusal(status=status)


def children(pid: int, named: bytes) -> list[int]:
    """Return the descendants of a process whose command line has the name in it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        with suppress(OSError):  # it has ended meanwhile
            if one != pid and named in Path(f"/proc/{one}/cmdline").read_bytes():
                found.append(one)
            for task in Path(f"/proc/{one}/task").glob("*/children"):
                waiting += [int(below) for below in task.read_text().split()]
    return found
