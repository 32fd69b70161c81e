"""The input line of the terminal chat: keys, history, completion of commands and files, and large pastes."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from gateway.commands.registry import CommandSpec

_LONG_PASTE_LINES = 10
_MAX_SHOWN_CHARS = 28  # of a command with its arguments: the longest of them leaves its width to all descriptions
_WORDS_OF_HINT = re.compile(r"[a-z][a-z-]*")
_PATH = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))')


def find_files(text: str) -> list[Path]:
    """Return the files that a message names as @path or @"path with spaces"; other words with an @ are just words."""
    found = [name for quoted, plain in _PATH.findall(text) for name in (quoted, plain, plain.rstrip(",.;:!?)")) if name]
    paths = dict.fromkeys(Path(name).expanduser() for name in found)
    return [path for path in paths if path.is_file()]


@dataclass(slots=True, kw_only=True)
class ChatCompleter(Completer):
    """Completes commands with their descriptions, the fixed words of their arguments, and files behind an @."""

    commands: Sequence[CommandSpec]
    arguments: Callable[[str], Iterable[str]] = lambda name: ()  # of a command, as far as only the program knows them
    _paths: PathCompleter = field(default_factory=lambda: PathCompleter(expanduser=True))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        word = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
        if word.startswith("@"):
            part = word[1:].lstrip('"')
            yield from self._paths.get_completions(Document(part), complete_event)
        elif before.startswith("/") and "\n" not in before:
            name, space, _ = before[1:].partition(" ")
            yield from self._complete_argument(name, word) if space else self._complete_name(name)

    def _complete_name(self, typed: str) -> Iterator[Completion]:
        for spec in self.commands:
            for name in (spec.name, *spec.aliases):
                if name.startswith(typed.lower()):
                    shown = f"/{name} {spec.argument_hint}".rstrip()
                    if len(shown) > _MAX_SHOWN_CHARS:
                        shown = f"{shown[: _MAX_SHOWN_CHARS - 1]}…"
                    yield Completion(name, -len(typed), display=shown, display_meta=spec.description)
                    break

    def _complete_argument(self, name: str, typed: str) -> Iterator[Completion]:
        spec = next((one for one in self.commands if name in (one.name, *one.aliases)), None)
        if spec is not None:
            fixed = _WORDS_OF_HINT.findall(spec.argument_hint) if "|" in spec.argument_hint else ()
            for word in dict.fromkeys((*self.arguments(spec.name), *fixed)):
                if word.startswith(typed):
                    yield Completion(word, -len(typed))


@dataclass(slots=True)
class Pastes:
    """Keeps large pastes aside, so that the input line stays readable; `expand` puts them back."""

    _texts: dict[str, str] = field(default_factory=dict)

    def fold(self, text: str) -> str:
        lines = len(text.splitlines())
        if lines <= _LONG_PASTE_LINES:
            return text
        label = f"[pasted text {len(self._texts) + 1}: {lines} lines]"
        self._texts[label] = text
        return label

    def expand(self, text: str) -> str:
        for label, pasted in self._texts.items():
            text = text.replace(label, pasted)
        return text


class RawTerminalInput(Vt100Input):
    """Keys of a terminal that stays in raw mode while text is written above the input line.

    In its usual mode, into which prompt_toolkit would switch meanwhile, Enter arrives as Ctrl-J, which begins a new
    line instead of sending, and keys are echoed into the text.
    """

    def cooked_mode(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def open_history(path: Path) -> FileHistory:
    """Return the history of the input line, in a file that only its owner can read."""
    path.touch(mode=0o600, exist_ok=True)
    return FileHistory(str(path))


def bind_keys(*, interrupt: Callable[[Buffer], None], unfold: Callable[[], None], pastes: Pastes) -> KeyBindings:
    """Enter sends, Alt-Enter or Ctrl-J begins a new line, Ctrl-C stops, Ctrl-O unfolds."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None  # Enter takes the chosen completion, another Enter sends
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    @keys.add("<sigint>")  # sent by another program, such as `kill -INT`
    def stop(event: KeyPressEvent) -> None:
        interrupt(event.current_buffer)

    @keys.add("c-o")
    def show_result(event: KeyPressEvent) -> None:
        unfold()

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(pastes.fold(text))

    return keys
