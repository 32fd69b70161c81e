"""A model of a few rules that needs no key and no network, so that the whole product can be tried.

It says so. It understands greetings, arithmetic, a handful of plain requests that it turns into real tool calls, and
`use <tool> {json}` for any other tool.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
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
from tools.provenance import SKILL

MAX_RESULT_CHARS = 1_500
MAX_PHRASE_CHARS = 1_000  # longer texts are no plain requests, and slow to match

ABOUT = (
    "I am the demo model that comes with Hermes: a few rules, no real intelligence. "
    "I can do arithmetic (“what is 17 * 23?”) and try tools for you{tools}. "
    "To talk to a real model, set one with `hermes config set model.name …`."
)
BEYOND_ME = "That is beyond me. " + ABOUT


Result = dict[str, Any]
Render = Callable[[Result], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tool call that a user asked for, and how its result becomes an answer."""

    tool: str
    arguments: str
    render: Render | None = None  # None: the result is shown as it is


class DemoModel:
    name = "demo"

    def __init__(self, *, pace_seconds: float = 0.0) -> None:
        """With a pace, write word by word, as real models do."""
        self._pace_seconds = pace_seconds

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        """Answer every user message since the last answer, in order, once the tools they need have run."""
        answered = (at for at, one in enumerate(messages, 1) if one.role == "assistant" and not one.tool_calls)
        unanswered = messages[max(answered, default=0) :]
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
            # It cannot follow a skill, but answers what was said with it.
            own = (part for part in message.parts if not isinstance(part, Media) and not part.origin.startswith(SKILL))
            words = text_of(own)
            if files and not words.strip():
                continue
            wish = understand(words, available)
            if isinstance(wish, str):
                answers.append(wish)
            elif result := _take(done, wish.tool):
                answers.append(_render_result(wish, result))
            elif wish.tool in available:
                calls.append(ToolCall(id=f"call_{uuid4().hex}", name=wish.tool, arguments=wish.arguments))
            else:
                answers.append(_explain_missing(wish.tool, available))
        if calls:
            reply = assistant(tool_calls=tuple(calls))
        else:
            answer = "\n\n".join(dict.fromkeys(answers)).strip()
            reply = assistant(answer or ABOUT.format(tools=_offer(available)))
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
    words = text.strip()
    for _ in range(4):  # who writes, our own name and a mark of when it came may stand in front
        for rule in (_tell_ended, _chat, _calculate, _send_file, _request_tool):
            if found := rule(words, available):
                return found
        words = _without_author(words)
    return BEYOND_ME.format(tools=_offer(available))


def _tell_ended(text: str, available: Sequence[str]) -> str:
    """Repeat what the gateway reports of background processes."""
    told = re.findall(r"^\[Background process (proc_\w+) \(.*\) ((?:was )?ended[^.;,\]]*)", text, re.M)
    return "\n".join(f"{process} {how}." for process, how in told)


def _chat(text: str, available: Sequence[str]) -> str:
    about = ABOUT.format(tools=_offer(available))
    greeting = r"(hi|hello|hey|hallo|moin|servus|greetings|good (morning|afternoon|evening)|/start)\b.{0,20}"
    question = r"(help|/help|who are you|what are you|what can you do|are you (a|the) (demo|bot|real).*)[?!. ]*"
    if re.fullmatch(greeting, text, re.I):
        return f"Hello! {about}"
    if re.fullmatch(question, text, re.I):
        return about
    if said := re.fullmatch(r"say\s+(?P<words>[^\n]{1,500}?)", text, re.I):
        return said["words"]
    if remind := re.fullmatch(r"remind\s+(?:me|us)\s+to\s+(?P<words>[^\n]{1,500}?)", text, re.I):
        return f"Reminder: {remind['words']}"
    return "You are welcome." if re.fullmatch(r"(thanks|thank you|thx|danke)\b.{0,20}", text, re.I) else ""


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
        return Request(tool=use[1], arguments=use[2] or "{}")
    for pattern, tool, arguments, render in _PHRASES if len(text) <= MAX_PHRASE_CHARS else ():
        if found := pattern.fullmatch(text):
            filled = {key: value for key, value in arguments(found).items() if value}
            return Request(tool=tool, arguments=json.dumps(filled, ensure_ascii=False), render=render)
    return None


def _render_time(result: Result) -> str:
    return "It is {time} on {weekday}, {date} ({timezone}, UTC{utc_offset}).".format_map(result)


def _render_todos(result: Result) -> str:
    todos = result["todos"]
    if not todos:
        return "Your todo list is empty."
    lines = [f"{t['id']}. {t['content']}" + ("" if t["status"] == "pending" else f" ({t['status']})") for t in todos]
    return _shorten("Your todo list:\n" + "\n".join(lines))


