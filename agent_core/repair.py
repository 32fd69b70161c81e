"""Makes any conversation one that the strictest provider accepts, and changes nothing that is fine.

Providers differ in what they refuse: two user messages in a row, an empty text, an assistant who speaks
first or last, an id they do not like. One refused message in the past would refuse every later turn of the
session, so the past is repaired for each request. Pure; what is stored stays as it was said.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from agent_core.conversation import Message, ToolCall, user
from agent_core.history import arrange
from tools.content import Part, Text

EMPTY = "(empty message)"
NO_OUTPUT = "(no output)"
LEFT_OUT = user("(Earlier messages are left out.)")
GO_ON = user("(Please continue.)")

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def repair(messages: Sequence[Message]) -> list[Message]:
    """Each call has its result behind it, roles alternate, nothing is empty, and a user or tool speaks last."""
    system, spoken = _apart(arrange(messages))
    merged = _merge(_fill(message) for message in spoken if not _says_nothing(message))
    if not merged or merged[0].role != "user":
        merged.insert(0, LEFT_OUT)
    if merged[-1].role == "assistant":
        merged.append(GO_ON)
    return [*system, *_with_good_ids(merged)]


def _apart(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """One system message, and the rest; what the system said later is told by the user."""
    lead = 0
    while lead < len(messages) and messages[lead].role == "system":
        lead += 1
    instructions = "\n\n".join(message.text for message in messages[:lead] if message.text.strip())
    system = [Message(role="system", parts=(Text(text=instructions),))] if instructions else []
    return system, [replace(m, role="user") if m.role == "system" else m for m in messages[lead:]]


def _says_nothing(message: Message) -> bool:
    return message.role == "assistant" and not message.tool_calls and not message.text.strip()


def _fill(message: Message) -> Message:
    if len(message.parts) == 1 and message.text.strip():
        return message
    parts = tuple(part for part in message.parts if not isinstance(part, Text) or part.text.strip())
    if not parts and message.role != "assistant":
        parts = (Text(text=NO_OUTPUT if message.role == "tool" else EMPTY),)
    return message if parts == message.parts else replace(message, parts=parts)


def _merge(messages: Iterator[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        before = merged[-1] if merged else None
        if before is None or before.role != message.role or message.role == "tool":
            merged.append(message)
            continue
        reasoning = "\n".join(filter(None, (before.reasoning, message.reasoning)))
        merged[-1] = replace(message, parts=_joined(before.parts, message.parts), reasoning=reasoning)
    return merged


def _joined(before: tuple[Part, ...], after: tuple[Part, ...]) -> tuple[Part, ...]:
    """Two messages in one, an empty line between their words."""
    match before, after:
        case (*start, Text(text=first)), (Text(text=second), *rest):
            return (*start, Text(text=f"{first}\n\n{second}"), *rest)
    return (*before, *after)


def _with_good_ids(messages: Sequence[Message]) -> list[Message]:
    """Ids that every provider takes, each used once. A result stands behind its call, so it can be told which it is."""
    taken: set[str] = set()
    answers: list[str] = []
    fixed: list[Message] = []
    for position, message in enumerate(messages):
        if message.role == "tool":
            fixed.append(replace(message, tool_call_id=answers.pop(0)))
            continue
        if message.role == "assistant" and message.tool_calls:
            calls = tuple(
                _with_good_id(call, (position, index), taken) for index, call in enumerate(message.tool_calls)
            )
            answers = [call.id for call in calls]
            message = replace(message, tool_calls=calls)
        fixed.append(message)
    return fixed


def _with_good_id(call: ToolCall, where: tuple[int, int], taken: set[str]) -> ToolCall:
    good = call.id
    if not _CALL_ID.fullmatch(good) or good in taken:
        # Made from what is there, so that the same history always reads the same, and caches hold.
        good = "call_" + sha256(f"{call.id}\0{where}".encode("utf-8", "replace")).hexdigest()[:32]
    taken.add(good)
    return call if good == call.id else replace(call, id=good)
