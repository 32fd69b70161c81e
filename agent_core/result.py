"""The outcome of a turn, and helpers to read its messages."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.conversation import Message, ToolCall
from agent_core.history import arrange
from agent_core.openai_format import message_to_openai


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """A tool call that failed."""

    turn: int  # the model call that asked for it, from 1; 0 for a call left open by an earlier process
    tool_name: str
    arguments: str
    error: str
    tool_result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """A finished turn as scripts get it."""

    messages: list[dict[str, Any]]  # the whole conversation in OpenAI format, the final answer last
    turns_used: int  # model calls, the final answer's too
    finished_naturally: bool  # False when the budget ended the turn
    reasoning_per_turn: list[str | None]
    tool_errors: list[ToolError]
    managed_state: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """A finished turn in our own types; `result` is the same for scripts."""

    history: tuple[Message, ...]  # what came before, as it was handed in
    messages: tuple[Message, ...]  # what this turn added, the final answer last
    finished_naturally: bool

    @property
    def final(self) -> Message:
        return self.messages[-1]

    @property
    def conversation(self) -> list[Message]:
        return arrange([*self.history, *self.messages])

    @property
    def result(self) -> AgentResult:
        replies = [message for message in self.messages if message.role == "assistant"]
        return AgentResult(
            messages=[message_to_openai(message, with_reasoning=True) for message in self.conversation],
            turns_used=len(replies),
            finished_naturally=self.finished_naturally,
            reasoning_per_turn=[reply.reasoning or None for reply in replies],
            tool_errors=_tool_errors(self.history, self.messages),
        )


def final_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the last assistant message, from messages in OpenAI format."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            return message.get("content") or ""
    return ""


def tool_names(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the name of each tool call in order, from messages in OpenAI format."""
    return [call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()]


def error_of(result: Message) -> str:
    """Return the error message of a failed call."""
    try:
        content = json.loads(result.text)
    except (ValueError, RecursionError):
        return result.text
    return str(content["error"]) if isinstance(content, dict) and "error" in content else result.text


def _tool_errors(history: Sequence[Message], new: Sequence[Message]) -> list[ToolError]:
    calls: dict[str, ToolCall] = {call.id: call for message in history for call in message.tool_calls}
    errors: list[ToolError] = []
    turn = 0
    for message in new:
        if message.role == "assistant":
            turn += 1
            calls |= {call.id: call for call in message.tool_calls}
        elif message.is_error:
            errors.append(
                ToolError(
                    turn=turn,
                    tool_name=message.tool_name,
                    arguments=calls[message.tool_call_id].arguments,
                    error=error_of(message),
                    tool_result=message.text,
                )
            )
    return errors
