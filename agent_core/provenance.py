"""What a conversation holds, told apart: its people's own words, and what came from elsewhere. Pure.

Text from elsewhere is whatever they have not written: results of tools, files that were sent, words of others that were
quoted or overheard, what a project's folder and tools that are not ours say about themselves.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from agent_core.conversation import Message, ToolCall
from tools.base import Tool
from tools.content import Location, Media, Part, Quote, Text, one_line
from tools.provenance import Passage, Provenance

PROJECT_TITLE = "Project (AGENTS.md)"  # of the prompt's section with the working folder's own words

_UNKNOWN_TOOL = "a tool"
_WRITING = ("file_write", "file_patch")
# How these begin. Nothing else tells them where a part names no origin: in OpenAI's format, in conversations of before.
_MARKS = {
    "[Said in this chat meanwhile, but not to you.": "what others said in the chat",
    "[Background process ": "a command",
    "[Nobody had decided in time whether ": "an earlier request",
}
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\"": '"', r"\/": "/"}


def heard_in(messages: Sequence[Message], tools: Sequence[Tool]) -> Provenance:
    brings = {tool.name: tool.brings for tool in tools}
    own: list[str] = []
    outside = [*_descriptions(tools)]
    written: dict[str, None] = {}
    for message in messages:
        match message.role:
            case "system":
                outside += _project(message.text)
            case "user":
                own += [part.text for part in message.parts if isinstance(part, Text) and not _origin(part)]
                outside += [passage for part in message.parts for passage in _from(part)]
            case "tool":
                outside += _result(message, brings.get(message.tool_name, _UNKNOWN_TOOL))
            case "assistant":
                written |= dict.fromkeys(path for call in message.tool_calls if (path := _written(call)))
    return Provenance(own_words="\n".join(own), outside=tuple(outside), written=tuple(written))


def hearing(messages: Sequence[Message], tools: Sequence[Tool]) -> Callable[[], Provenance]:
    """Looks once, and only when somebody wants to know."""
    return cache(lambda: heard_in(messages, tools))


def _descriptions(tools: Sequence[Tool]) -> Iterator[Passage]:
    """Those of tools that have not said what they bring: they are not ours."""
    for tool in tools:
        if tool.brings == _UNKNOWN_TOOL:
            text = "\n".join((tool.description, *_strings(dict(tool.schema))))
            yield from [Passage(origin=f"the description of the tool {tool.name}", text=text)] if text else []


def _project(prompt: str) -> list[Passage]:
    _, found, text = prompt.partition(f"# {PROJECT_TITLE}\n")
    return [Passage(origin="the project's AGENTS.md", text=text)] if found else []


def _origin(part: Text) -> str:
    return part.origin or next((origin for mark, origin in _MARKS.items() if part.text.startswith(mark)), "")


def _from(part: Part) -> Iterator[Passage]:
    match part:
        case Text() if origin := _origin(part):
            yield Passage(origin=origin, text=part.text)
        case Quote():
            words = "forwarded" if part.how == "forwarded from" else "quoted"
            yield Passage(origin=f"a {words} message", text=f"{part.author}\n{part.text}")
        case Media():
            name = one_line(part.name)
            origin = f"the file {name} that was sent" if name else f"the {part.kind} that was sent"
            yield Passage(origin=origin, text="\n".join((part.name, part.text, part.problem, part.form)))
        case Location() if part.name:
            yield Passage(origin="a place that was sent", text=part.name)


def _result(message: Message, origin: str) -> Iterator[Passage]:
    """Results of ours are JSON: what is in it is compared, not how it is written there."""
    if not origin:
        return
    for part in message.parts:
        if not isinstance(part, Text):
            yield from _from(part)
        elif part.text:
            yield Passage(origin=origin, text=_unpacked(part.text))


def _unpacked(text: str) -> str:
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


def _written(call: ToolCall) -> str:
    if call.name not in _WRITING:
        return ""
    try:
        given = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return ""
    path = given.get("path") if isinstance(given, dict) else None
    return path if isinstance(path, str) else ""
