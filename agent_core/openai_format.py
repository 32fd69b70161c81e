"""Our messages and tools in the words of the OpenAI chat API."""

import json
import re
from typing import Any

from agent_core.conversation import Message, ToolCall
from tools.base import Tool


def message_to_openai(message: Message, *, with_reasoning: bool = False) -> dict[str, Any]:
    """One message; media become a line of text, since their bytes are not part of a conversation."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.text}
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "assistant" and message.tool_calls:
        wire["content"] = message.text or None
        wire["tool_calls"] = [_call_to_openai(call) for call in message.tool_calls]
    if with_reasoning and message.reasoning:
        wire["reasoning_content"] = message.reasoning
    return wire


def tool_to_openai(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)}
    return {"type": "function", "function": function}


def _call_to_openai(call: ToolCall) -> dict[str, Any]:
    function = {"name": _api_name(call.name), "arguments": _api_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _api_name(name: str) -> str:
    """Models invent names that the API then refuses, and with it every later request of the session."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def _api_arguments(arguments: str) -> str:
    """Many servers parse old arguments again and refuse the whole history when they are broken."""
    try:
        parsed = json.loads(arguments or "{}", parse_constant=_refuse)
        json.dumps(parsed, ensure_ascii=False).encode()  # fails on half of a surrogate pair
    except (ValueError, RecursionError):
        parsed = None
    return (arguments or "{}") if isinstance(parsed, dict) else json.dumps({"invalid_arguments": _whole(arguments)})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is Python's, not JSON's")


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
