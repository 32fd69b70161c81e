"""A model of a few rules that needs no key and no network, so that the whole product can be tried.

It says so. It understands greetings, arithmetic, a handful of plain requests that it turns into real tool calls, and
`use <tool> {json}` for any other tool.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from agent_core.conversation import Message, ToolCall, assistant
from agent_core.events import Emit, TextDelta, Usage
from agent_core.history import SUMMARY_REQUEST
from agent_core.models.arithmetic import NoAnswer, evaluate, find_expression
from agent_core.result import error_of
from tools.base import Tool
from tools.content import Media, text_of
from tools.loading import load_builtin

MAX_RESULT_CHARS = 1_500
MAX_PHRASE_CHARS = 1_000  # longer texts are no plain requests, and slow to match

ABOUT = (
    "I am the demo model that comes with Hermes: a few rules, no real intelligence. "
    "I can do arithmetic (“what is 17 * 23?”) and try tools for you{tools}. "
    "To talk to a real model, set one with `hermes config set model.name …`."
)
BEYOND_ME = "That is beyond me. " + ABOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tool call that a user asked for, and how to word its result."""

    tool: str
    arguments: str
    tell: Callable[[str], str]  # from the text of the result to an answer


class DemoModel:
    name = "demo"

    def __init__(self, *, pace_seconds: float = 0.0) -> None:
        """With a pace, write word by word, as real models do."""
        self._pace_seconds = pace_seconds

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        """Answer every user message since the last answer, in order, once the tools they need have run."""
        unanswered = _since_last_answer(messages)
        done = [message for message in unanswered if message.role == "tool"]
        available = sorted(tool.name for tool in tools) if may_call else []
        answers: list[str] = []
        calls: list[ToolCall] = []
        received: list[Media] = []
        for message in unanswered:
            if message.role != "user" or message == SUMMARY_REQUEST:
                continue
            if files := [part for part in message.parts if isinstance(part, Media)]:
                received += [replace(file, text="") for file in files if not file.problem]
                answers.append(_acknowledge(files))
            words = text_of(part for part in message.parts if not isinstance(part, Media))
            if files and not words.strip():
                continue
            wish = understand(words, available)
            if isinstance(wish, str):
                answers.append(wish)
            elif result := _take(done, wish.tool):
                answers.append(_tell_result(wish, result))
            elif wish.tool in available:
                calls.append(ToolCall(id=f"call_{uuid4().hex}", name=wish.tool, arguments=wish.arguments))
            else:
                answers.append(_explain_missing(wish.tool, available))
        if calls:
            reply = assistant(tool_calls=tuple(calls))
        else:
            reply = assistant(_join(answers, available))
            reply = replace(reply, parts=(*reply.parts, *received))
        await self._emit(reply, messages, emit)
        return reply

    async def _emit(self, reply: Message, messages: Sequence[Message], emit: Emit) -> None:
        words = re.findall(r"\s*\S+", text_of(part for part in reply.parts if not isinstance(part, Media)))
        step = 1 if self._pace_seconds else max(1, -(-len(words) // 4))
        for start in range(0, len(words), step):
            emit(TextDelta(text="".join(words[start : start + step])))
            if self._pace_seconds:
                await asyncio.sleep(self._pace_seconds)
        read = sum(len(message.text.split()) for message in messages)
        emit(Usage(input_tokens=read, output_tokens=len(words) or len(reply.tool_calls)))


def _acknowledge(files: Sequence[Media]) -> str:
    names = ", ".join(file.name or file.kind for file in files if not file.problem)
    got = f"I got {names}. A real model would look at it; I can only send it back." if names else ""
    lost = [f"{file.name or file.kind} could not be read: {file.problem}." for file in files if file.problem]
    return " ".join([got, *lost]).strip()


def understand(text: str, available: Sequence[str] = ()) -> str | Request:
    """Return an answer, or the tool call that the text asks for."""
    bare = _without_author(text)  # and below without our own name: “Felix: @hermes hello”
    barest = _without_author(bare)
    for words in dict.fromkeys(
        (text.strip(), bare, barest, _without_author(barest))
    ):  # a mark of when it came may stand in front
        for rule in (_tell_ended, _greet, _introduce, _calculate, _send_file, _request_tool):
            if found := rule(words, available):
                return found
    return BEYOND_ME.format(tools=_offer(available))


def _tell_ended(text: str, available: Sequence[str]) -> str:
    """Repeat what the gateway reports of background processes."""
    told = re.findall(r"^\[Background process (proc_\w+) \(.*\) ((?:was )?ended[^.;,\]]*)", text, re.M)
    return "\n".join(f"{process} {how}." for process, how in told)


def _greet(text: str, available: Sequence[str]) -> str:
    if re.fullmatch(
        r"(hi|hello|hey|hallo|moin|servus|greetings|good (morning|afternoon|evening)|/start)\b.{0,20}", text, re.I
    ):
        return "Hello! " + ABOUT.format(tools=_offer(available))
    return "You are welcome." if re.fullmatch(r"(thanks|thank you|thx|danke)\b.{0,20}", text, re.I) else ""


def _introduce(text: str, available: Sequence[str]) -> str:
    asked = r"(help|/help|who are you|what are you|what can you do|are you (a|the) (demo|bot|real).*)[?!. ]*"
    return ABOUT.format(tools=_offer(available)) if re.fullmatch(asked, text, re.I) else ""


def _calculate(text: str, available: Sequence[str]) -> str:
    expression = find_expression(text)
    try:
        return f"{expression} = {evaluate(expression)}".replace("= about", "≈") if expression else ""
    except NoAnswer as error:
        return str(error)


def _send_file(text: str, available: Sequence[str]) -> str:
    asked = re.fullmatch(
        r"(?:please\s+)?send\s+me\s+(?:(?:the|a|my)\s+)?(?:file|picture|photo|document|video|voice\s+note)s?"
        r"(?:\s+(?P<paths>[^\n]{1,500}?))?[!?\s]*",
        text,
        re.I,
    )
    if asked is None:
        return ""
    paths = [path.strip(" `'\"") for path in re.split(r",\s+|\s+and\s+", asked["paths"] or "") if path.strip()]
    if not paths:
        return "Which one? Say: send me the file notes.txt."
    return "\n".join([f"Here {'it is' if len(paths) == 1 else 'they are'}.", *(f"MEDIA:{path}" for path in paths)])


def _request_tool(text: str, available: Sequence[str]) -> Request | None:
    if use := re.fullmatch(r"use\s+([\w.-]{1,64})(?:\s+(\{.*))?", text, re.I | re.S):
        tool = use[1]
        return Request(tool=tool, arguments=use[2] or "{}", tell=_tell(tool))
    for pattern, tool, arguments, tell in _PHRASES if len(text) <= MAX_PHRASE_CHARS else ():
        if found := pattern.fullmatch(text):
            filled = {key: value for key, value in arguments(found).items() if value}
            return Request(tool=tool, arguments=json.dumps(filled, ensure_ascii=False), tell=tell)
    return None


def _tell_time(result: str) -> str:
    now = json.loads(result)
    return f"It is {now['time']} on {now['weekday']}, {now['date']} ({now['timezone']}, UTC{now['utc_offset']})."


def _tell_todos(result: str) -> str:
    todos = json.loads(result)["todos"]
    if not todos:
        return "Your todo list is empty."
    lines = [f"{t['id']}. {t['content']}" + ("" if t["status"] == "pending" else f" ({t['status']})") for t in todos]
    return _shorten("Your todo list:\n" + "\n".join(lines))


def _tell_command(result: str) -> str:
    told = json.loads(result)
    if "session_id" in told:
        return f"It runs in the background as {told['session_id']} (“stop {told['session_id']}” ends it)."
    output = _shorten(told["output"].strip("\n"))
    fence = "~~~~" if "```" in output else "```"
    silent = "No output." if told["exit_code"] or told["error"] else "Done, no output."
    lines = [f"{fence}\n{output}\n{fence}" if output else silent, told["error"] or ""]
    if told["exit_code"]:
        lines.append(f"It ended with exit code {told['exit_code']}.")
    return "\n".join(filter(None, (*lines, told.get("note"))))


def _tell_processes(result: str) -> str:
    processes = json.loads(result)["processes"]
    if not processes:
        return "Nothing is running."
    lines = [
        f"{one['session_id']}: {one['command']} ({one['status']}"
        + (f" with exit code {one['exit_code']})" if "exit_code" in one else f" for {one['seconds']} s)")
        for one in processes
    ]
    return _shorten("\n".join(lines))


def _tell_killed(result: str) -> str:
    told = json.loads(result)
    return f"{told['session_id']} has ended (exit code {told['exit_code']})."


def _interval_seconds(how: str) -> int:
    said = re.search(r"every\s+(\d{1,4})\s*(s|min)", how, re.I)
    return int(said[1]) * (60 if said[2].lower() == "min" else 1) if said else 30


def _tell(tool: str) -> Callable[[str], str]:
    return lambda result: f"{tool} returned: {_shorten(result)}"


def _phrase(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:please\s+)?(?:{pattern})[?!.\s]*", re.I | re.S)


Arguments = Callable[[re.Match[str]], dict[str, Any]]
_PHRASES: tuple[tuple[re.Pattern[str], str, Arguments, Callable[[str], str]], ...] = (
    (
        _phrase(
            r"(?:what(?:['’]?s|\s+is)?\s+(?:the\s+|today['’]?s\s+)?(?:current\s+)?(?:time|date|day)(?:\s+is)?(?:\s+it|\s+today|\s+now)?)"
            r"(?:\s+in\s+(?P<zone>[\w/+ -]{1,60}?))?"
        ),
        "clock",
        lambda found: {"timezone": found["zone"]},
        _tell_time,
    ),
    (
        _phrase(
            r"(?:what(?:['’]?s|\s+is)\s+on|show|list)(?:\s+me)?\s+(?:my\s+|the\s+)?to-?dos?(?:\s+list)?|(?:my\s+)?to-?dos?(?:\s+list)?"
        ),
        "todo",
        lambda found: {"action": "list"},
        _tell_todos,
    ),
    (
        _phrase(r"(?P<action>complete|finish|cancel)\s+to-?do\s+#?(?P<id>[\w-]{1,40})"),
        "todo",
        lambda found: {"action": found["action"].lower().replace("finish", "complete"), "id": found["id"]},
        _tell_todos,
    ),
    (
        _phrase(
            r"(?:add\s+(?:a\s+)?to-?do:?\s+|to-?do:\s*)(?P<content>.+?)|add\s+(?P<other>.+?)\s+to\s+(?:my|the)\s+to-?do(?:s|\s+list)?"
        ),
        "todo",
        lambda found: {"action": "create", "content": found["content"] or found["other"]},
        _tell_todos,
    ),
    (
        _phrase(
            r"(?:run|execute|start)\s+(?P<fence>`?)(?P<command>.+?)(?P=fence)\s+in\s+the\s+background"
            r"(?:,?\s+(?P<how>(?:and\s+|every\s+|tell\s+)[^\n]{1,100}?))?"
        ),
        "terminal",
        lambda found: {
            "command": found["command"],
            "background": True,
            "check_interval": _interval_seconds(found["how"] or ""),
            "notify_on_complete": True,
        },
        _tell_command,
    ),
    (
        re.compile(r"(?:run|execute)\s+(?P<fence>`?)(?P<command>.+)(?P=fence)", re.I | re.S),  # to the last dot
        "terminal",
        lambda found: {"command": found["command"]},
        _tell_command,
    ),
    (
        _phrase(r"what(?:['’]?s|\s+is)\s+running|(?:list|show)(?:\s+me)?\s+(?:my\s+|the\s+)?processes"),
        "process",
        lambda found: {"action": "list"},
        _tell_processes,
    ),
    (
        _phrase(r"(?:stop|kill|end)\s+(?:process\s+)?(?P<id>proc_\w{1,40})"),
        "process",
        lambda found: {"action": "kill", "session_id": found["id"]},
        _tell_killed,
    ),
    (
        _phrase(r"remember\s+(?:that\s+)?(?P<value>.+?)"),
        "memory",
        lambda found: {"action": "set", "key": found["value"][:40], "value": found["value"]},
        _tell("memory"),
    ),
    (
        _phrase(r"(?P<schedule>every\s+(?:\d+\s+)?(?:minute|hour|day|week)s?),?\s+(?P<prompt>.+?)"),
        "cronjob",
        lambda found: {"action": "create", "schedule": found["schedule"], "prompt": found["prompt"]},
        _tell("cronjob"),
    ),
)


def _since_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].role == "assistant" and not messages[position].tool_calls:
            return messages[position + 1 :]
    return messages


def _take(done: list[Message], tool: str) -> Message | None:
    """Remove and return the first result of that tool: calls are made in the order of the requests."""
    result = next((message for message in done if message.tool_name == tool), None)
    if result:
        done.remove(result)
    return result


def _tell_result(request: Request, result: Message) -> str:
    if result.is_error:
        return f"{request.tool} returned: {_shorten(error_of(result))}"
    try:
        return request.tell(result.text)
    except (ValueError, KeyError, TypeError):  # another tool of the same name
        return _tell(request.tool)(result.text)


def _explain_missing(tool: str, available: Sequence[str]) -> str:
    if tool not in (known.name for known in load_builtin()):
        there_is = f" There is{_offer(available, lead='')}." if available else ""
        return f"I cannot do that in this version: there is no tool {tool}.{there_is}"
    there_is = _offer(available, lead="; there is")
    return f"I need the tool {tool} for that, and it is not switched on{there_is}."


def _offer(available: Sequence[str], *, lead: str = ":") -> str:
    return f"{lead} {', '.join(available)}" if available else ""


def _join(answers: Sequence[str], available: Sequence[str]) -> str:
    answer = "\n\n".join(dict.fromkeys(answers)).strip()
    return answer or ABOUT.format(tools=_offer(available))


def _without_author(text: str) -> str:
    """Remove the speaker in front: “Felix: hello”, “[Felix] hello”, “@hermes hello”."""
    return re.sub(r"^\s*(?:\[[^\]\n]{1,60}\]:?|@\w+[:,]?|[^:\n]{1,60}:)\s+", "", text, count=1).strip()


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_RESULT_CHARS else text[:MAX_RESULT_CHARS] + "…"
