"""Tell a conversation's own words from text that came from outside. Pure.

Each part says where it came from. Outside is whatever the people in the conversation have not written: results of
tools, files that were sent, words of others, a project's instructions, descriptions of tools that are not ours.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from agent_core.conversation import Message, ToolCall
from tools.base import Tool
from tools.content import Location, Media, Part, Quote, Text
from tools.provenance import HERMES, MCP, SKILL, UNKNOWN_TOOL, Passage, Provenance

_WRITING = dict.fromkeys(("file_write", "file_patch"), "path")
_RUNNING = {"terminal": "command", "process": "data", "execute_code": "code"}
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\"": '"', r"\/": "/"}


def read_provenance(messages: Sequence[Message], tools: Sequence[Tool]) -> Provenance:
    own: list[str] = []
    outside = [*_descriptions(tools)]
    written: dict[str, None] = {}
    ran: dict[str, None] = {}
    for message in messages:
        match message.role:
            case "assistant":
                written |= dict.fromkeys(_arguments(message.tool_calls, _WRITING))
                ran |= dict.fromkeys(_arguments(message.tool_calls, _RUNNING))
            case "tool":  # a result without an origin is from outside all the same
                outside += _passages(message, unmarked=f"tool:{message.tool_name}")
            case "user" | "system":
                outside += _passages(message, unmarked="")
        if message.role == "user":
            own += [part.text for part in message.parts if not part.origin and isinstance(part, Text | Media)]
    return Provenance(own_words="\n".join(own), outside=tuple(outside), written=tuple(written), ran=tuple(ran))


def defer_provenance(messages: Sequence[Message], tools: Sequence[Tool]) -> Callable[[], Provenance]:
    """Return a function that reads the conversation on its first call: most calls never need it."""
    return cache(lambda: read_provenance(messages, tools))


def _descriptions(tools: Sequence[Tool]) -> Iterator[Passage]:
    """Yield the descriptions of tools that do not say what they bring: they are not ours."""
    for tool in tools:
        text = "\n".join((tool.description, *_strings(dict(tool.schema))))
        if text and (tool.brings == UNKNOWN_TOOL or tool.brings.partition(":")[0] == MCP):
            yield Passage(origin=f"description:{tool.name}", text=text)


def _passages(message: Message, *, unmarked: str) -> Iterator[Passage]:
    """Yield the parts from outside; texts without an origin count as `unmarked`."""
    for part in message.parts:
        origin, text = part.origin or unmarked, _text(part)
        if text and origin not in ("", HERMES, SKILL):
            # Results are JSON: its strings are compared, not the way they are written there.
            yield Passage(origin=origin, text=_unpack(text) if message.role == "tool" else text)


def _text(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Quote():
            return f"{part.author}\n{part.text}"
        case Media():
            return "\n".join((part.name, part.text, part.problem, part.form))
        case Location():
            return part.name


def _unpack(text: str) -> str:
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or one that has lost its middle: both ways to read it
        plain = text
        for written, meant in _ESCAPES.items():
            plain = plain.replace(written, meant)
        return text if plain == text else f"{text}\n{plain}"
    return "\n".join(_strings(loaded))


def _strings(node: Any) -> Iterator[str]:
    waiting = [node]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case dict(entries):
                waiting += [*reversed(entries.values()), *reversed(entries)]
            case list(items):
                waiting += reversed(items)


def _arguments(calls: Sequence[ToolCall], names: Mapping[str, str]) -> Iterator[str]:
    """Yield one argument of each call: the names of the arguments are given by tool."""
    for call in calls:
        if name := names.get(call.name):
            with suppress(ValueError, RecursionError):
                given = json.loads(call.arguments)
                if isinstance(given, dict) and isinstance(given.get(name), str) and given[name]:
                    yield given[name]
