"""Trajectories in ShareGPT form, for training data, review and evaluation: the one place that knows the format.

A file has one row a line: `conversations`, which are turns of system, human, gpt and tool, and facts about the run.
The prompt's layers that hold for one person only (memory, profile, files of a project) are not in it.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from agent_core.openai_format import tool_to_openai
from agent_core.prompt import Layers, build_prompt
from hermes_config.redaction import Redactor
from tools.base import Tool
from tools.content import text_of

SUCCEEDED, FAILED = "trajectories.jsonl", "failed_trajectories.jsonl"

Turn = dict[str, str]
Row = dict[str, Any]


class InputRefused(ValueError):
    """Something named is not there, or would be overwritten; nothing was written. The text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A trajectory read back: `tools` are schemas as they were offered."""

    system: str
    tools: tuple[Mapping[str, Any], ...]
    messages: tuple[Message, ...]


def training_prompt(tools: Sequence[Tool]) -> str:
    """Return the system prompt without the layers that hold for one person only."""
    return text_of(build_prompt(Layers(tools=tuple(tool.name for tool in tools))))


def to_sharegpt(
    messages: Iterable[Message],
    tools: Sequence[Tool | Mapping[str, Any]],
    *,
    system: str = "",
    redactor: Redactor | None = None,
) -> list[Turn]:
    """Return turns whose `from` is system, human, gpt or tool; several results in a row are one tool turn.

    Secrets are redacted: those that the redactor knows, without one those that match a pattern.
    """
    turns: list[Turn] = [{"from": "system", "value": _format_system(system, tools)}]
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "tool" and turns[-1]["from"] == "tool":
            turns[-1]["value"] += "\n" + _format_result(message)
        else:
            turns.append(_format_turn(message))
    # As late as this: a secret that a model wrote with escapes shows only once its JSON is parsed.
    redactor = redactor or Redactor()
    first = {"from": "system", "value": _clean_system(redactor, turns[0]["value"])}
    return [first, *({"from": turn["from"], "value": redactor.clean(turn["value"])} for turn in turns[1:])]


@lru_cache(maxsize=32)
def _clean_system(redactor: Redactor, value: str) -> str:
    """Redact a system turn: the longest of most trajectories, and the same in many of a batch."""
    return redactor.clean(value)


def from_sharegpt(turns: Sequence[Mapping[str, str]]) -> Conversation:
    """Read turns back into messages, such that `to_sharegpt` gives the same turns. Raises ValueError.

    A region that is not as we write it stays text. Calls get the ids that their results name.
    """
    system, tools = "", tuple[Mapping[str, Any], ...]()
    messages: list[Message] = []
    for number, turn in enumerate(turns, start=1):
        value = turn["value"]
        match turn["from"]:
            case "system" if number == 1:
                system, tools = read_system(value)
            case "human":
                messages.append(user(value))
            case "gpt":
                messages.append(read_gpt(value))
            case "tool":
                results = read_results(value)
                if results is None:
                    raise ValueError(f"turn {number} (tool) is not a row of <tool_response> regions")
                messages = [*_name_calls(messages, results), *results]
            case other:
                raise ValueError(f"turn {number} is from {other!r}, which is not possible there")
    return Conversation(system=system, tools=tools, messages=tuple(messages))


def read_system(value: str) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """Return the instructions and the tools of a system turn."""
    before, found, rest = value.rpartition("<tools>\n")
    offered = _parse(rest.removesuffix("\n</tools>")) if found else None
    system = before.removesuffix("\n\n")
    if isinstance(offered, list) and all(isinstance(one, dict) for one in offered):
        tools: tuple[Mapping[str, Any], ...] = tuple(offered)
        if _format_system(system, tools) == value:
            return system, tools
    return value, ()


def read_gpt(value: str) -> Message:
    """Return the message of a gpt turn."""
    reasoning, rest = "", value
    if value.startswith("<think>\n"):
        thought, closed, after = value.removeprefix("<think>\n").partition("\n</think>")
        if closed and thought:
            reasoning, rest = thought, after.removeprefix("\n")
    lines, calls = rest.split("\n"), list[ToolCall]()
    while lines[-3:-2] == ["<tool_call>"] and lines[-1] == "</tool_call>" and (call := _read_call(lines[-2])):
        calls.insert(0, call)
        del lines[-3:]
    message = assistant("\n".join(lines), tool_calls=tuple(calls), reasoning=reasoning)
    return message if _format_turn(message)["value"] == value else assistant(value)


def read_results(value: str) -> list[Message] | None:
    """Return the results of a tool turn; None when it is none."""
    lines, results = value.split("\n"), list[Message]()
    for start in range(0, len(lines), 3):
        region = lines[start : start + 3]
        content = _parse(region[1]) if (region[:1], region[2:]) == (["<tool_response>"], ["</tool_response>"]) else None
        if not isinstance(content, dict) or list(content) != ["tool_call_id", "name", "content"]:
            return None
        call = ToolCall(id=str(content["tool_call_id"]), name=str(content["name"]), arguments="")
        results.append(tool_result(call, _unparse(content["content"])))
    return results if "\n".join(map(_format_result, results)) == value else None


def make_row(conversations: Sequence[Turn], messages: Iterable[Message], *, model: str, completed: bool) -> Row:
    """Return the row of a file: the turns, and what is known about the run."""
    return {
        "conversations": list(conversations),
        "model": model,
        "timestamp": datetime.now(UTC).isoformat(),
        "completed": completed,
        "tool_stats": count_tools(messages),
    }


def count_tools(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Count calls and failures by tool, the most used first.

    A list, not an object with a key for each tool: readers of columns want the same fields in each row.
    """
    results = [message for message in messages if message.role == "tool"]
    calls = Counter(result.tool_name for result in results)
    failures = Counter(result.tool_name for result in results if result.is_error)
    ordered = sorted(calls.items(), key=lambda item: (-item[1], item[0]))
    return [{"tool": name, "calls": count, "failures": failures[name]} for name, count in ordered]


