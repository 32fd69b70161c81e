"""The `todo` tool: a task list for each conversation."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from tools.base import Tool, ToolContext, ToolFailed
from tools.registry import build_tool, registry

MAX_TODOS = 100
MAX_CONTENT_CHARS = 500
MAX_ID_CHARS = 40
MAX_TASKS = 1_000

Action = Literal["create", "update", "complete", "cancel", "list"]
Status = Literal["pending", "completed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    id: str
    content: str
    status: Status = "pending"


Todos = tuple[Todo, ...]


class TodoStore(Protocol):
    """Stores a list per task. `edit` is a plain function, so a store can run it inside a transaction."""

    async def change(self, task_id: str, edit: Callable[[Todos], Todos]) -> Todos:
        """Replace the list with what `edit` returns, and return it; leave it unchanged when `edit` raises."""


class TodosInMemory:
    """Keeps lists in memory, and drops the one used longest ago when there are too many."""

    def __init__(self, max_tasks: int = MAX_TASKS) -> None:
        self._max_tasks = max_tasks
        self._lists: OrderedDict[str, Todos] = OrderedDict()

    async def change(self, task_id: str, edit: Callable[[Todos], Todos]) -> Todos:
        todos = edit(self._lists.get(task_id, ()))
        if todos:
            self._lists[task_id] = todos
            self._lists.move_to_end(task_id)
        if len(self._lists) > self._max_tasks:
            self._lists.popitem(last=False)
        return todos


def todo_tool(store: TodoStore) -> Tool:
    """Build the tool over a store."""

    async def todo(
        context: ToolContext,
        action: Annotated[
            Action,
            Field(
                description="create: add an item. update: change its text. complete, cancel: set its status. "
                "list: only return the list."
            ),
        ],
        id: Annotated[  # noqa: A002  # the name that models know
            str | int | None, Field(description="Id of the item. Required for update, complete and cancel.")
        ] = None,
        content: Annotated[str | None, Field(description="Text of the item. Required for create and update.")] = None,
    ) -> dict[str, Any]:
        """Keep a task list for this conversation. Every action returns the whole list.

        Use it for work of several steps: create an item for each step, and complete each one when it is done.
        """
        which = "" if id is None else str(id).strip()
        words = (content or "").strip()
        todos = await store.change(context.task_id, lambda todos: _edit(todos, action, which, words))
        return {"todos": [asdict(todo) for todo in todos]}

    return build_tool(todo, toolset="todo", brings="")


def _edit(todos: Todos, action: Action, which: str, words: str) -> Todos:
    match action:
        case "create":
            return _create(todos, which, words)
        case "update":
            return _change(todos, which, lambda todo: replace(todo, content=_check(words)))
        case "complete":
            return _change(todos, which, lambda todo: replace(todo, status="completed"))
        case "cancel":
            return _change(todos, which, lambda todo: replace(todo, status="cancelled"))
        case "list":
            return todos


def _create(todos: Todos, which: str, words: str) -> Todos:
    taken = {todo.id for todo in todos}
    if which in taken:
        raise ToolFailed(f"The id {which!r} is taken. Leave the id out to get a new one.")
    if len(which) > MAX_ID_CHARS:
        raise ToolFailed(f"An id has at most {MAX_ID_CHARS} characters. Leave it out to get one.")
    numbers = [int(one) for one in taken if one.isascii() and one.isdigit()]
    created = Todo(id=which or str(max(numbers, default=0) + 1), content=_check(words))
    if len(todos) < MAX_TODOS:
        return (*todos, created)
    closed = next((todo for todo in todos if todo.status != "pending"), None)
    if closed is None:
        raise ToolFailed(f"The list is full: {MAX_TODOS} items are pending. Complete or cancel some first.")
    return (*(todo for todo in todos if todo is not closed), created)


def _change(todos: Todos, which: str, change: Callable[[Todo], Todo]) -> Todos:
    if not which:
        raise ToolFailed("The id is missing: name the item by its id.")
    if which not in {todo.id for todo in todos}:
        there = f"The ids are: {', '.join(todo.id for todo in todos)}." if todos else "The list is empty."
        raise ToolFailed(f"There is no item with the id {which!r}. {there}")
    return tuple(change(todo) if todo.id == which else todo for todo in todos)


def _check(words: str) -> str:
    if not words:
        raise ToolFailed("The content is missing: say what is to be done.")
    if len(words) > MAX_CONTENT_CHARS:
        raise ToolFailed(f"The content has {len(words)} characters; the limit is {MAX_CONTENT_CHARS}.")
    return words


registry.add(todo_tool(TodosInMemory()), module=__name__)
