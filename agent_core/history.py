"""Keeps a conversation valid for a model's API: each tool call is followed by exactly one result.

Pure: nothing here runs a tool or writes anything down.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import uuid4

from agent_core.conversation import Message, ToolCall, tool_result, user

SUMMARY_REQUEST = user(
    "You have used up the steps for this turn and can call no more tools. "
    "Sum up for the user what you did, what you found, and what is left to do."
)


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last assistant message that have no result yet.

    Whoever gives a turn up settles these first, or the next turn will take them as its own and run them.
    """
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].role == "assistant":
            answered = {message.tool_call_id for message in messages[position + 1 :] if message.role == "tool"}
            return [call for call in messages[position].tool_calls if call.id not in answered]
    return []


def arrange(messages: Sequence[Message]) -> list[Message]:
    """The same conversation with results right behind their calls, in call order, one for each.

    Results come in the order in which tools finish and may sit behind a later user message. A result that
    belongs to no call is dropped; a call that never got one is given an honest answer.
    """
    if not any(message.tool_calls or message.role == "tool" for message in messages):
        return list(messages)  # nothing but talk, as most conversations are
    results = _results_by_call(messages)
    arranged: list[Message] = []
    for position, message in enumerate(messages):
        if message.role == "tool":
            continue
        arranged.append(message)
        for index, call in enumerate(_calls(message)):
            arranged.append(results.get((position, index)) or never_finished(call))
    return arranged


def with_unique_ids(reply: Message, messages: Iterable[Message]) -> Message:
    """The reply with a fresh id for each call whose own is empty or already taken.

    Some models count from `call_0` in every message; a result or a started mark would then fit two calls.
    """
    taken = {call.id for message in messages for call in _calls(message)} | {""}
    calls: list[ToolCall] = []
    for call in reply.tool_calls:
        unique = call if call.id not in taken else replace(call, id=f"call_{uuid4().hex}")
        taken.add(unique.id)
        calls.append(unique)
    return replace(reply, tool_calls=tuple(calls))


def iterations_used(messages: Sequence[Message]) -> int:
    """How many times the tools were used since the user last spoke: more than none when a turn is resumed."""
    used = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        used += bool(_calls(message))
    return used


def interrupted_by_restart(call: ToolCall) -> Message:
    """For a call that had been started when the process ended."""
    return _unknown_outcome(
        call,
        f"This call of {call.name} was interrupted by a restart and has not been run again. "
        "Its effect is unknown: it may have happened fully, partly or not at all. Check before repeating it.",
    )


def stopped_by_user(call: ToolCall) -> Message:
    """For a call that was waiting or running when the user stopped the turn."""
    return _unknown_outcome(
        call,
        f"The user stopped this call of {call.name} before it finished. "
        "It may have had some effect already. Do not repeat it unless you are asked to.",
    )


def interrupted_by_message(call: ToolCall) -> Message:
    """For a call that was waiting or running when its user said something newer, which goes first."""
    return _unknown_outcome(
        call,
        f"A newer message of the user interrupted this call of {call.name} before it finished. "
        "It may have had some effect already. Check before repeating it.",
    )


def never_finished(call: ToolCall) -> Message:
    """For a call in the past of which nobody wrote down an end."""
    return _unknown_outcome(
        call, f"This call of {call.name} was interrupted and left no result. Its effect is unknown."
    )


def _unknown_outcome(call: ToolCall, words: str) -> Message:
    return tool_result(call, json.dumps({"error": words, "outcome": "unknown"}, ensure_ascii=False), is_error=True)


def _results_by_call(messages: Sequence[Message]) -> dict[tuple[int, int], Message]:
    """Results by (position of the assistant message, index of the call in it)."""
    results: dict[tuple[int, int], Message] = {}
    waiting: dict[str, list[tuple[int, int]]] = {}
    for position, message in enumerate(messages):
        if message.role == "tool":
            if slots := waiting.get(message.tool_call_id):
                results[slots.pop(0)] = message
            continue
        # An id that comes again belongs to the later message from here on.
        fresh: dict[str, list[tuple[int, int]]] = {}
        for index, call in enumerate(_calls(message)):
            fresh.setdefault(call.id, []).append((position, index))
        waiting |= fresh
    return results


def _calls(message: Message) -> tuple[ToolCall, ...]:
    return message.tool_calls if message.role == "assistant" else ()
