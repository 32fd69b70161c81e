"""Several models asked at once: one that fails is named, and only when all fail the call does."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from agent_core.model import Model, ModelError, make_panel
from tools.base import Tool, ToolContext, ToolFailed
from tools.builtin.moa import NOT_SET, moa_tool


class Opinion:
    """Answers each question with its own name, or not at all."""

    def __init__(self, name: str, *, fails: bool = False) -> None:
        self.name = name
        self.asked: list[str] = []
        self._fails = fails

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.asked.append(messages[-1].text)
        if self._fails:
            raise ModelError(f"{self.name} has no credit.")
        return assistant(f"says {self.name}")


async def ask(models: Sequence[Model], judge: Model, question: str = "why?") -> dict[str, Any]:
    context = ToolContext(task_id="one", panel=make_panel(models, judge))
    output = await moa_tool("").run(json.dumps({"question": question}), context)
    assert isinstance(output, dict)
    return output


async def test_the_answers_are_merged_and_a_failing_model_is_named() -> None:
    judge = Opinion("judge")
    assert await ask([Opinion("a"), Opinion("b", fails=True), Opinion("c")], judge) == {
        "answer": "says judge",
        "models": ["a", "c"],
        "failed": {"b": "b has no credit."},
    }
    [merging] = judge.asked
    assert all(words in merging for words in ("why?", "says a", "says c"))


async def test_without_an_aggregator_the_single_answers_return() -> None:
    found = await ask([Opinion("a")], Opinion("judge", fails=True))
    assert (found["answers"], found["models"]) == ({"a": "says a"}, ["a"])
    assert "judge has no credit." in found["note"]


async def test_what_cannot_be_asked_is_an_error_that_says_why() -> None:
    with pytest.raises(ToolFailed, match="None of the models has answered"):
        await ask([Opinion("a", fails=True)], Opinion("judge"))
    with pytest.raises(ToolFailed, match="`question` is required"):
        await ask([Opinion("a")], Opinion("judge"), question=" ")
    with pytest.raises(ToolFailed, match="No models can be asked together here"):
        await ask([], Opinion("judge"))
    assert moa_tool().unavailable() == NOT_SET