def _render_command(result: Result) -> str:
    if "session_id" in result:
        return f"It runs in the background as {result['session_id']} (“stop {result['session_id']}” ends it)."
    output = _shorten(result["output"].strip("\n"))
    fence = "~~~~" if "```" in output else "```"
    silent = "No output." if result["exit_code"] or result["error"] else "Done, no output."
    lines = [f"{fence}\n{output}\n{fence}" if output else silent, result["error"] or ""]
    if result["exit_code"]:
        lines.append(f"It ended with exit code {result['exit_code']}.")
    return "\n".join(filter(None, (*lines, result.get("note"))))


def _render_processes(result: Result) -> str:
    processes = result["processes"]
    if not processes:
        return "Nothing is running."
    lines = [
        f"{one['session_id']}: {one['command']} ({one['status']}"
        + (f" with exit code {one['exit_code']})" if "exit_code" in one else f" for {one['seconds']} s)")
        for one in processes
    ]
    return _shorten("\n".join(lines))


def _render_memories(result: Result) -> str:
    known = result["memories"]
    lines = [f"- {one['key']}: {one['value']}" for one in known]
    return _shorten("\n".join(["I remember:", *lines])) if lines else "I remember nothing about that yet."


def _render_job(result: Result) -> str:
    job = result["job"]
    where = "" if job["deliver"] == "origin" else f" Answers go to {job['answers_go_to']}."
    return f"Scheduled: {job['name']} ({job['meaning']}). Next: {'; '.join(job['next'])}.{where}"


def _render_jobs(result: Result) -> str:
    jobs = result["jobs"]
    lines = [f"- {one['name']}: {one['meaning']}, {(one['next'] or [one['status']])[0]}" for one in jobs]
    return _shorten("\n".join(["Scheduled:", *lines])) if lines else "Nothing is scheduled."


def _name_fact(fact: str) -> str:
    """Return a key for a fact: its first words, the same for "remember that …" and "forget that …"."""
    words = re.findall(r"[^\W_]+", fact.lower())[:5]
    return "_".join(words)[:40] or fact


def _interval_seconds(how: str) -> int:
    said = re.search(r"every\s+(\d{1,4})\s*(s|min)", how, re.I)
    return int(said[1]) * (60 if said[2].lower() == "min" else 1) if said else 30


def _phrase(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:please\s+)?(?:{pattern})[?!.\s]*", re.I | re.S)


