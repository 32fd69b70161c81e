"""Turns whose one tool call is decided already, such as that of `/terminal`: no model is asked."""

import json
from collections.abc import Sequence
from typing import Any

from agent_core.conversation import Message, ToolCall, assistant
from agent_core.events import Emit, TextDelta
from gateway.clock import new_id
from gateway.wording import fence
from tools.base import Tool


class DirectCall:
    """Stands in for the model: makes the call, and answers with its result.

    Everything else is as in any other turn: approvals, the journal, `/stop`, and what happens after a crash.
    """

    name = "direct"

    def __init__(self, call: str) -> None:
        self._call = json.loads(call)

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        if messages[-1].role == "tool":
            answer = render_result(messages[-1].text)
            emit(TextDelta(text=answer))
            return assistant(answer)
        arguments = json.dumps(self._call["arguments"], ensure_ascii=False)
        return assistant(tool_calls=(ToolCall(id=f"call_{new_id()}", name=self._call["name"], arguments=arguments),))


def render_result(result: str) -> str:
    """Return the result of a tool as people read it."""
    try:
        found: Any = json.loads(result)
    except ValueError:
        return result
    if not isinstance(found, dict):
        return result
    if isinstance(found.get("message"), str):
        return str(found["message"])
    if "session_id" in found:
        text = f"Started in the background as {found['session_id']}. /status shows it, /stop all ends it."
        return f"{text} {found['note']}" if found.get("note") else text
    lines = [str(found["error"])] if found.get("error") else []
    if output := str(found.get("output") or "").rstrip("\n"):
        lines.append(fence(output))
    elif "exit_code" in found and not found["exit_code"] and not found.get("error"):
        lines.append("Done, without any output.")
    if found.get("exit_code"):
        lines.append(f"Exit code {found['exit_code']}{'' if output else ', no output'}.")
    if found.get("note"):
        lines.append(str(found["note"]))
    return "\n".join(lines) or result
