"""Estimate tokens, for what no provider has counted yet."""

from collections.abc import Sequence

from agent_core.conversation import Message
from tools.base import Tool
from tools.content import Media

_BYTES_PER_TOKEN = 4
_PICTURE_TOKENS = 1_000


def estimate_bytes(size_bytes: int) -> int:
    return -(-size_bytes // _BYTES_PER_TOKEN)


def estimate_text(text: str) -> int:
    return estimate_bytes(count_bytes(text))


def estimate_message(message: Message) -> int:
    """Estimate one message. Runs for the whole conversation at each model call, so it does the least it can."""
    size = count_bytes(message.text)
    if message.reasoning:
        size += count_bytes(message.reasoning)
    for call in message.tool_calls:
        size += count_bytes(call.name) + count_bytes(call.arguments)
    tokens = estimate_bytes(size)
    for part in message.parts:
        if isinstance(part, Media) and part.kind == "image":
            tokens += _PICTURE_TOKENS
    return tokens


def estimate_tools(tools: Sequence[Tool]) -> int:
    return sum(estimate_text(f"{tool.name}{tool.description}{tool.schema}") for tool in tools)


def count_bytes(text: str) -> int:
    """Return the size in bytes, not characters: a Chinese character is nearly a token."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
