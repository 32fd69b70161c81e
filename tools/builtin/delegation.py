"""The `delegate_task` tool: have tasks done by agents of their own, with a fresh conversation each."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from tools.base import Tool, ToolContext, ToolFailed
from tools.delegated import DelegatedResult, DelegatedTask
from tools.registry import build_tool, registry
from tools.toolsets import TOOLSETS, Toolset, ToolsetError, resolve

NAME = "delegate_task"
MAX_TASKS = 20
_MAX_CHARS = 50_000
_NOT_INSIDE = ("delegate", "memory", "messaging")

Goal = Annotated[
    str, Field(description="What to achieve, and what to report back. The agent that does it knows nothing else.")
]
Context = Annotated[str, Field(description="Facts it needs: paths, addresses, decisions, what was tried before.")]
Toolsets = Annotated[
    list[str], Field(description="Toolsets it may use, such as ['file', 'web']. Default: all of yours.")
]


class TaskArguments(BaseModel):
    """One task of a batch."""

    model_config = ConfigDict(extra="forbid")

    goal: Goal
    context: Context = ""
    toolsets: Toolsets = []


async def delegate_task(
    call: ToolContext,
    goal: Goal = "",
    context: Context = "",
    toolsets: Toolsets = [],  # noqa: B006  # never changed; a default of a parameter must be plain
    tasks: Annotated[
        list[TaskArguments],
        Field(description="Several tasks instead of `goal`; three are done at once, the rest wait for their turn."),
    ] = [],  # noqa: B006
) -> dict[str, Any]:
    """Have a task done by another agent that has a conversation of its own and the same files, and get its summary.
    Use it for work that takes many steps whose details you do not need, and for independent tasks at the same time.
    It cannot ask you anything, remember, delegate or write to people. Pass either `goal` or `tasks`."""
    if tasks and (goal.strip() or context or toolsets):
        raise ToolFailed("Pass either `goal` (with `context` and `toolsets`) or `tasks`, not both.")
    if not tasks and not goal.strip():
        raise ToolFailed("`goal` is required: say what to achieve and what to report back.")
    wanted = tasks or [TaskArguments(goal=goal, context=context, toolsets=toolsets)]
    if call.delegate is None:
        raise ToolFailed("Tasks cannot be delegated here. Do it yourself.")
    if len(wanted) > MAX_TASKS:
        raise ToolFailed(f"These are {len(wanted)} tasks; at most {MAX_TASKS} can be given at once. Make fewer calls.")
    orders = [_make_task(one, number, call.tools) for number, one in enumerate(wanted, 1)]
    results = await call.delegate(orders, call)
    if not tasks:
        return _describe(results[0])
    return {"results": [{"task": number} | _describe(one) for number, one in enumerate(results, 1)]}


async def delegate_batch(
    call: ToolContext,
    tasks: Annotated[list[TaskArguments], Field(description="The tasks; three are done at once", min_length=1)],
) -> dict[str, Any]:
    """Have several tasks done at the same time by agents of their own, as `tasks` of delegate_task does."""
    return await delegate_task(call, tasks=tasks)


def _make_task(wanted: TaskArguments, number: int, tools: Mapping[str, Tool]) -> DelegatedTask:
    if not wanted.goal.strip():
        raise ToolFailed(f"Task {number} has an empty `goal`: say what to achieve and what to report back.")
    if len(wanted.goal) + len(wanted.context) > _MAX_CHARS:
        raise ToolFailed(f"Task {number} is longer than {_MAX_CHARS:,} characters. Write it to a file and name that.")
    allowed = [tool for tool in tools.values() if tool.toolset not in _NOT_INSIDE]
    if wanted.toolsets:
        allowed = _choose(wanted.toolsets, allowed, tools)
    return DelegatedTask(goal=wanted.goal.strip(), context=wanted.context.strip(), tools=tuple(allowed))


def _choose(names: Sequence[str], allowed: Sequence[Tool], tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the tools of the named toolsets. Raises ToolFailed for one that is unknown, or has nothing to offer."""
    own = {tool.toolset for tool in allowed}
    known = {tool.toolset: Toolset(description="") for tool in tools.values()} | dict(TOOLSETS)
    offered = f"You can pass on: {', '.join(sorted(own)) or 'none'}."
    chosen: set[str] = set()
    for name in names:
        try:
            sets = resolve([name], known)
        except ToolsetError as error:
            raise ToolFailed(f"There is no toolset named {name!r}. {offered}") from error
        if name in _NOT_INSIDE:
            raise ToolFailed(f"The toolset {name!r} cannot be used in a delegated task. {offered}")
        if not sets & own:
            raise ToolFailed(f"The toolset {name!r} is not switched on in this conversation. {offered}")
        chosen |= sets
    return [tool for tool in allowed if tool.toolset in chosen]


def _describe(result: DelegatedResult) -> dict[str, Any]:
    described: dict[str, Any] = {"status": result.status, "summary": result.summary}
    if result.problem:
        described["problem"] = result.problem
    if result.files_written:
        described["files_written"] = list(result.files_written)
    return described | {"tools_used": result.tools_used, "tokens": result.tokens}


for _function in (delegate_task, delegate_batch):
    _tool = build_tool(
        _function,
        toolset="delegate",
        brings=f"tool:{_function.__name__}",
        only_waits=lambda arguments: True,  # it takes no slot from the tools of the agents that it waits for
        continues=True,
    )
    registry.add(_tool, module=__name__)
