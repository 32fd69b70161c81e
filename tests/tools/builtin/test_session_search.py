"""The `session_search` tool: what it passes on, what it returns, and what it says about mistakes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from tools.base import BadArguments, ToolContext, ToolFailed
from tools.builtin.session_search import NO_CONVERSATIONS, SessionQuery, SessionWindow, session_search_tool
from tools.provenance import CHAT

ROW = {"session_key": "telegram:dm:1", "role": "user", "content": "the harbour", "match": True}


@dataclass
class Remembered:
    windows: Sequence[SessionWindow] = ((ROW,),)
    asked: list[tuple[str, SessionQuery]] = field(default_factory=list)

    async def search(self, task_id: str, query: SessionQuery) -> Sequence[SessionWindow]:
        self.asked.append((task_id, query))
        return self.windows


async def test_arguments_reach_the_store() -> None:
    past = Remembered()
    arguments = {"query": "harbour", "limit": 500, "platform": "slack", "since": "2026-03-01", "until": "2026-03-02"}
    result = await session_search_tool(past).run(json.dumps(arguments), ToolContext(task_id="s1"))
    assert result == {"windows": ((ROW,),)}
    assert past.asked == [
        (
            "s1",
            SessionQuery(
                query="harbour",
                limit=30,
                platform="slack",
                since=datetime(2026, 3, 1, tzinfo=UTC),
                until=datetime(2026, 3, 2, 23, 59, 59, 999_000, tzinfo=UTC),
            ),
        )
    ]


async def test_a_summary_is_an_answer_of_a_model_to_the_question() -> None:
    questions = []

    async def ask(question: str) -> str:
        questions.append(question)
        return "By the harbour."

    context = replace(ToolContext(task_id="s1"), ask=ask)
    run = session_search_tool(Remembered()).run
    assert await run('{"query": "where?", "summary": true}', context) == {"summary": "By the harbour."}
    assert "where?" in questions[0]
    assert "the harbour" in questions[0]
    assert await run('{"query": "where?", "summary": true}', replace(context, ask=None)) == {"windows": ((ROW,),)}


async def test_nothing_found_says_what_to_try() -> None:
    result = await session_search_tool(Remembered(windows=())).run('{"query": "x"}', ToolContext(task_id="s1"))
    assert result == {"windows": [], "hint": "Nothing found. Try other or fewer words."}


@pytest.mark.parametrize("wrong", [{"since": "yesterday"}, {"until": "32nd"}])
async def test_a_time_that_is_none_names_the_form(wrong: dict[str, str]) -> None:
    with pytest.raises(ToolFailed, match="2026-03-01"):
        await session_search_tool(Remembered()).run(json.dumps({"query": "x"} | wrong), ToolContext(task_id="s1"))


@pytest.mark.parametrize(
    "arguments", ["{}", '{"query": ""}', '{"query": "x", "limit": 0}', '{"query": "x", "role": "boss"}']
)
async def test_wrong_arguments_are_refused(arguments: str) -> None:
    with pytest.raises(BadArguments):
        await session_search_tool(Remembered()).run(arguments, ToolContext(task_id="s1"))


async def test_without_a_gateway_there_is_nothing_to_search() -> None:
    with pytest.raises(ToolFailed, match="no earlier conversations"):
        await session_search_tool(NO_CONVERSATIONS).run('{"query": "x"}', ToolContext(task_id="s1"))


def test_results_count_as_text_from_outside() -> None:
    assert session_search_tool(NO_CONVERSATIONS).brings == CHAT
