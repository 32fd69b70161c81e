"""The `memory` tool: lasting facts by key. Whose they are, and who may read them, is decided by its store."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from tools.arguments import Arguments
from tools.base import Tool, ToolContext, ToolFailed, absent
from tools.content import Part, Text
from tools.provenance import CHAT, Provenance
from tools.registry import build_tool, registry

MemoryAction = Literal["get", "set", "delete", "list", "search"]


class MemoryRequest(Arguments):
    action: Annotated[
        MemoryAction,
        Field(
            description="set: save a value under a key, replacing an older one. get: read a key. "
            "delete: forget a key. list: all memories. search: find memories by words or a question."
        ),
    ]
    key: Annotated[str, Field(description="Short name such as favourite_tea. For get, set and delete.")] = ""
    value: Annotated[str, Field(description="The fact in one sentence, for set. No secrets.")] = ""
    query: Annotated[str, Field(description="Words or a plain question, for search.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAnswer:
    data: Mapping[str, Any]
    from_outside: bool = False  # holds text that came from outside when it was noted


class MemoryStore(Protocol):
    async def act(self, task_id: str, request: MemoryRequest, heard: Callable[[], Provenance]) -> MemoryAnswer:
        """Carry out a request for whoever speaks in this task; raises ToolFailed."""


def memory_tool(store: MemoryStore) -> Tool:
    """Build the tool over a store of memories."""

    async def memory(context: ToolContext, request: MemoryRequest) -> str | tuple[Part, ...]:
        """Remember facts about the user (in a group: about the group) across conversations. Use set when the user asks
        you to remember something or states a lasting preference, delete when they ask you to forget it, and search
        before you say that you do not know something about them. Say that you saved something only after set
        succeeded."""
        action, key = request.action, request.key
        missing = {"get": key, "set": key and request.value, "delete": key, "search": request.query}.get(action, "-")
        if not missing.strip():
            needed = {"set": "`key` and `value` are", "search": "`query` is"}.get(action, "`key` is")
            raise ToolFailed(f"{needed} required for {action}.")
        answer = await store.act(context.task_id, request, context.heard)
        text = json.dumps(dict(answer.data), ensure_ascii=False)
        return (Text(text=text, origin=CHAT),) if answer.from_outside else text

    return build_tool(memory, toolset="memory", brings="")


registry.add(memory_tool(absent("There is no memory here.")), module=__name__)
