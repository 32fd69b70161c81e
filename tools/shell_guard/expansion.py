"""Expand the words of a command: remove quotes, and put in braces and variables where they are known.

A word is a plain string. What only the run decides is the one character `UNKNOWN` in it, and a character of a pattern
that is not quoted has `GLOB` before it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.shell_guard.programs import names
from tools.shell_guard.syntax import LiteralText, Opaque, Script, Simple, Variable, Word

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
_SETTING = names("read mapfile readarray printf getopts let declare typeset local unset wait")
_READING_SCRIPTS = names("eval source . trap")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INNERMOST = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


@dataclass(slots=True)
class Scope:
    """The variables at one place of a script. What was not set by the script itself is not known."""

    home: str = "~"
    variables: dict[str, str] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()  # names that loops, functions or builtins set

    def value(self, name: str) -> str:
        """Return the value of a variable. An empty one counts as unknown: `${x:=…}` may have filled it."""
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
        """Mark as unknown what a branch may have changed that may or may not have run."""
        for name, value in other.variables.items():
            if self.variables.get(name) != value:
                self.variables[name] = UNKNOWN


def render(word: str) -> str:
    """Render a word for people: an ellipsis stands for what only the run decides."""
    return word.replace(GLOB, "").replace(UNKNOWN, "…")


def split_word(word: Word, scope: Scope) -> list[str]:
    """Return the words that a word becomes: none, one or several."""
    if len(word) == 1 and isinstance(word[0], LiteralText) and (text := word[0].text) and not _SPECIAL.search(text):
        return [text] if len(text) <= MAX_CHARS else [UNKNOWN]  # as most are
    marked = _mark_word(word, scope)
    is_quoted = any(isinstance(piece, LiteralText) and piece.is_quoted for piece in word)
    found: list[str] = []
    for expanded in _braces(marked):
        parts = expanded.split(_SPLIT)
        found += [part for part in parts if part or (is_quoted and len(parts) == 1)]
    return found


def join_pieces(word: Word, scope: Scope) -> str:
    """Return one word, as the value of an assignment or the target of a redirection is."""
    marked = _mark_word(word, scope)
    return marked.replace(_SPLIT, " ").replace(GLOB, "").translate(_LITERAL_BRACES)


def scripts_in(word: Word) -> Iterator[Script]:
    """Yield those that run for a word's sake; what they print is never predicted."""
    for piece in word:
        if isinstance(piece, Opaque):
            yield from piece.scripts


def _mark_word(word: Word, scope: Scope) -> str:
    marked = "".join(_mark_pieces(word, scope))
    return marked if len(marked) <= MAX_CHARS else UNKNOWN


def _mark_pieces(word: Word, scope: Scope) -> Iterator[str]:
    for place, piece in enumerate(word):
        match piece:
            case LiteralText(text, is_quoted=True):
                yield _MARKS.sub("?", text)
            case LiteralText(text):
                yield _expand_unquoted(text, scope.value("HOME"), is_first=not place)
            case Variable(name, is_quoted):
                yield _value(scope.value(name), scope, is_quoted=is_quoted)
            case Opaque(_, front):
                yield front + UNKNOWN


def _expand_unquoted(text: str, home: str, *, is_first: bool) -> str:
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


# Which variables of a script cannot be followed.


def names_unsure(script: Script, *, is_repeated: bool = False) -> frozenset[str]:
    """Return the variables that a loop, a function or a builtin sets."""
    found: set[str] = set()
    for statement in script:
        if isinstance(statement, Simple):
            found.update(_set_by(statement, is_repeated=is_repeated))
        else:
            is_inner = is_repeated or statement.kind in ("loop", "function")
            found |= {statement.name} | names_unsure(statement.body, is_repeated=is_inner)
    return frozenset(found)


def _set_by(command: Simple, *, is_repeated: bool) -> Iterator[str]:
    if is_repeated:
        yield from (assignment.name for assignment in command.assignments)
    nothing_known = Scope()
    words = [one for word in command.words for one in split_word(word, nothing_known)]
    if _SETTING & set(words):
        yield from (word for word in words if word.isidentifier())
        if any(word.startswith("-") and "n" in word for word in words) and not {"printf", "read"} & set(words):
            yield EVERYTHING  # one name may stand for another from here on
    if is_repeated and _READING_SCRIPTS & set(words):
        yield EVERYTHING


# Strings such as $'\x41'.


def ansi_c(text: str) -> str:
    """Return the text of a string such as $'\\x41'. A zero byte ends it, and an unknown escape stays, as in bash."""
    return _ESCAPE.sub(_character, text).partition("\0")[0]


def _character(found: re.Match[str]) -> str:
    x, u, long, octal, control, letter = found.groups()
    if control:
        return chr(ord(control.upper()) & 0x1F)
    if letter:
        return _LETTERS.get(letter, letter if letter in "\\'\"?" else f"\\{letter}")
    number = int(octal, 8) & 0xFF if octal else int(x or u or long, 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "?"
