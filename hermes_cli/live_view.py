"""Show a turn in the terminal while it happens: finished paragraphs above, what is still moving below.

Text is rendered as Markdown a block at a time, so a block is written once and never redrawn. A tool call ends as one
line with the beginning of its result; `unfold` shows the rest.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from textwrap import wrap
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from agent_core.conversation import Message, ToolCall
from agent_core.events import (
    Event,
    ReasoningDelta,
    Restarted,
    TextDelta,
    ToolFinished,
    ToolReported,
    ToolStarted,
    Usage,
)
from tools.ansi import plain

Write = Callable[[str], None]
Skin = str

CODE_THEMES: dict[Skin, str] = {"auto": "ansi_dark", "dark": "ansi_dark", "light": "ansi_light", "mono": "bw"}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 10
_FOLDED_LINES = 3
_FOLDED_DIFF_LINES = 12
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_MAX_UNFOLDED_CHARS = 20_000
_FENCES = ("```", "~~~")
_THEME = Theme({"markdown.code": "bold cyan"})  # rich's own has a black background, also in a light terminal


@dataclass(slots=True, kw_only=True)
class LiveView:
    """Shows the events of one turn after another. `write` puts lines above the input, for good."""

    write: Write
    width: Callable[[], int]
    clean: Callable[[str], str]  # hides secrets
    skin: Skin = "auto"
    color: bool = True
    usage: Usage = field(default_factory=Usage)
    _text: str = ""  # of the current reply, not yet written
    _written: str = ""  # of the current reply
    _running: dict[str, tuple[ToolCall, float]] = field(default_factory=dict)
    _reported: dict[str, str] = field(default_factory=dict)
    _last_result: str = ""
    _doing: str = ""
    _began: float = 0.0

    def begin(self) -> None:
        self._doing, self._began = "thinking", time.monotonic()

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._doing = "writing"
                self._text += text
                if "\n" in text:
                    self._write_finished_blocks()
            case ReasoningDelta():
                self._doing = "reasoning"
            case Restarted():
                if self._written:
                    self.note("(the model begins its answer again)")
                self._text = self._written = ""
            case ToolStarted(call=call):
                self._flush()
                self._running[call.id] = call, time.monotonic()
            case ToolFinished(call=call, result=result, seconds=seconds):
                self._running.pop(call.id, None)
                self._doing = "thinking"
                self._show_result(call, result, seconds)
            case ToolReported(call=call, line=line):
                self._reported[call.id] = f": {self._sanitize(line)}"
            case Usage():
                self.usage = self.usage.plus(event)
            case _:
                pass

    def end(self, answer: str) -> None:
        """Write what of the answer was not streamed, and forget the turn."""
        self._flush()
        streamed = self._written
        if not streamed or not answer.startswith(streamed.strip()):
            self._print_markdown(answer)
        elif rest := answer[len(streamed.strip()) :].strip():
            self._print_markdown(rest)
        self.discard()

    def discard(self) -> None:
        """Forget the turn: it was stopped, or it failed."""
        self._flush()
        self._running.clear()
        self._reported.clear()
        self._doing = self._written = ""

    def note(self, text: str, style: str = "dim") -> None:
        """Write a few lines of our own, wrapped."""
        self._print(Text(plain(text), style=style))

    def echo(self, text: str) -> None:
        """Write what the user has sent."""
        self._print(Text("> " + text.replace("\n", "\n  "), style="bold"))
        self.write("\n")

    def ask(self, lines: Sequence[str]) -> None:
        """Write a question, whose first line is its heading."""
        self._print(Text(lines[0], style="bold magenta"))
        self.write("\n".join(lines[1:]) + "\n")

    def unfold(self) -> None:
        """Write the whole result of the last tool call."""
        self.note(self._last_result[:_MAX_UNFOLDED_CHARS] or "No tool has run yet.")

    def render(self, max_lines: int) -> str:
        """Return the lines that are still moving: unfinished text, running tools, and what is being done."""
        if not self._doing:
            return ""
        now = time.monotonic()
        frame = _SPINNER[int(now * _FRAMES_PER_SECOND) % len(_SPINNER)]
        text = self._text
        if text.startswith(_FENCES):  # a file may be written here: drawing all of it ten times a second is too much
            first, *rest = text.splitlines(keepends=True)
            text = "".join((first, *rest[-max_lines:]))
        unfinished = self._draw(self._markdown(text)).splitlines()
        lines = [
            f"{frame} {self._sanitize(summarize_call(call))}{self._reported.get(call.id, '')} ({now - began:.0f} s)"
            for call, began in self._running.values()
        ]
        if not lines:
            lines = [f"{frame} {self._doing} ({now - self._began:.0f} s, Ctrl-C stops)"]
        status = self._draw(*(Text(line, style="cyan", no_wrap=True, overflow="ellipsis") for line in lines))
        return "\n".join([*(unfinished if self._text.strip() else [])[-max(max_lines - len(lines), 1) :], status])

    def _write_finished_blocks(self) -> None:
        cut = _end_of_finished(self._text)
        if cut:
            block, self._text = self._text[:cut], self._text[cut:]
            self._written += block
            self._print_markdown(block)

    def _flush(self) -> None:
        self._written += self._text
        if self._text.strip():
            self._print_markdown(self._text)
        self._text = ""

    def _show_result(self, call: ToolCall, result: Message, seconds: float) -> None:
        lines, failed = read_result(result.text)
        self._last_result = self._sanitize("\n".join(lines))
        is_diff = bool(re.match(r"--- .*\n\+\+\+ ", self._last_result))
        full = [line for line in self._last_result.splitlines() if line.strip()][2 if is_diff else 0 :]
        if failed:  # the reason must be readable to its end
            full = [piece for line in full for piece in wrap(line, max(self.width() - 2, 20))]
        limit = _FOLDED_DIFF_LINES if is_diff else _FOLDED_LINES
        shown = full if len(full) == limit + 1 else full[:limit]  # a line is as long as saying that it is left out
        head = (
            Text("✗ " if failed else "● ", style="red" if failed else "green")
            .append(self._sanitize(summarize_call(call)), style="bold")
            .append(f"  {seconds:.1f} s", style="dim")
        )
        head.no_wrap, head.overflow = True, "ellipsis"
        body = [Text("  ").append(line, style=_DIFF_STYLES.get(line[0], "dim") if is_diff else "dim") for line in shown]
        for line in body:
            line.no_wrap, line.overflow = True, "ellipsis"
        if len(full) > len(shown):
            body.append(Text(f"  … {len(full) - len(shown)} more lines (Ctrl-O shows them)", style="dim"))
        self._print(head, *body)
        self.write("\n")

    def _sanitize(self, text: str) -> str:
        """Hide secrets, and drop what a terminal would obey: pages and files can hold such sequences."""
        return self.clean(plain(text))

    def _print_markdown(self, text: str) -> None:
        if text.strip():
            self.write(self._draw(self._markdown(text)).strip("\n") + "\n\n")

    def _markdown(self, text: str) -> Markdown:
        return _ChatMarkdown(self._sanitize(text), code_theme=CODE_THEMES[self.skin], hyperlinks=False)

    def _print(self, *things: RenderableType) -> None:
        self.write(self._draw(*things) + "\n")

    def _draw(self, *things: RenderableType) -> str:
        out = StringIO()
        console = Console(
            file=out,
            force_terminal=True,
            width=max(self.width(), 20),
            color_system="standard" if self.color and self.skin != "mono" else None,
            highlight=False,
            theme=_THEME,
            legacy_windows=False,
        )
        for thing in things:
            # Said again here: rich joins texts before it draws them, and forgets how each was to be cut.
            cut = (thing.no_wrap, thing.overflow) if isinstance(thing, Text) else (None, None)
            console.print(thing, no_wrap=cut[0], overflow=cut[1])
        # Without the spaces up to the margin: in a window that is made narrower they would fill lines.
        return "\n".join(line.rstrip(" ") for line in out.getvalue().rstrip("\n").split("\n"))


class _ChatMarkdown(Markdown):
    """Markdown as chats show it: each line break counts, headings begin at the left, and no block has blank edges."""

    def __init__(self, text: str, **more: Any) -> None:
        super().__init__(text, **more)
        for token in (child for block in self.parsed for child in block.children or ()):
            token.type = "hardbreak" if token.type == "softbreak" else token.type

    class _Heading(Heading):
        LEVEL_ALIGN: ClassVar = {}

    class _Code(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))

    class _Table(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                assert isinstance(table, Table)
                table.show_edge = False
                yield table

    class _Item(ListItem):
        def render_number(
            self, console: Console, options: ConsoleOptions, number: int, last_number: int
        ) -> RenderResult:
            width, style = len(f"{last_number}. "), console.get_style("markdown.item.number")
            lines = console.render_lines(self.elements, options.update(width=options.max_width - width))
            for index, line in enumerate(lines):
                yield Segment(" " * width if index else f"{number}. ".rjust(width), style)
                yield from (*line, Segment("\n"))

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "list_item_open": _Item,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }


def _end_of_finished(text: str) -> int:
    """Return where the last finished block ends: before or after a code fence, or at a blank line; 0 if nowhere."""
    fence, position, end = "", 0, 0
    for line in text.splitlines(keepends=True):
        begin, position = position, position + len(line)
        stripped = line.strip()
        if fence:
            if stripped.startswith(fence) and line.endswith("\n"):
                fence, end = "", position
        elif stripped.startswith(_FENCES):
            fence = stripped[:3]
            if line.startswith(_FENCES):  # not in a list
                end = begin
        elif not stripped and line.endswith("\n"):
            end = position
    return end


def summarize_call(call: ToolCall) -> str:
    """Return a tool call on one line: its name and the argument that says most."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = {}
    values = [value for value in arguments.values() if isinstance(value, str)] if isinstance(arguments, dict) else []
    return f"{call.name} {' '.join(values[0].split())[:200]}" if values else call.name


def read_result(text: str) -> tuple[list[str], bool]:
    """Return the lines of a result, and whether it reports a failure. Of JSON with output, only the output counts."""
    try:
        found = json.loads(text)
    except ValueError:
        return text.splitlines(), False
    if not isinstance(found, dict):
        return text.splitlines(), False
    failed = bool(found.get("error")) or found.get("exit_code") not in (0, None)
    texts = [str(found[name]) for name in ("error", "output", "content", "diff") if found.get(name)]
    if not texts and "output" in found:
        texts = ["(no output)"]
    if found.get("exit_code"):
        texts.append(f"exit code {found['exit_code']}")
    texts = texts or [
        line for name, value in found.items() if name != "success" for line in _describe_value(name, value)
    ]
    return "\n".join(texts).splitlines(), failed


def _describe_value(name: str, value: object) -> Iterator[str]:
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for one in value:
            yield ": ".join(str(detail) for detail in one.values())
    else:
        yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
