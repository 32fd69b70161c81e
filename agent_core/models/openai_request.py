"""Build the body of a chat request: a repaired conversation in the dialect of one endpoint. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_core.conversation import Message
from agent_core.history import arrange, repair
from agent_core.models.providers import Endpoint
from agent_core.openai_format import message_to_openai, tool_to_openai
from tools.base import Tool
from tools.content import Media, Part, Text, describe

SHOWN_MIMES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CACHED_USER_MESSAGES = 2
# How Gemini marks calls of other models.
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}


def build_request(
    endpoint: Endpoint,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    *,
    images: Mapping[str, str],
    stream: bool,
    may_call: bool = True,
) -> dict[str, Any]:
    """Return the body. `images` are data URLs by content hash; any other image is described in words."""
    shown = _move_tool_images(messages, images) if images else messages
    wire = [_message(message, endpoint, images) for message in repair(shown)]
    if endpoint.cache_breakpoints:
        _mark_for_caching(wire)
    body: dict[str, Any] = {"model": endpoint.model, "messages": wire}
    if offered := [tool_to_openai(tool) for tool in tools] or _stand_ins(wire):
        body["tools"] = offered
        if not tools or not may_call:
            body["tool_choice"] = "none"
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def provider_data(
    endpoint: Endpoint, reasoning_details: Sequence[Mapping[str, Any]], call_extras: Sequence[Mapping[str, Any]]
) -> str:
    """Return the signed thoughts and calls that the provider wants back with this message; empty when none."""
    if not reasoning_details and not any(call_extras):
        return ""
    kept = {"of": _owner(endpoint), "reasoning_details": list(reasoning_details), "call_extras": list(call_extras)}
    return json.dumps(kept, separators=(",", ":"))


def encode(body: Mapping[str, Any]) -> bytes:
    """Encode as JSON that any parser takes: half of a surrogate pair, which some chats send, becomes a `?`."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def select_images(messages: Sequence[Message], limit: int) -> list[Media]:
    """Return the latest images whose bytes are ours, each once; older ones would cost more than they help."""
    shown = (part for one in reversed(messages) if one.role in ("user", "tool") for part in reversed(one.parts))
    found = {
        part.sha256: part
        for part in shown
        if isinstance(part, Media) and part.kind == "image" and part.mime in SHOWN_MIMES and part.sha256
    }
    return list(found.values())[:limit]


def _move_tool_images(messages: Sequence[Message], images: Mapping[str, str]) -> list[Message]:
    """Put images of results into a user's message behind them, since results may only hold text."""
    arranged = arrange(messages)
    shown: list[Message] = []
    waiting: list[Part] = []
    for message in arranged:
        if waiting and message.role != "tool":
            shown.append(Message(role="user", parts=tuple(waiting)))
            waiting = []
        shown.append(message)
        found = [part for part in message.parts if isinstance(part, Media) and part.sha256 in images]
        if message.role == "tool" and found:
            waiting += [Text(text=f"(From {message.tool_name}:)"), *found]
    return [*shown, Message(role="user", parts=tuple(waiting))] if waiting else shown


def _message(message: Message, endpoint: Endpoint, images: Mapping[str, str]) -> dict[str, Any]:
    wire = message_to_openai(message)
    if message.role == "user" and any(isinstance(part, Media) and part.sha256 in images for part in message.parts):
        wire["content"] = _content(message.parts, images)
    if message.role != "assistant":
        return wire
    details, extras = _read_provider_data(message, endpoint)
    if endpoint.reasoning == "reasoning_details":
        if details:
            wire["reasoning_details"] = details
        elif message.reasoning:
            wire["reasoning"] = message.reasoning
    elif endpoint.reasoning and message.reasoning:
        wire[endpoint.reasoning] = message.reasoning
    if endpoint.signs_calls and message.tool_calls:
        _sign(wire["tool_calls"], extras)
    return wire


def _read_provider_data(message: Message, endpoint: Endpoint) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return details and call extras if they are this model's own: it refuses signatures that it did not write."""
    if not message.provider_data:
        return [], []
    try:
        kept = json.loads(message.provider_data)
    except (ValueError, RecursionError):
        return [], []
    match kept:
        case {"of": of, "reasoning_details": list(details), "call_extras": list(extras)} if of == _owner(endpoint):
            return details, extras
    return [], []


def _owner(endpoint: Endpoint) -> str:
    return f"{endpoint.provider}/{endpoint.model}"


def _stand_ins(wire: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stand-ins for tools called before when none is offered: some providers refuse calls of unknown tools."""
    names = dict.fromkeys(call["function"]["name"] for message in wire for call in message.get("tool_calls") or ())
    return [
        {
            "type": "function",
            "function": {"name": name, "description": "Not available now.", "parameters": {"type": "object"}},
        }
        for name in names
    ]


def _sign(calls: list[dict[str, Any]], extras: Sequence[Mapping[str, Any]]) -> None:
    if any(extras):
        for call, extra in zip(calls, extras, strict=False):
            if extra:
                call["extra_content"] = dict(extra)
    else:
        # Another model's calls: without any signature all later requests would fail.
        calls[0]["extra_content"] = UNSIGNED


def _content(parts: Sequence[Part], images: Mapping[str, str]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Media) and part.sha256 in images:
            content.append({"type": "image_url", "image_url": {"url": images[part.sha256]}})
        elif content and content[-1]["type"] == "text":
            content[-1]["text"] += f"\n{describe(part)}"
        else:
            content.append({"type": "text", "text": describe(part)})
    return content


def _mark_for_caching(wire: list[dict[str, Any]]) -> None:
    """Mark the instructions and the last user messages as ends of what the provider may cache."""
    users = [message for message in wire if message["role"] == "user"][-CACHED_USER_MESSAGES:]
    for message in ([wire[0]] if wire[0]["role"] == "system" else []) + users:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}
