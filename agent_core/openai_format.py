"""Convert messages and tools to the format of the OpenAI chat API, and back."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from agent_core.conversation import Message, Role, ToolCall
from tools.base import Tool
from tools.content import Part, Text, encodable


def message_to_openai(message: Message, *, with_reasoning: bool = False) -> dict[str, Any]:
    """Convert a message; media become a line of text, since their bytes are not part of a conversation."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "assistant" and message.tool_calls:
        wire["content"] = message.text or None
        wire["tool_calls"] = [_call_to_openai(call) for call in message.tool_calls]
    if with_reasoning and message.reasoning:
        wire["reasoning_content"] = message.reasoning
    return wire


def message_from_openai(wire: Mapping[str, Any]) -> Message:
    """Convert a message that a script stored or wrote; raises ValueError for anything else.

    Images become a line of text. The format does not say whether a result was an error, nor where a text came from:
    a user's text counts as their own, a tool's as from outside.
    """
    role = {"developer": "system"}.get(wire.get("role", ""), wire.get("role"))
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"A message needs a role of system, user, assistant or tool, not {role!r}.")
    try:
        return Message(
            role=cast(Role, role),
            parts=_parts(wire.get("content")),
            tool_calls=tuple(map(_call_from_openai, wire.get("tool_calls") or ())),
            tool_call_id=wire["tool_call_id"] if role == "tool" else "",
            tool_name=wire.get("name", "") if role == "tool" else "",
            reasoning=wire.get("reasoning_content") or wire.get("reasoning") or "",
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"This is not a message in OpenAI format: {dict(wire)!r:.200}") from error


def conversation_from_openai(messages: Iterable[Message | Mapping[str, Any]]) -> list[Message]:
    """Convert messages, some of which may be ours already; results get the names of their tools."""
    names: dict[str, str] = {}
    conversation: list[Message] = []
    for given in messages:
        message = given if isinstance(given, Message) else message_from_openai(given)
        names |= {call.id: call.name for call in message.tool_calls}
        if message.role == "tool" and not message.tool_name:
            message = replace(message, tool_name=names.get(message.tool_call_id, ""))
        conversation.append(message)
    return conversation


def tool_to_openai(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def _call_to_openai(call: ToolCall) -> dict[str, Any]:
    function = {"name": _api_name(call.name), "arguments": _api_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _call_from_openai(wire: Mapping[str, Any]) -> ToolCall:
    function = wire["function"]
    return ToolCall(id=wire["id"], name=function["name"], arguments=function["arguments"])


def _parts(content: object) -> tuple[Part, ...]:
    if isinstance(content, str) or content is None:
        return (Text(text=content),) if content else ()
    if not isinstance(content, list):
        raise TypeError("content is neither text nor a list of parts")
    return tuple(Text(text=part["text"] if part["type"] == "text" else f"[{part['type']}]") for part in content)


def _api_name(name: str) -> str:
    """Return a name that the API takes: an invented one would refuse every later request of the session."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def _api_arguments(arguments: str) -> str:
    """Return arguments that parse: many servers refuse the whole history when old ones do not."""
    try:
        parsed = json.loads(arguments or "{}", parse_constant=_refuse)
        json.dumps(parsed, ensure_ascii=False).encode()  # fails on half of a surrogate pair
    except (ValueError, RecursionError):
        parsed = None
    return (arguments or "{}") if isinstance(parsed, dict) else json.dumps({"invalid_arguments": encodable(arguments)})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is Python's, not JSON's")
