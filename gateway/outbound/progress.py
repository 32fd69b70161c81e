"""Renders the draft of a running turn: a line about what it is doing, and the answer so far. Pure."""

import json
from collections import deque

from agent_core.conversation import ToolCall
from agent_core.events import Event, Restarted, TextDelta, ToolFinished, ToolReported, ToolStarted, ToolWaiting
from gateway.messages import ToolProgressMode
from gateway.platforms.text import utf16_len

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
    "delegate_batch": "👥",
    "mixture_of_agents": "👥",
    "execute_code": "💻",
    "image_generate": "🎨",
    "text_to_speech": "🔊",
}
_SHOWN_ALONE = ("terminal",)  # what it does says it all
_CUT = "…"
_MARKS_UNITS = 20  # what is put between the line and the text, and a fence opened again
_THINKING, _WRITING = "💭 Thinking…", "✍️ Writing…"


def draft_markdown(head: str, text: str, max_units: int) -> str:
    """Return the Markdown of a draft: what the turn is doing, then the end of the answer so far."""
    room = max_units - utf16_len(head) - _MARKS_UNITS
    if utf16_len(text) <= room:
        return f"{head}\n\n{text}".strip()
    start = max(len(text) - room, 0)
    while (excess := utf16_len(text[start:]) - room) > 0:
        start += max(excess // 2, 1)
    line_end = text.find("\n", start)
    start = line_end + 1 if 0 <= line_end < start + (len(text) - start) // 2 else start
    # Cut inside a code block, the rest would render as prose and the prose after it as code.
    fence = "```\n" if text.count("```", 0, start) % 2 else ""
    return f"{head}\n\n{_CUT}\n{fence}{text[start:]}"


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
                if self._mode != "off" and (self._mode != "new" or call.name != self._tool):
                    self._tool = call.name
                    self._lines.append(describe_call(call))
            case ToolReported() if self._mode != "off":
                self._lines.append(f"{describe_call(event.call, short=True)}: {_plain(event.line)}")
            case ToolFinished() if self._mode == "verbose":
                text = _plain(event.result.text)
                failed = "failed: " if event.result.is_error else ""
                self._lines.append(f"↳ {failed}{f'`{text}`' if text else 'nothing'} ({event.seconds:.1f} s)")
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


def describe_call(call: ToolCall, *, short: bool = False) -> str:
    """Return a line such as `💻 ls -la` or `🔍 web_search: cheap flights`; if `short`, without its arguments."""
    if short:
        return f"{_SIGNS.get(call.name, '🔧')} {_plain(call.name)}"
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError:
        given = None
    values = given.values() if isinstance(given, dict) else ()
    # The first text among the arguments mostly says what the call is about.
    detail = _plain(next((value for value in values if isinstance(value, str) and value.strip()), ""))
    sign, name = _SIGNS.get(call.name, "🔧"), _plain(call.name)
    if name in _SHOWN_ALONE and detail:
        return f"{sign} `{detail}`"
    return f"{sign} {name}: `{detail}`" if detail else f"{sign} {name}"


def _plain(text: str) -> str:
    """Return one short line that is safe between backticks, whatever the model wrote."""
    line = " ".join(text[: 4 * _MAX_LINE_CHARS].replace("`", "'").split())
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"
