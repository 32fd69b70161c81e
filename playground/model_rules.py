"""Checks of a chat request as the strictest providers make them, on the JSON alone."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

_FIELDS = (
    "model messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p max_tokens "
    "max_completion_tokens stop seed user reasoning_effort"
)
_REQUEST_FIELDS = frozenset(_FIELDS.split())
_MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_IMAGE_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


def find_problem(body: object, *, extra_fields: Collection[str] = ()) -> str:
    """Return why this request is refused, in a sentence; empty when it is fine.

    `extra_fields` are allowed in the request and in assistant messages, for dialects that know more fields.
    """
    if not isinstance(body, dict):
        return "The body must be a JSON object."
    if unknown := set(body) - _REQUEST_FIELDS - set(extra_fields):
        return f"Unrecognized request argument supplied: {sorted(unknown)[0]}"
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not isinstance(messages, list) or not messages:
        return "A model and at least one message are required."
    for position, message in enumerate(messages):
        if problem := _check_message(message, extra_fields):
            return f"Invalid 'messages[{position}]': {problem}"
    return _check_order(messages) or _check_pairing(messages) or _check_tools(body)


def _check_message(message: object, extra_fields: Collection[str]) -> str:
    if not isinstance(message, dict) or message.get("role") not in _MESSAGE_FIELDS:
        return "must be an object with a role of system, user, assistant or tool."
    role = message["role"]
    allowed = _MESSAGE_FIELDS[role] | (set(extra_fields) if role == "assistant" else set())
    if unknown := set(message) - allowed:
        return f"unknown field {sorted(unknown)[0]!r} in a message of role {role}."
    if role == "assistant" and "tool_calls" in message:
        if message.get("content") is not None and _is_blank(message["content"]):
            return "content must be null or hold text."
        return _check_calls(message["tool_calls"], extra_fields)
    return _check_content(message.get("content"), role)


def _check_content(content: object, role: str) -> str:
    if isinstance(content, str):
        return "content must not be empty." if _is_blank(content) else ""
    if not isinstance(content, list) or not content:
        return "content must be text or a list of parts."
    for part in content:
        match part:
            case {"type": "text", "text": str(text)} if set(part) <= {"type", "text", "cache_control"}:
                if _is_blank(text):
                    return "text content blocks must contain non-whitespace text."
            case {"type": "image_url", "image_url": {"url": str(url)}} if role == "user":
                if not _IMAGE_URL.fullmatch(url):
                    return "image_url must be a data URL of a png, jpeg, gif or webp."
            case _:
                return f"this kind of content part is not allowed in a message of role {role}."
    return ""


def _check_calls(calls: object, extra_fields: Collection[str]) -> str:
    if not isinstance(calls, list) or not calls:
        return "tool_calls must be a list that is not empty."
    for call in calls:
        match call:
            case {"id": str(call_id), "type": "function", "function": {"name": str(name), "arguments": str(arguments)}}:
                if unknown := set(call) - {"id", "type", "function"} - set(extra_fields):
                    return f"unknown field {sorted(unknown)[0]!r} in a tool call."
                if not _CALL_ID.fullmatch(call_id):
                    return "a tool call's id must be 1 to 40 letters, digits, _ or -."
                if not _TOOL_NAME.fullmatch(name):
                    return "a function's name must be 1 to 64 letters, digits, _ or -."
                if not _is_json_object(arguments):
                    return "a function's arguments must be a JSON object."
            case _:
                return "a tool call needs id, type and function with name and arguments."
    return ""


def _check_order(messages: Sequence[Mapping[str, Any]]) -> str:
    roles = [message["role"] for message in messages]
    if "system" in roles[1:]:
        return "System message must be at the beginning, and there may be only one."
    spoken = roles[1:] if roles[0] == "system" else roles
    if not spoken or spoken[0] != "user":
        return "The first message after the system message must be from the user."
    if spoken[-1] == "assistant":
        return "The last message must be from the user or a tool."
    for before, after in pairwise(spoken):
        if before == after and after != "tool":
            return f"Roles must alternate: two messages of role {after} in a row."
    return ""


def _check_pairing(messages: Sequence[Mapping[str, Any]]) -> str:
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"tool_call_id {message.get('tool_call_id')!r} answers no open call of the message before it."
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return f"An assistant message with 'tool_calls' must be followed by results; missing: {waiting[0]}"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(waiting)) != len(waiting) or seen & set(waiting):
            return "Each tool call needs an id of its own."
        seen.update(waiting)
    return (
        f"An assistant message with 'tool_calls' must be followed by results; missing: {waiting[0]}" if waiting else ""
    )


def _check_tools(body: Mapping[str, Any]) -> str:
    if "stream_options" in body and not body.get("stream"):
        return "stream_options is only allowed when stream is enabled."
    if "tools" not in body and any(message.get("tool_calls") for message in body["messages"]):
        return "'tools' must be given when the messages hold tool calls."
    if "tool_choice" in body and "tools" not in body:
        return "tool_choice is only allowed when tools are specified."
    tools = body.get("tools", [{}])
    if not isinstance(tools, list) or not tools:
        return "'tools' must be a list that is not empty."
    names: list[str] = []
    for tool in body.get("tools", ()):
        match tool:
            case {"type": "function", "function": {"name": str(name), "parameters": {"type": "object"}}}:
                names.append(name)
            case _:
                return "A tool needs type, and a function with a name and parameters of type object."
    if wrong := [name for name in names if not _TOOL_NAME.fullmatch(name)]:
        return f"Invalid tool name {wrong[0]!r}."
    return "Tool names must be unique." if len(set(names)) != len(names) else ""


def _is_blank(content: object) -> bool:
    return isinstance(content, str) and not content.strip()


def _is_json_object(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        parsed = json.loads(text, parse_constant=refuse)
        json.dumps(parsed, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    except (ValueError, RecursionError):
        return False
    return isinstance(parsed, dict)
