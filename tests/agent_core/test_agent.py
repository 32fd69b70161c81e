"""The agent as a script uses it."""

import json
from pathlib import Path

import pytest

from agent_core.agent import AIAgent
from agent_core.conversation import ToolCall, assistant, tool_result, user
from agent_core.events import Event, TextDelta
from agent_core.result import tool_names
from agent_core.trajectory import to_sharegpt
from tests.agent_core.scripted import ScriptedModel
from tools.toolsets import ToolsetError


async def test_chat_is_one_line() -> None:
    assert await AIAgent(enabled_toolsets=["core"]).chat("what is 17 * 23?") == "17 * 23 = 391"


async def test_run_takes_history_system_and_task() -> None:
    model = ScriptedModel([assistant("fine")])
    agent = AIAgent(model=model, enabled_toolsets=[])
    history = [user("how are you?"), assistant("well")]
    result = await agent.run("and now?", history=history, system="Be brief.", task_id="t1")
    assert [message["role"] for message in result.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert result.messages[0]["content"] == "Be brief."
    assert result.finished_naturally


async def test_todos_are_kept_per_task() -> None:
    agent = AIAgent()
    await agent.run("todo: water the plants", task_id="garden")
    garden = await agent.run("what is on my todo list", task_id="garden")
    other = await agent.run("what is on my todo list", task_id="kitchen")
    assert "plants" in garden.messages[-1]["content"]
    assert "empty" in other.messages[-1]["content"]
    assert tool_names(garden.messages) == ["todo"]


async def test_events_and_tool_progress_are_told_unless_quiet() -> None:
    events: list[Event] = []
    tools: list[str] = []
    for quiet in (False, True):
        agent = AIAgent(
            on_event=events.append, tool_progress_callback=lambda name, _: tools.append(name), quiet_mode=quiet
        )
        await agent.chat("what time is it?")
    assert tools == ["clock"]
    assert any(isinstance(event, TextDelta) for event in events)


async def test_an_unknown_toolset_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ToolsetError, match="core"):
        await AIAgent(enabled_toolsets=["croe"]).chat("hello")


async def test_trajectories_are_saved_as_they_were(tmp_path: Path) -> None:
    agent = AIAgent(save_trajectories=True, trajectories_dir=tmp_path)
    await agent.chat("what time is it?")
    (row,) = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert row["conversations"] == agent.trajectory()
    assert [turn["from"] for turn in row["conversations"]] == ["system", "human", "gpt", "tool", "gpt"]
    assert (row["model"], row["completed"]) == ("demo", True)


def test_a_trajectory_before_the_first_run_is_refused_clearly() -> None:
    with pytest.raises(ValueError, match="run something first"):
        AIAgent().trajectory()


def test_sharegpt_groups_results_and_keeps_thoughts_and_broken_arguments() -> None:
    calls = (ToolCall(id="1", name="a", arguments='{"x": 1}'), ToolCall(id="2", name="b", arguments="{broken"))
    results = [tool_result(call, "ok") for call in calls]
    turns = to_sharegpt([user("go"), assistant("on it", tool_calls=calls, reasoning="hm"), *results], (), system="S")
    assert [turn["from"] for turn in turns] == ["system", "human", "gpt", "tool"]
    assert turns[0]["value"] == "S"
    assert turns[2]["value"].startswith("<think>\nhm\n</think>\non it\n<tool_call>")
    assert '"arguments": "{broken"' in turns[2]["value"]
    assert turns[3]["value"].count("<tool_response>") == 2
