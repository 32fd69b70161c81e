"""The agent's todo lists, one per session."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tools.builtin.todo import Todo, Todos
from tools.content import from_stored


@dataclass(frozen=True, slots=True)
class StoredTodos:
    """Stores the lists of the `todo` tool, so that they outlive the process."""

    db: Database

    async def change(self, task_id: str, edit: Callable[[Todos], Todos]) -> Todos:
        def unit(tx: Transaction) -> Todos:
            stored = tx.value("SELECT todos FROM todos WHERE task_id = ?", task_id) or "[]"
            before: Todos = tuple(from_stored(Todo, todo) for todo in json.loads(stored))
            after = edit(before)
            if after != before:
                stored = json.dumps([asdict(todo) for todo in after], ensure_ascii=False)
                tx.insert("todos", "(task_id) DO UPDATE SET todos = excluded.todos", task_id=task_id, todos=stored)
            return after

        return await self.db.write_when_possible(unit)
