"""Conversations in ShareGPT form, for training and for looking back."""

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
    """`from` is system, human, gpt or tool; several results in a row are one tool turn.

    Secrets are hidden: those that the redactor knows, without one what looks like a secret.
    """
    turns: list[Turn] = [{"from": "system", "value": _system(system, tools)}]
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "tool" and turns[-1]["from"] == "tool":
            turns[-1]["value"] += "\n" + _response(message)
        else:
            turns.append(_turn(message))
    # As late as this: what a model wrote with escapes shows only when it has been read.
    clean = (redactor or Redactor()).clean
    return [{"from": turn["from"], "value": clean(turn["value"])} for turn in turns]


def _system(system: str, tools: Sequence[Tool]) -> str:
    offered = json.dumps([tool_to_openai(tool)["function"] for tool in tools], ensure_ascii=False)
    return "\n\n".join(filter(None, (system, f"<tools>\n{offered}\n</tools>" if tools else "")))


def _turn(message: Message) -> Turn:
    if message.role == "user":
        return {"from": "human", "value": message.text}
    if message.role == "tool":
        return {"from": "tool", "value": _response(message)}
    thought = f"<think>\n{message.reasoning}\n</think>" if message.reasoning else ""
    calls = [f"<tool_call>\n{_call(call.name, call.arguments)}\n</tool_call>" for call in message.tool_calls]
    return {"from": "gpt", "value": "\n".join(filter(None, (thought, message.text, *calls)))}


def _call(name: str, arguments: str) -> str:
    return json.dumps({"name": name, "arguments": _parsed(arguments)}, ensure_ascii=False)


def _response(message: Message) -> str:
    content = {"tool_call_id": message.tool_call_id, "name": message.tool_name, "content": _parsed(message.text)}
    return f"<tool_response>\n{json.dumps(content, ensure_ascii=False)}\n</tool_response>"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
