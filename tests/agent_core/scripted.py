"""A model that says what the test wrote, and tools that do what the test says."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agent_core.conversation import Message, ToolCall, assistant
from agent_core.events import Emit, TextDelta, Usage
from tools.base import Tool, ToolContext, ToolOutput

CONTEXT = ToolContext(task_id="telegram:dm:1", timezone="Europe/Berlin")


@dataclass
class ScriptedModel:
    replies: list[Message | Exception]  # an exception is raised
    name: str = "scripted"
    asked: list[tuple[Message, ...]] = field(default_factory=list)
    offered: list[tuple[str, ...]] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)  # whether it might call them

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.asked.append(tuple(messages))
        self.offered.append(tuple(tool.name for tool in tools))
        self.free.append(may_call)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        emit(TextDelta(text=reply.text))
        emit(Usage(input_tokens=10, output_tokens=1, cached_tokens=5))
        return reply


def call(name: str, arguments: str = "{}", *, call_id: str | None = None) -> ToolCall:
    return ToolCall(id=f"call_{name}" if call_id is None else call_id, name=name, arguments=arguments)


def asks(*calls: ToolCall, reasoning: str = "") -> Message:
    return assistant(tool_calls=calls, reasoning=reasoning)


def plain_tool(name: str, run: Callable[[], Awaitable[ToolOutput]]) -> Tool:
    async def ignoring_arguments(arguments: str, context: ToolContext) -> ToolOutput:
        return await run()

    return Tool(name=name, toolset="test", description="", schema={"type": "object"}, run=ignoring_arguments)


def answering(name: str, output: ToolOutput = "done") -> Tool:
    async def run() -> ToolOutput:
        return output

    return plain_tool(name, run)


def raising(name: str, error: BaseException) -> Tool:
    async def run() -> ToolOutput:
        raise error

    return plain_tool(name, run)
