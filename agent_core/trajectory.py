"""Convert conversations to ShareGPT form, for training and review."""

import json
from collections.abc import Sequence
from typing import Any

from agent_core.conversation import Message
from agent_core.openai_format import tool_to_openai
from hermes_config.redaction import Redactor
from tools.base import Tool

Turn = dict[str, str]


def to_sharegpt(
    messages: Sequence[Message], tools: Sequence[Tool], *, system: str = "", redactor: Redactor | None = None
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
    clean = (redactor or Redactor()).clean
    return [{"from": turn["from"], "value": clean(turn["value"])} for turn in turns]


def _format_system(system: str, tools: Sequence[Tool]) -> str:
    offered = json.dumps([tool_to_openai(tool)["function"] for tool in tools], ensure_ascii=False)
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


def _format_result(message: Message) -> str:
    content = {"tool_call_id": message.tool_call_id, "name": message.tool_name, "content": _parse(message.text)}
    return f"<tool_response>\n{json.dumps(content, ensure_ascii=False)}\n</tool_response>"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
