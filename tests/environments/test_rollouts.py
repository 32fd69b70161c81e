"""A rollout is the agent's own loop in a sandbox of its own, of which nothing is left."""

import asyncio
import contextlib
import json
import os
import select
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agent_core.conversation import Message, assistant
from agent_core.result import final_text, tool_names
from environments.agent_loop import AgentResult, run_rollout
from environments.servers import read_reply
from environments.tool_context import RewardContext, RolloutBackend, ToolContext
from tests.agent_core.scripted import ScriptedModel, asks, call
from tests.programs import needs
from tools.base import ToolFailed
from tools.loading import load_builtin
from tools.toolsets import select as select_tools

TOOLS = select_tools(load_builtin(), ("terminal", "file"), has_workplace=True)
BACKENDS = ["local", pytest.param("sandbox", marks=needs("bubblewrap"))]


class ScriptedPolicy(ScriptedModel):
    managed_state: ClassVar[dict[str, Any]] = {"nodes": []}


def processes_of(folder: Path) -> list[int]:
    """Return the processes that were started for a folder, or are in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if str(folder).encode() in (process / "cmdline").read_bytes() or str(folder) in os.readlink(
                process / "cwd"
            ):
                found.append(int(process.name))
    return found


async def until_gone(folder: Path) -> None:
    """Wait for the last of a sandbox, which ends by itself once nothing runs in it."""
    while left := processes_of(folder):
        with contextlib.suppress(ProcessLookupError):
            watched = os.pidfd_open(left[0])
            try:
                ended = (await asyncio.to_thread(select.select, [watched], [], [], 60))[0]
            finally:
                os.close(watched)
            assert ended, Path(f"/proc/{left[0]}/cmdline").read_bytes()


@pytest.mark.parametrize(
    ("raw", "text", "calls", "reasoning"),
    [
        ("Hello", "Hello", [], ""),
        ("<think>\nwhy\n</think>\nHello", "Hello", [], "why"),
        ("why\n</think>Hello", "Hello", [], "why"),  # opened by the template
        ('a<tool_call>{"name": "x", "arguments": {"b": 1}}</tool_call>', "a", [("x", '{"b": 1}')], ""),
        ('<tool_call>{"name": "x"}</tool_call>\n<tool_call>{"name":"y","arguments":"{}"}</tool_call>', "",
         [("x", "{}"), ("y", "{}")], ""),
        ('<tool_call>{"name": "x", "b": </tool_call>', "", [("x", '{"name": "x", "b":')], ""),
        ("<tool_call>[1]</tool_call>", "", [("", "[1]")], ""),
        ('<tool_call>{"name": "x"', '<tool_call>{"name": "x"', [], ""),  # cut off
    ],
)  # fmt: skip
def test_a_reply_is_read_as_hermes_models_write_it(
    raw: str, text: str, calls: list[tuple[str, str]], reasoning: str
) -> None:
    message = read_reply(raw)
    assert (message.text, message.reasoning) == (text, reasoning)
    assert [(one.name, one.arguments) for one in message.tool_calls] == calls


@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_reward_sees_what_the_policy_did_and_nothing_is_left(backend: RolloutBackend) -> None:
    start = json.dumps({"command": "exec sleep 1000", "background": True})
    work = json.dumps({"command": "mkdir -p sub && cd sub && cat ../in.txt > out.txt"})
    policy = ScriptedPolicy([asks(call("terminal", start), call("terminal", work, call_id="two")), assistant("Done.")])
    async with await RewardContext.open(TOOLS, {"in.txt": "seven\n"}, backend=backend) as ctx:
        result = await run_rollout(policy, "Copy it.", ctx)
        assert ctx.workplace.current_folder.endswith("/sub")  # the policy's own; rewards stay in the workspace
        assert await ctx.read_file("sub/out.txt") == "seven\n"
        assert await ctx.read_file("sub/none.txt") is None
        await ctx.write_file("new.txt", "x")
        assert (await ctx.terminal("cat new.txt; exit 3")) == {"output": "x", "exit_code": 3, "timed_out": False}
        assert (await ctx.call_tool("process", action="list"))["processes"][0]["status"] == "running"
        with pytest.raises(ToolFailed, match="no tool named 'web_search'"):
            await ctx.call_tool("web_search", query="x")
        folder = Path(ctx.workplace.workspace).parent
        assert processes_of(folder)
    await until_gone(folder)
    assert not folder.exists()
    await ctx.cleanup()
    assert ToolContext is RewardContext
    assert (final_text(result.messages), tool_names(result.messages)) == ("Done.", ["terminal", "terminal"])


async def test_a_rollout_that_is_cancelled_twice_leaves_nothing() -> None:
    """As atroposlib's workers are at the end of `serve`: by it, and by the loop that ends."""
    begun = asyncio.Event()

    async def roll(ctx: RewardContext) -> None:
        async with ctx:
            await ctx.call_tool("terminal", command="exec sleep 1000", background=True)
            begun.set()
            await asyncio.Event().wait()

    ctx = await RewardContext.open(TOOLS, backend="local")
    rolling = asyncio.create_task(roll(ctx))
    await asyncio.wait_for(begun.wait(), 60)
    rolling.cancel()
    await asyncio.sleep(0)  # it is cleaning up now
    rolling.cancel()
    await asyncio.wait({rolling}, timeout=60)
    assert rolling.cancelled()
    folder = Path(ctx.workplace.workspace).parent
    assert not processes_of(folder)
    assert not folder.exists()


async def test_the_result_has_the_six_fields_and_the_sampled_tokens() -> None:
    policy = ScriptedPolicy([asks(call("file_read", '{"path": 1}'), reasoning="hm"), assistant("No.")])
    async with await RewardContext.open(TOOLS, backend="local") as ctx:
        result = await run_rollout(policy, "Read it.", ctx, max_turns=1, system="Be brief.")
    assert [field.name for field in fields(AgentResult)] == [
        *("messages", "turns_used", "finished_naturally", "reasoning_per_turn", "tool_errors", "managed_state")
    ]
    assert result.messages[0] == {"role": "system", "content": "Be brief."}
    assert (result.turns_used, result.finished_naturally, result.reasoning_per_turn) == (2, False, ["hm", None])
    assert [error.tool_name for error in result.tool_errors] == ["file_read"]
    assert result.managed_state == {"nodes": []}


async def test_a_long_rollout_is_not_shortened() -> None:
    long = "x" * 40_000
    replies = [*(asks(call("file_read", '{"path": "long.txt"}', call_id=f"c{number}")) for number in range(20))]
    policy = ScriptedPolicy([*replies, assistant("Read.")])
    async with await RewardContext.open(TOOLS, {"long.txt": long}, backend="local") as ctx:
        result = await run_rollout(policy, "Read it again and again.", ctx, max_result_chars=30_000)
    asked: list[tuple[Message, ...]] = policy.asked
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(asked))
    assert result.turns_used == 21
