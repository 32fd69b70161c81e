import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tools.base import BadArguments, ToolContext, ToolFailed
from tools.builtin.todo import MAX_CONTENT_CHARS, MAX_TODOS, TodosInMemory, todo_tool

Ask = Callable[..., Awaitable[list[dict[str, str]]]]


def asking(store: TodosInMemory) -> Ask:
    tool = todo_tool(store)

    async def ask(*, task: str = "one", **arguments: Any) -> list[dict[str, str]]:
        output = await tool.run(json.dumps(arguments), ToolContext(task_id=task))
        assert isinstance(output, dict)
        todos: list[dict[str, str]] = output["todos"]
        return todos

    return ask


@pytest.fixture
def ask() -> Ask:
    return asking(TodosInMemory())


async def test_a_todo_is_created_changed_completed_and_cancelled(ask: Ask) -> None:
    assert await ask(action="list") == []
    await ask(action="create", content=" buy milk ")
    assert await ask(action="create", content="call mum") == [
        {"id": "1", "content": "buy milk", "status": "pending"},
        {"id": "2", "content": "call mum", "status": "pending"},
    ]
    await ask(action="update", id="1", content="buy oat milk")
    await ask(action="complete", id=1)
    assert await ask(action="cancel", id="2") == [
        {"id": "1", "content": "buy oat milk", "status": "completed"},
        {"id": "2", "content": "call mum", "status": "cancelled"},
    ]
    assert len(await ask(action="list")) == 2


async def test_a_model_may_choose_an_id_of_its_own_once(ask: Ask) -> None:
    assert (await ask(action="create", id="plan", content="x"))[0]["id"] == "plan"
    with pytest.raises(ToolFailed, match="is taken"):
        await ask(action="create", id="plan", content="y")
    assert (await ask(action="create", content="z"))[1]["id"] == "1"


async def test_conversations_do_not_see_each_other(ask: Ask) -> None:
    await ask(action="create", content="mine", task="one")
    assert await ask(action="list", task="two") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"action": "create"}, "content is missing"),
        ({"action": "create", "content": "  "}, "content is missing"),
        ({"action": "create", "content": "x" * (MAX_CONTENT_CHARS + 1)}, "limit is 500"),
        ({"action": "create", "content": "x", "id": "i" * 41}, "at most 40"),
        ({"action": "update", "id": "1"}, "content is missing"),
        ({"action": "complete"}, "by its id"),
        ({"action": "complete", "id": "9"}, "no item with the id '9'. The ids are: 1."),
    ],
)
async def test_what_cannot_be_done_is_said_and_changes_nothing(ask: Ask, arguments: dict[str, str], words: str) -> None:
    before = await ask(action="create", content="first")
    with pytest.raises(ToolFailed) as failed:
        await ask(**arguments)
    assert words in str(failed.value)
    assert await ask(action="list") == before


async def test_an_id_on_an_empty_list_is_told_that_it_is_empty(ask: Ask) -> None:
    with pytest.raises(ToolFailed, match="list is empty"):
        await ask(action="cancel", id="1")


async def test_an_unknown_action_is_refused_with_those_there_are(ask: Ask) -> None:
    with pytest.raises(BadArguments, match="'create', 'update', 'complete', 'cancel' or 'list'"):
        await ask(action="delete")


async def test_a_full_list_makes_room_by_what_is_closed_and_otherwise_refuses(ask: Ask) -> None:
    for number in range(MAX_TODOS):
        await ask(action="create", content=str(number))
    with pytest.raises(ToolFailed, match="list is full"):
        await ask(action="create", content="one more")
    await ask(action="complete", id="3")
    todos = await ask(action="create", content="one more")
    assert len(todos) == MAX_TODOS
    assert "3" not in {todo["id"] for todo in todos}
    assert todos[-1]["id"] == str(MAX_TODOS + 1)


async def test_the_list_used_longest_ago_is_forgotten_when_there_are_too_many() -> None:
    ask = asking(TodosInMemory(max_tasks=2))
    await ask(action="create", content="x", task="one")
    await ask(action="create", content="x", task="two")
    await ask(action="list", task="one")
    await ask(action="create", content="x", task="three")
    assert [len(await ask(action="list", task=task)) for task in ("one", "two", "three")] == [1, 0, 1]
