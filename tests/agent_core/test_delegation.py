"""Delegated tasks without a store: the deadline, the gate, and scripts."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_core.agent import AIAgent
from agent_core.conversation import Message, assistant, user
from agent_core.delegation import TaskProgress, make_task_context, run_tasks
from agent_core.events import Emit, TextDelta, ToolStarted, Usage
from agent_core.result import TurnOutcome
from hermes_config.settings import DelegationSettings
from tests.agent_core.scripted import asks, call
from tools.approval.gate import Question
from tools.base import Tool, ToolContext
from tools.delegated import DelegatedResult

QUESTION = Question(tool="x", action="x", reasons=("x",), binding="x")


@dataclass
class SlowGate:
    """Lets a call pass once the test does."""

    may_pass: asyncio.Event = field(default_factory=asyncio.Event)
    ids: list[str] = field(default_factory=list)

    async def ask(self, question: Question, call_id: str) -> None:
        self.ids.append(call_id)
        await self.may_pass.wait()

    async def use(self, question: Question, call_id: str) -> None:
        self.ids.append(call_id)


@dataclass
class Stuck:
    """Says something and never ends; with a context, it asks first."""

    progress: TaskProgress
    context: ToolContext | None = None

    async def run(self) -> TurnOutcome:
        if self.context is not None:
            await self.context.gate.ask(QUESTION, "1")
            await self.context.gate.use(QUESTION, "1")
            answer = assistant("allowed")
            return TurnOutcome(history=(user("x"),), messages=(answer,), finished_naturally=True)
        self.progress.messages.append(asks(call("file_write", '{"path": "a.txt"}', call_id="1")))
        self.progress.messages.append(Message(role="tool", tool_call_id="1"))
        self.progress(Usage(input_tokens=5, output_tokens=1))
        self.progress(TextDelta(text="half a thought"))
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_task_that_runs_for_ever_is_ended_with_what_it_had() -> None:
    ended: list[DelegatedResult] = []

    async def finish(number: int, result: DelegatedResult, last: Message | None) -> None:
        ended.append(result)

    async with asyncio.timeout(30):
        [result] = await run_tasks(
            lambda number, progress: Stuck(progress).run(),
            1,
            ToolContext(task_id="one"),
            DelegationSettings(idle_timeout_seconds=0.05),
            finish,
        )
    assert (result.status, result.summary, result.files_written) == ("partial", "half a thought", ("a.txt",))
    assert (result.tools_used, result.tokens) == (1, 6)
    assert ended == [result]


async def test_time_in_which_a_human_is_asked_does_not_count() -> None:
    gate, told = SlowGate(), list[str]()
    context = ToolContext(task_id="one", call_id="call_7", gate=gate, report=told.append)

    async def perform(number: int, progress: TaskProgress) -> TurnOutcome:
        return await Stuck(progress, make_task_context(context, number, progress, task_id="child")).run()

    async with asyncio.timeout(30):
        running = asyncio.create_task(run_tasks(perform, 1, context, DelegationSettings(idle_timeout_seconds=0.01)))
        done, _ = await asyncio.wait([running], timeout=0.2)  # many times the deadline
        assert not done
        gate.may_pass.set()
        [result] = await running
    assert (result.status, result.summary) == ("completed", "allowed")
    assert gate.ids == ["call_7/1/1", "call_7/1/1"]
    assert told[-1] == "1 of 1 done · 0 tokens"


class Boss:
    """Delegates in a script what it is asked."""

    name = "boss"

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        first = next(message.text for message in messages if message.role == "user")
        if first != "delegate":
            return assistant(f"did {first} with {', '.join(tool.name for tool in tools)}")
        if messages[-1].role == "tool":
            return assistant(messages[-1].text)
        return asks(call("delegate_batch", '{"tasks": [{"goal": "sing"}, {"goal": "dance", "toolsets": ["clock"]}]}'))


async def test_a_script_delegates_in_its_own_process() -> None:
    events: list[object] = []
    agent = AIAgent(Boss(), enabled_toolsets=["delegate", "clock", "todo"], on_event=events.append)
    results = json.loads(await agent.chat("delegate"))["results"]
    assert [one["summary"] for one in results] == ["did sing with clock, todo", "did dance with clock"]
    assert [event.call.name for event in events if isinstance(event, ToolStarted)] == ["delegate_batch"]