def save(folder: Path, row: Row, *, succeeded: bool) -> Path:
    """Append a row to the file of its kind in the folder, and return that. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / (SUCCEEDED if succeeded else FAILED)
    append(file, [dump(row)])
    return file


def dump(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line; half of a surrogate pair, which no file can hold, becomes a question mark."""
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def append(file: Path, lines: Iterable[bytes]) -> None:
    """Append whole lines that survive a crash. The torn end of an earlier one stays a line of its own."""
    # Conversations are private, whatever the umask says.
    with open(file, "a+b", opener=_open_private) as opened:
        if end := opened.tell():
            opened.seek(end - 1)
            if opened.read(1) != b"\n":
                opened.write(b"\n")
        opened.writelines(lines)
        opened.flush()
        os.fsync(opened.fileno())


def read_rows(file: Path) -> Iterator[tuple[int, Row | None]]:
    """Yield each line's number and row; None for a line that is no JSON object, such as the torn end of a file."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                row = _parse(line.decode("utf-8", "replace"))
                yield number, row if isinstance(row, dict) else None


def _open_private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    os.fchmod(descriptor, 0o600)  # also for a file that is there already
    return descriptor


def _format_system(system: str, tools: Sequence[Tool | Mapping[str, Any]]) -> str:
    schemas = [tool_to_openai(tool)["function"] if isinstance(tool, Tool) else tool for tool in tools]
    offered = json.dumps(schemas, ensure_ascii=False)
    return "\n\n".join(filter(None, (system, f"<tools>\n{offered}\n</tools>" if tools else "")))


def _format_turn(message: Message) -> Turn:
    if message.role == "user":
        return {"from": "human", "value": message.text}
    if message.role == "tool":
        return {"from": "tool", "value": _format_result(message)}
    thought = f"<think>\n{message.reasoning}\n</think>" if message.reasoning else ""
    calls = [f"<tool_call>\n{_format_call(call.name, call.arguments)}\n</tool_call>" for call in message.tool_calls]
    return {"from": "gpt", "value": "\n".join(filter(None, (thought, message.text, *calls)))}


def _format_call(name: str, arguments: str) -> str:
    return json.dumps({"name": name, "arguments": _parse(arguments)}, ensure_ascii=False)


def _read_call(line: str) -> ToolCall | None:
    content = _parse(line)
    if not isinstance(content, dict) or list(content) != ["name", "arguments"]:
        return None
    return ToolCall(id="", name=str(content["name"]), arguments=_unparse(content["arguments"]))


def _name_calls(messages: list[Message], results: Sequence[Message]) -> list[Message]:
    """Give the calls of the last message the ids of their results, which come in the same order."""
    if not messages or not messages[-1].tool_calls:
        return messages
    ids = chain((result.tool_call_id for result in results), repeat(""))
    calls = (replace(call, id=id_) for call, id_ in zip(messages[-1].tool_calls, ids, strict=False))
    return [*messages[:-1], replace(messages[-1], tool_calls=tuple(calls))]


def _format_result(message: Message) -> str:
    content = {"tool_call_id": message.tool_call_id, "name": message.tool_name, "content": _parse(message.text)}
    return f"<tool_response>\n{json.dumps(content, ensure_ascii=False)}\n</tool_response>"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _unparse(value: Any) -> str:
    """Return a text that `_parse` turns into the value."""
    return value if isinstance(value, str) and _parse(value) is value else json.dumps(value, ensure_ascii=False)
