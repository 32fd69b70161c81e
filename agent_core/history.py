"""Keep a conversation valid for a model's API.

`arrange` gives each tool call exactly one result. `repair` also makes it acceptable to the strictest provider: some
refuse two user messages in a row, an empty text, an assistant who speaks first or last, or an unusual id, and one
refused message would refuse every later turn of the session. Pure; the stored conversation stays as it was said.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from uuid import uuid4

from agent_core.conversation import Message, ToolCall, tool_result, user
from tools.content import Part, Text

SUMMARY_REQUEST = user(
    "You have used all steps of this turn and can call no more tools. "
    "Summarise for the user what you did, what you found, and what is left to do."
)
EMPTY = "(empty message)"
NO_OUTPUT = "(no output)"
LEFT_OUT = user("(Earlier messages are left out.)")
GO_ON = user("(Please continue.)")

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """Return the calls of the last assistant message that have no result yet.

    Whoever gives a turn up settles these first, or the next turn will take them as its own and run them.
    """
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].role == "assistant":
            answered = {message.tool_call_id for message in messages[position + 1 :] if message.role == "tool"}
            return [call for call in messages[position].tool_calls if call.id not in answered]
    return []


def with_unique_ids(reply: Message, messages: Iterable[Message]) -> Message:
    """Return the reply with a fresh id for each call whose own is empty or already taken.

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
    """Count the messages with tool calls since the user last spoke: more than none when a turn is resumed."""
    used = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        used += bool(_calls(message))
    return used


def arrange(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with one result right behind each call, in call order.

    Results come in the order in which tools finish and may sit behind a later user message. A result that
    belongs to no call is dropped; a call that never got one gets a result that says so.
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


def _results_by_call(messages: Sequence[Message]) -> dict[tuple[int, int], Message]:
    """Return the results by (position of the assistant message, index of the call in it)."""
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


# Results for calls that did not finish.


def interrupted_by_restart(call: ToolCall) -> Message:
    """Return the result of a call that had been started when the process ended."""
    return _unknown_outcome(
        call,
        f"This call of {call.name} was interrupted by a restart and has not been run again. "
        "Its effect is unknown: it may have happened fully, partly or not at all. Check before repeating it.",
    )


def stopped_by_user(call: ToolCall) -> Message:
    """Return the result of a call that was waiting or running when the user stopped the turn."""
    return _unknown_outcome(
        call,
        f"The user stopped this call of {call.name} before it finished. "
        "It may have had some effect already. Do not repeat it unless you are asked to.",
    )


def interrupted_by_message(call: ToolCall) -> Message:
    """Return the result of a call that was waiting or running when a newer message of the user went first."""
    return _unknown_outcome(
        call,
        f"A newer message of the user interrupted this call of {call.name} before it finished. "
        "It may have had some effect already. Check before repeating it.",
    )


def never_finished(call: ToolCall) -> Message:
    """Return the result of a past call for which none was stored."""
    return _unknown_outcome(
        call, f"This call of {call.name} was interrupted and left no result. Its effect is unknown."
    )


def _unknown_outcome(call: ToolCall, words: str) -> Message:
    return tool_result(call, json.dumps({"error": words, "outcome": "unknown"}, ensure_ascii=False), is_error=True)


# Repair for the strictest provider.


def repair(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation with results behind their calls, alternating roles, nothing empty, and the user or a tool
    last. Nothing else changes."""
    system, spoken = _split_system(arrange(messages))
    merged = _merge(_fill(one) for one in spoken if one.role != "assistant" or one.tool_calls or one.text.strip())
    if not merged or merged[0].role != "user":
        merged.insert(0, LEFT_OUT)
    if merged[-1].role == "assistant":
        merged.append(GO_ON)
    return [*system, *_fix_ids(merged)]


def _split_system(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return one system message, and the rest; later system messages become the user's."""
    lead = 0
    while lead < len(messages) and messages[lead].role == "system":
        lead += 1
    instructions = "\n\n".join(message.text for message in messages[:lead] if message.text.strip())
    system = [Message(role="system", parts=(Text(text=instructions),))] if instructions else []
    return system, [replace(m, role="user") if m.role == "system" else m for m in messages[lead:]]


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
        merged[-1] = replace(message, parts=_join(before.parts, message.parts), reasoning=reasoning)
    return merged


def _join(before: tuple[Part, ...], after: tuple[Part, ...]) -> tuple[Part, ...]:
    """Join the parts of two messages, with an empty line between their texts."""
    match before, after:
        case (*start, Text(text=first)), (Text(text=second), *rest):
            return (*start, Text(text=f"{first}\n\n{second}"), *rest)
    return (*before, *after)


def _fix_ids(messages: Sequence[Message]) -> list[Message]:
    """Give each call an id that every provider takes and that is used once. Results stand behind their calls."""
    taken: set[str] = set()
    answers: list[str] = []
    fixed: list[Message] = []
    for position, message in enumerate(messages):
        if message.role == "tool":
            fixed.append(replace(message, tool_call_id=answers.pop(0)))
            continue
        if message.role == "assistant" and message.tool_calls:
            calls = tuple(_fix_id(call, (position, index), taken) for index, call in enumerate(message.tool_calls))
            answers = [call.id for call in calls]
            message = replace(message, tool_calls=calls)
        fixed.append(message)
    return fixed


def _fix_id(call: ToolCall, place: tuple[int, int], taken: set[str]) -> ToolCall:
    good = call.id
    if not _CALL_ID.fullmatch(good) or good in taken:
        # Made from what is there, so that the same history always reads the same, and caches hold.
        good = "call_" + sha256(f"{call.id}\0{place}".encode("utf-8", "replace")).hexdigest()[:32]
    taken.add(good)
    return call if good == call.id else replace(call, id=good)