Arguments = Callable[[re.Match[str]], dict[str, Any]]
_PHRASES: tuple[tuple[re.Pattern[str], str, Arguments, Render | None], ...] = (
    (
        _phrase(
            r"(?:what(?:['’]?s|\s+is)?\s+(?:the\s+|today['’]?s\s+)?(?:current\s+)?(?:time|date|day)(?:\s+is)?(?:\s+it|\s+today|\s+now)?)"
            r"(?:\s+in\s+(?P<zone>[\w/+ -]{1,60}?))?"
        ),
        "clock",
        lambda found: {"timezone": found["zone"]},
        _render_time,
    ),
    (
        _phrase(
            r"(?:what(?:['’]?s|\s+is)\s+on|show|list)(?:\s+me)?\s+(?:my\s+|the\s+)?to-?dos?(?:\s+list)?|(?:my\s+)?to-?dos?(?:\s+list)?"
        ),
        "todo",
        lambda found: {"action": "list"},
        _render_todos,
    ),
    (
        _phrase(r"(?P<action>complete|finish|cancel)\s+to-?do\s+#?(?P<id>[\w-]{1,40})"),
        "todo",
        lambda found: {"action": found["action"].lower().replace("finish", "complete"), "id": found["id"]},
        _render_todos,
    ),
    (
        _phrase(
            r"(?:add\s+(?:a\s+)?to-?do:?\s+|to-?do:\s*)(?P<content>.+?)|add\s+(?P<other>.+?)\s+to\s+(?:my|the)\s+to-?do(?:s|\s+list)?"
        ),
        "todo",
        lambda found: {"action": "create", "content": found["content"] or found["other"]},
        _render_todos,
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
        _render_command,
    ),
    (
        _phrase(r"(?:run|execute)\s+(?P<fence>`?)(?P<command>.+?)(?P=fence)\s+outside(?:\s+the)?\s+sandbox"),
        "terminal",
        lambda found: {"command": found["command"], "outside": True, "reason": "You asked for that."},
        _render_command,
    ),
    (
        re.compile(r"(?:run|execute)\s+(?P<fence>`?)(?P<command>.+)(?P=fence)", re.I | re.S),  # to the last dot
        "terminal",
        lambda found: {"command": found["command"]},
        _render_command,
    ),
    (
        _phrase(r"what(?:['’]?s|\s+is)\s+running|(?:list|show)(?:\s+me)?\s+(?:my\s+|the\s+)?processes"),
        "process",
        lambda found: {"action": "list"},
        _render_processes,
    ),
    (
        _phrase(r"(?:stop|kill|end)\s+(?:process\s+)?(?P<id>proc_\w{1,40})"),
        "process",
        lambda found: {"action": "kill", "session_id": found["id"]},
        lambda result: "{session_id} has ended (exit code {exit_code}).".format_map(result),
    ),
    (
        _phrase(r"remember\s+(?:that\s+)?(?P<value>.+?)"),
        "memory",
        lambda found: {"action": "set", "key": _name_fact(found["value"]), "value": found["value"]},
        lambda result: "Saved as {saved} (visible: {visible}).".format_map(result),
    ),
    (
        _phrase(r"what\s+do\s+you\s+(?:know|remember)(?:\s+about\s+(?:me|us))?"),
        "memory",
        lambda found: {"action": "list"},
        _render_memories,
    ),
    (
        _phrase(r"what\s+do\s+you\s+(?:know|remember)\s+about\s+(?P<query>.+?)"),
        "memory",
        lambda found: {"action": "search", "query": found["query"]},
        _render_memories,
    ),
    (
        _phrase(r"forget\s+(?:that\s+)?(?P<value>.+?)"),
        "memory",
        lambda found: {"action": "delete", "key": _name_fact(found["value"])},
        lambda result: "Forgotten: {deleted}.".format_map(result),
    ),
    (
        _phrase(
            r"(?P<schedule>every\s+(?:(?:\d+\s*)?(?:minute|min|hour|day|week)s?|weekday|(?:mon|tues|wednes|thurs|fri|satur|"
            r"sun)day)(?:\s+at\s+\d{1,2}:\d{2})?),?\s+(?P<prompt>.+?)"
        ),
        "cronjob",
        lambda found: {"action": "create", "schedule": found["schedule"], "prompt": found["prompt"]},
        _render_job,
    ),
    (
        _phrase(
            r"remind\s+(?P<whom>me|us)\s+(?P<schedule>(?:in\s+\d{1,5}\s*(?:second|sec|minute|min|hour|day|week)s?"
            r"|at\s+\d{1,2}:\d{2}))\s+(?:to|that|about)\s+(?P<prompt>.+?)"
        ),
        "cronjob",
        lambda found: {
            "action": "create",
            "schedule": found["schedule"],
            "prompt": f"Remind {found['whom']} to {found['prompt']}",
        },
        _render_job,
    ),
    (
        _phrase(r"what(?:['’]?s|\s+is)\s+scheduled|(?:list|show)(?:\s+me)?\s+(?:my\s+|the\s+)?(?:cron\s+)?jobs"),
        "cronjob",
        lambda found: {"action": "list"},
        _render_jobs,
    ),
    (
        _phrase(r"(?P<action>pause|resume|remove)\s+(?:the\s+)?job\s+[\"“]?(?P<name>[^\"”\n]{1,60}?)[\"”]?"),
        "cronjob",
        lambda found: {"action": found["action"].lower(), "name": found["name"]},
        None,
    ),
)


def _take(done: list[Message], tool: str) -> Message | None:
    """Remove and return the first result of that tool: calls are made in the order of the requests."""
    result = next((message for message in done if message.tool_name == tool), None)
    if result:
        done.remove(result)
    return result


def _render_result(request: Request, result: Message) -> str:
    if request.render and not result.is_error:
        with suppress(ValueError, KeyError, TypeError):  # another tool of the same name
            return request.render(json.loads(result.text))
    return f"{request.tool} returned: {_shorten(error_of(result) if result.is_error else result.text)}"


def _explain_missing(tool: str, available: Sequence[str]) -> str:
    if tool not in (known.name for known in load_builtin()):
        there_is = f" There is{_offer(available, lead='')}." if available else ""
        return f"I cannot do that in this version: there is no tool {tool}.{there_is}"
    there_is = _offer(available, lead="; there is")
    return f"I need the tool {tool} for that, and it is not switched on{there_is}."


def _offer(available: Sequence[str], *, lead: str = ":") -> str:
    return f"{lead} {', '.join(available)}" if available else ""


def _without_author(text: str) -> str:
    """Remove the speaker in front: “Felix: hello”, “[Felix] hello”, “@hermes hello”."""
    return re.sub(r"^\s*(?:\[[^\]\n]{1,60}\]:?|@\w+[:,]?|[^:\n]{1,60}:)\s+", "", text, count=1).strip()


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_RESULT_CHARS else text[:MAX_RESULT_CHARS] + "…"
