"""Expand the words of a command: quotes gone, braces, variables and outputs put in where they are known.

A word is a plain string. What only the run decides is the one character `UNKNOWN` in it, and a character of a pattern
that is not quoted has `GLOB` before it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tools.shell_guard.syntax import Channel, CommandSubstitution, LiteralText, Opaque, Script, Variable, Word

UNKNOWN = "\x00"
GLOB = "\x01"
EVERYTHING = "*"  # among names that are not sure: all of them
CHANNEL = "/dev/fd/"  # where bash puts what `<(…)` prints
MAX_WORDS = 64  # that the braces of one word may become
MAX_CHARS = 20_000  # of one word: variables can double it again and again

_OPEN, _COMMA, _CLOSE, _SPLIT = "\x02", "\x03", "\x04", "\x05"
_MARKS = re.compile(r"[\x00-\x05]")
_UNQUOTED = re.compile(r"\\(.)|([*?\[])|([{,}])|(\\)$", re.DOTALL)
_BRACES = str.maketrans({"{": _OPEN, ",": _COMMA, "}": _CLOSE})
_LITERAL_BRACES = str.maketrans({_OPEN: "{", _COMMA: ",", _CLOSE: "}"})
_SPECIAL = re.compile(r"[\\*?\[{},~\x00-\x05]")
_HOME = re.compile(r"~(?:/|$)")
_HOME_OF_VALUE = re.compile(r"[\w-]+=(~)(?:/|$)")
_PATTERN = re.compile(r"([*?\[])")
_BLANKS = re.compile(r"[ \t\n]+")
_INNERMOST = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


@dataclass(slots=True)
class Scope:
    """The variables at one place of a script. What was not set by the script itself is not known."""

    home: str = "~"
    variables: dict[str, str] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()  # names that loops, functions or builtins set

    def value(self, name: str) -> str:
        """Empty counts as unknown: `${x:=…}` may have filled it."""
        if name in self.unsure or EVERYTHING in self.unsure:
            return UNKNOWN
        given = {"HOME": self.home, "IFS": " \t\n"}
        return self.variables.get(name) or given.get(name, UNKNOWN)

    @property
    def splits_as_usual(self) -> bool:
        return "IFS" not in self.variables and not {"IFS", EVERYTHING} & self.unsure

    def copy(self) -> "Scope":
        return Scope(self.home, dict(self.variables), self.unsure)

    def forget_changes_of(self, other: "Scope") -> None:
        """After a branch that may or may not have run."""
        for name, value in other.variables.items():
            if self.variables.get(name) != value:
                self.variables[name] = UNKNOWN


def shown(word: str) -> str:
    """For people: what only the run decides is an ellipsis."""
    return word.replace(GLOB, "").replace(UNKNOWN, "…")


def fields(word: Word, scope: Scope, output_of: Callable[[Script], str]) -> list[str]:
    """The words that a word becomes: none, one or several."""
    if len(word) == 1 and isinstance(word[0], LiteralText) and (text := word[0].text) and not _SPECIAL.search(text):
        return [text] if len(text) <= MAX_CHARS else [UNKNOWN]  # as most are
    marked = _all_marked(word, scope, output_of)
    is_quoted = any(isinstance(piece, LiteralText) and piece.is_quoted for piece in word)
    found: list[str] = []
    for expanded in _braces(marked):
        parts = expanded.split(_SPLIT)
        found += [part for part in parts if part or (is_quoted and len(parts) == 1)]
    return found


def joined(word: Word, scope: Scope, output_of: Callable[[Script], str]) -> str:
    """As the value of an assignment or the target of a redirection: one word, whatever is in it."""
    marked = _all_marked(word, scope, output_of)
    return marked.replace(_SPLIT, " ").replace(GLOB, "").translate(_LITERAL_BRACES)


def _all_marked(word: Word, scope: Scope, output_of: Callable[[Script], str]) -> str:
    marked = "".join(_marked(word, scope, output_of))
    return marked if len(marked) <= MAX_CHARS else UNKNOWN


def _marked(word: Word, scope: Scope, output_of: Callable[[Script], str]) -> Iterator[str]:
    for place, piece in enumerate(word):
        match piece:
            case LiteralText(text, is_quoted=True):
                yield _MARKS.sub("?", text)
            case LiteralText(text):
                yield _unquoted(text, scope.value("HOME"), is_first=not place)
            case Variable(name, is_quoted):
                yield _value(scope.value(name), scope, is_quoted=is_quoted)
            case CommandSubstitution(script, is_quoted):
                yield _value(output_of(script), scope, is_quoted=is_quoted)
            case Channel(script):
                output_of(script)
                yield CHANNEL + UNKNOWN
            case Opaque(scripts):
                for script in scripts:
                    output_of(script)
                yield UNKNOWN


def _unquoted(text: str, home: str, *, is_first: bool) -> str:
    if not _SPECIAL.search(text):
        return text
    if is_first and _HOME.match(text):
        text = home + text[1:]
    elif found := _HOME_OF_VALUE.match(text):
        text = text[: found.start(1)] + home + text[found.end(1) :]

    def mark(found: re.Match[str]) -> str:
        escaped, pattern, brace, _ = found.groups()
        return escaped or (GLOB + pattern if pattern else brace.translate(_BRACES) if brace else "")

    return _UNQUOTED.sub(mark, text)


def _value(value: str, scope: Scope, *, is_quoted: bool) -> str:
    if is_quoted:
        return value
    if not scope.splits_as_usual:
        return UNKNOWN
    return _PATTERN.sub(GLOB + r"\1", _BLANKS.sub(_SPLIT, value))


def _braces(marked: str) -> list[str]:
    if _OPEN not in marked:
        return [marked.translate(_LITERAL_BRACES)]
    if marked.count(_OPEN) > MAX_WORDS:
        return [UNKNOWN]
    waiting, done = [marked], list[str]()
    while waiting:
        word = waiting.pop(0)
        found = _INNERMOST.search(word)
        if found is None:
            done.append(word.translate(_LITERAL_BRACES))
        elif len(waiting) + len(done) > MAX_WORDS:
            return [UNKNOWN]
        else:
            before, after = word[: found.start()], word[found.end() :]
            waiting[:0] = [before + option + after for option in _options(found[1])]
    return list(dict.fromkeys(done))  # those of nested braces come once for each way to them


def _options(inside: str) -> list[str]:
    if _COMMA in inside:
        return inside.split(_COMMA)
    return [UNKNOWN] if re.fullmatch(r"\w+\.\.\w+(?:\.\.\w+)?", inside) else ["{" + inside + "}"]
