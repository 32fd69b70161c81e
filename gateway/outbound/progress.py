"""Renders the draft of a running turn: a line about what it is doing, and the answer so far. Pure."""

import json
from collections import deque

from agent_core.conversation import ToolCall
from agent_core.events import Event, Restarted, TextDelta, ToolFinished, ToolStarted, ToolWaiting
from gateway.messages import ToolProgressMode

_MAX_LINE_CHARS = 80
_VERBOSE_LINES = 5
_SIGNS = {
    "terminal": "💻",
    "process": "💻",
    "web_search": "🔍",
    "web_extract": "🔍",
    "session_search": "🔍",
    "file_read": "📄",
    "file_write": "📝",
    "file_patch": "📝",
    "file_search": "🔎",
    "todo": "☑️",
    "memory": "🧠",
    "delegate_task": "👥",
    "image_generate": "🎨",
    "text_to_speech": "🔊",
}
_SHOWN_ALONE = ("terminal",)  # what it does says it all
_CUT = "…"
_MARKS_UNITS = 20  # what is put between the line and the text, and a fence opened again
_THINKING, _WRITING = "💭 Thinking…", "✍️ Writing…"


def draft_markdown(head: str, text: str, max_units: int) -> str:
    """Return the Markdown of a draft: what the turn is doing, then the end of the answer so far."""
    room = max_units - _units(head) - _MARKS_UNITS
    if _units(text) <= room:
        return f"{head}\n\n{text}".strip()
    start = _find_tail_start(text, room)
    line_end = text.find("\n", start)
    start = line_end + 1 if 0 <= line_end < start + (len(text) - start) // 2 else start
    # Cut inside a code block, the rest would render as prose and the prose after it as code.
    fence = "```\n" if text.count("```", 0, start) % 2 else ""
    return f"{head}\n\n{_CUT}\n{fence}{text[start:]}"


def _find_tail_start(text: str, max_units: int) -> int:
    """Return where the last `max_units` units of a text begin."""
    start = max(len(text) - max_units, 0)
    while _units(text[start:]) > max_units:
        start += max((_units(text[start:]) - max_units) // 2, 1)
    return start


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class DraftContent:
    """The content of one draft, built up from the events of its turn."""

    def __init__(self, mode: ToolProgressMode) -> None:
        self._mode = mode
        self._text: list[str] = []
        self._lines: deque[str] = deque(maxlen=_VERBOSE_LINES)
        self._tool = ""  # the last one shown
        self._is_writing = False
        self.is_waiting = False  # for a person
        self.version = 0  # grows with every change

    def take(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._text.append(event.text)
                self._is_writing = True
            case Restarted():
                self._text.clear()
                self._is_writing = False
            case ToolStarted(call=call):
                # Text before a tool call is not part of the answer that follows it.
                self._text.clear()
                self._is_writing = False
                self._add_line(call)
            case ToolFinished() if self._mode == "verbose":
                self._lines.append(f"↳ {_describe_result(event)}")
            case ToolWaiting():
                self.is_waiting = event.waits
                return
            case _:
                return
        self.version += 1

    @property
    def head(self) -> str:
        """Return the status line; in verbose mode the last few."""
        if self._mode == "verbose" and self._lines:
            return "\n".join(self._lines)
        if self._is_writing:
            return _WRITING
        return self._lines[-1] if self._lines else _THINKING

    @property
    def text(self) -> str:
        if len(self._text) > 1:
            self._text = ["".join(self._text)]
        return self._text[0] if self._text else ""

    def _add_line(self, call: ToolCall) -> None:
        if self._mode == "off" or (self._mode == "new" and call.name == self._tool):
            return
        self._tool = call.name
        self._lines.append(describe_call(call))


def describe_call(call: ToolCall) -> str:
    """Return a line such as `💻 ls -la` or `🔍 web_search: cheap flights`."""
    sign, name, detail = _SIGNS.get(call.name, "🔧"), _plain(call.name), _plain(_find_detail(call.arguments))
    if name in _SHOWN_ALONE and detail:
        return f"{sign} `{detail}`"
    return f"{sign} {name}: `{detail}`" if detail else f"{sign} {name}"


def _find_detail(arguments: str) -> str:
    """Return the first text among the arguments, which mostly says what the call is about."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        return ""
    values = given.values() if isinstance(given, dict) else ()
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _describe_result(event: ToolFinished) -> str:
    text = _plain(event.result.text)
    what = f"`{text}`" if text else "nothing"
    return f"{'failed: ' if event.result.is_error else ''}{what} ({event.seconds:.1f} s)"


def _plain(text: str) -> str:
    """Return one short line that is safe between backticks, whatever the model wrote."""
    line = " ".join(text[: 4 * _MAX_LINE_CHARS].replace("`", "'").split())
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"
