"""Translate between a conversation and the Agent Client Protocol. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import helpers, schema

from agent_core.conversation import Message, ToolCall
from gateway.commands.registry import CommandSpec
from hermes_cli.live_view import read_result, summarize_call
from hermes_cli.prompting import describe_question
from tools.approval.gate import Question
from tools.backends.base import Workplace
from tools.content import encodable, words_of

Update = helpers.SessionUpdate
Block = helpers.ContentBlock

_KINDS: Mapping[str, schema.ToolKind] = {
    "file_read": "read",
    "file_write": "edit",
    "file_patch": "edit",
    "file_search": "search",
    "session_search": "search",
    "skills_list": "read",
    "skill_view": "read",
    "terminal": "execute",
    "process": "execute",
    "execute_code": "execute",
    "web_search": "fetch",
    "web_extract": "fetch",
}
_WITH_A_FILE = ("file_read", "file_write", "file_patch")
_MAX_SHOWN_CHARS = 20_000
_OPTIONS: Mapping[str, tuple[str, schema.PermissionOptionKind]] = {
    "once": ("Allow once", "allow_once"),
    "session": ("Allow in this conversation", "allow_always"),
    "always": ("Always allow", "allow_always"),
    "deny": ("Deny", "reject_once"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A whole file before and after a call that changes it."""

    path: str
    before: str | None  # None: there is none yet
    after: str


def read_prompt(blocks: Sequence[Block]) -> str:
    """Return what the user wrote; files that they mention become paths, which the agent can read."""
    return "".join(_read_block(block) for block in blocks).strip()


def _read_block(block: Block) -> str:
    match block:
        case schema.TextContentBlock():
            return block.text
        case schema.ResourceContentBlock():
            return _read_link(block.uri)
        case schema.EmbeddedResourceContentBlock():
            return _read_link(block.resource.uri)
        case _:
            return f"[{block.type}: not supported here]"


def _read_link(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return f"<{uri}>"
    return f"`{unquote(parts.path)}`" + (f" ({parts.fragment})" if parts.fragment else "")


def say(text: str) -> Update:
    return helpers.update_agent_message_text(encodable(text))


def think(text: str) -> Update:
    return helpers.update_agent_thought_text(encodable(text))


def begin_call(call: ToolCall, place: Workplace, change: FileChange | None) -> Update:
    """Announce a call that has not begun."""
    given = _arguments(call)
    return helpers.start_tool_call(
        call.id,
        encodable(summarize_call(call)),
        kind=_KINDS.get(call.name, "other"),
        status="pending",
        content=_show_change(change),
        locations=_locate(call.name, given, place),
        raw_input=given,
    )


def report_call(call: ToolCall, line: str) -> Update:
    return helpers.update_tool_call(call.id, content=[_show_lines(line)])


def end_call(call: ToolCall, result: Message, change: FileChange | None) -> Update:
    """Show the result; a change that was made says more than the tool's own words."""
    lines, failed = read_result(result.text)
    failed = failed or result.is_error
    if change is not None and not failed:
        return helpers.update_tool_call(call.id, status="completed", content=_show_change(change))
    return helpers.update_tool_call(
        call.id, status="failed" if failed else "completed", content=[_show_lines("\n".join(lines))]
    )


def ask(question: Question, call_id: str, change: FileChange | None) -> schema.ToolCallUpdate:
    """Put the question where an editor shows what a call would do."""
    may_i, *about = describe_question(question)
    words = helpers.tool_content(helpers.text_block(encodable("\n".join([may_i, "", *about]))))
    return schema.ToolCallUpdate(
        tool_call_id=call_id,
        title=encodable(question.action if len(question.action) <= 200 else question.tool),
        kind=_KINDS.get(question.tool, "other"),
        status="pending",
        content=[*_show_change(change), words],
    )


def offer(question: Question) -> list[schema.PermissionOption]:
    offered = _OPTIONS if question.rules else {name: _OPTIONS[name] for name in ("once", "deny")}
    return [schema.PermissionOption(option_id=one, name=name, kind=kind) for one, (name, kind) in offered.items()]


def list_commands(commands: Sequence[CommandSpec]) -> Update:
    return helpers.update_available_commands(
        schema.AvailableCommand(
            name=command.name,
            description=command.description,
            input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=command.argument_hint))
            if command.argument_hint
            else None,
        )
        for command in commands
    )


def replay(messages: Sequence[Message], place: Workplace) -> Iterator[Update]:
    """Show a conversation again."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        match message.role:
            case "user":
                if words := words_of(message.parts):
                    yield helpers.update_user_message_text(encodable(words))
            case "assistant":
                if message.reasoning:
                    yield think(message.reasoning)
                if message.text:
                    yield say(message.text)
                for call in message.tool_calls:
                    calls[call.id] = call
                    yield begin_call(call, place, None)
            case "tool" if message.tool_call_id in calls:
                yield end_call(calls[message.tool_call_id], message, None)
            case _:
                pass


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        given = json.loads(encodable(call.arguments) or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _locate(name: str, given: Mapping[str, Any], place: Workplace) -> list[schema.ToolCallLocation]:
    path, line = given.get("path"), given.get("offset")
    if name not in _WITH_A_FILE or not isinstance(path, str):
        return []
    line = line if isinstance(line, int) and line > 0 else None
    return [schema.ToolCallLocation(path=encodable(place.locate(path)), line=line)]


def _show_change(change: FileChange | None) -> list[helpers.ToolCallContentVariant]:
    if change is None:
        return []
    before = None if change.before is None else encodable(change.before)
    return [helpers.tool_diff_content(encodable(change.path), encodable(change.after), before)]


def _show_lines(text: str) -> helpers.ToolCallContentVariant:
    shown = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}\n…"
    fence = "```"
    while fence in shown:
        fence += "`"
    return helpers.tool_content(helpers.text_block(encodable(f"{fence}\n{shown}\n{fence}")))
