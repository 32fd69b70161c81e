"""Todo lists outlive the process, and a version."""

from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.todos import StoredTodos
from tools.builtin.todo import Todo, Todos


def unchanged(todos: Todos) -> Todos:
    return todos


async def test_a_list_comes_back(db: Database) -> None:
    todos = (Todo(id="1", content="water the plants"), Todo(id="2", content="rest", status="completed"))
    await StoredTodos(db).change("task", lambda _: todos)
    assert await StoredTodos(db).change("task", unchanged) == todos
    assert await StoredTodos(db).change("another", unchanged) == ()


async def test_what_a_newer_version_added_is_left_out(db: Database) -> None:
    def from_a_newer_version(tx: Transaction) -> None:
        stored = '[{"id": "1", "content": "rest", "status": "pending", "due_ms": 5}]'
        tx.execute("INSERT INTO todos (task_id, todos) VALUES ('task', ?)", stored)

    await db.write(from_a_newer_version)
    assert await StoredTodos(db).change("task", unchanged) == (Todo(id="1", content="rest"),)
