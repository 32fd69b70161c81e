"""Reads emphasis, code, links and escapes inside a line of Markdown into text and the spans that mark it.

Emphasis follows CommonMark's delimiter stack (linear in the text), stricter between ASCII letters and digits, where
models write arithmetic and names, and looser beside other scripts, which do without spaces.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

SpanKind = Literal["bold", "italic", "strikethrough", "spoiler", "code", "link"]


class Span(NamedTuple):  # a tuple, since making a frozen dataclass takes four times as long
    kind: SpanKind
    start: int
    end: int
    url: str = ""


class Rich(NamedTuple):
    text: str
    spans: Sequence[Span] = ()  # not empty, properly nested


Linkable = Callable[[str], bool]
"""Whether a platform can put a link to this address under a text; the others are written out behind it."""

# Possessive quantifiers and classes that stop at the next opening keep all of these linear on hostile text.
_SPECIAL = re.compile(r"[*_`~|\[\]!\\$<:]")
_RUN = {char: re.compile(re.escape(char) + "+") for char in "*_~|"}
_MATH = re.compile(r"\$\$[^$]++\$\$|\$(?=[^\s$])(?=[^$\n]*[\\^_{])[^$\n]++(?<!\s)\$(?!\d)")
# No possessive groups in these, only possessive classes: Python before 3.11.4 gets such groups wrong.
_ROUND_MATH = re.compile(r"\\\((?:[^\\\n]|\\(?![()]))*\\\)")
_SQUARE_MATH = re.compile(r"\\\[(?:[^\\]|\\(?![\[\]]))*\\\]")
_FORMULA = re.compile(r"[\\^_{=]")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~\n])")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]*+>")
_AUTOLINK = re.compile(r"<((?:https?|ftp|tg|mailto|tel):[^\s<>]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)>$")
_BARE_ADDRESS = re.compile(r'://[^\s<>`*|\[\]()~"\\]*[^\s<>`*|\[\]()~"\\_]')
_DESTINATION = re.compile(
    r"""\(\s*+ (?: <(?P<angled>[^<>\n]++)> | (?P<bare>(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))+) )
        (?: \s++ (?: "[^"]*+" | '[^']*+' | \([^()]*+\) ) )? \s*+ \)""",
    re.VERBOSE,
)
_TICKS = re.compile("`+")
_MAX_RUN = 8  # longer runs of * or _ are decoration
_AFTER_A_SENTENCE = ":.,;!?)]%\"'…"


def read_inline(source: str, linkable: Linkable) -> Rich:
    if not _SPECIAL.search(source):
        return Rich(source)
    return _Reader(source, linkable).read()


@dataclass(slots=True)
class _Run:
    """A run of delimiters that may yet open or close something; its token keeps what is left of it."""

    token: int
    char: str
    length: int  # as written: CommonMark's rule of three asks for it
    left: int
    opens: bool
    closes: bool


class _Bracket(NamedTuple):
    token: int
    runs: int
    marks: int
    image: bool


class _Reader:
    """The text is a list of tokens; marks are kept between tokens until their lengths are final."""

    def __init__(self, source: str, linkable: Linkable) -> None:
        self._source, self._linkable = source, linkable
        self._tokens: list[str] = []
        self._marks: list[tuple[SpanKind, int, int, str]] = []
        self._runs: list[_Run] = []
        self._brackets: list[_Bracket] = []
        self._images_from = 0  # brackets below this depth can no longer become images: those do not nest
        self._ticks: dict[int, list[int]] | None = None

    def read(self) -> Rich:
        source, at = self._source, 0
        while match := _SPECIAL.search(source, at):
            found = match.start()
            if found > at:
                self._tokens.append(source[at:found])
            at = _TAKES[source[found]](self, found)
        if at < len(source):
            self._tokens.append(source[at:])
        self._pair_runs(0)
        return self._rich()

    def _rich(self) -> Rich:
        offsets = list(accumulate(map(len, self._tokens), initial=0))
        spans = [
            Span(kind, offsets[first], offsets[last], url)
            for kind, first, last, url in self._marks
            if offsets[first] < offsets[last]
        ]
        return Rich("".join(self._tokens), spans)

    # Each takes what begins at an index, if only the one character, and returns the index after it.

    def _take_text(self, at: int, end: int) -> int:
        self._tokens.append(self._source[at:end])
        return end

    def _take_dollar(self, at: int) -> int:
        math = _MATH.match(self._source, at)
        return self._take_text(at, math.end() if math else at + 1)

    def _take_colon(self, at: int) -> int:
        """The underscores of a bare address are its own."""
        address = _BARE_ADDRESS.match(self._source, at)
        return self._take_text(at, address.end() if address else at + 1)

    def _take_backslash(self, at: int) -> int:
        math = _ROUND_MATH.match(self._source, at) or _SQUARE_MATH.match(self._source, at)
        if math and (math[0][1] == "(" or _FORMULA.search(math[0], 2, len(math[0]) - 2)):
            return self._take_text(at, math.end())
        escape = _ESCAPE.match(self._source, at)
        return self._take_text(at + 1 if escape else at, escape.end() if escape else at + 1)

    def _take_less(self, at: int) -> int:
        tag = _TAG.match(self._source, at)
        autolink = _AUTOLINK.match(tag[0]) if tag else None
        if not tag or not autolink:
            return self._take_text(at, tag.end() if tag else at + 1)
        if self._linkable(autolink[1]):
            self._marks.append(("link", len(self._tokens), len(self._tokens) + 1, autolink[1]))
        self._tokens.append(autolink[1])
        return tag.end()

    def _take_ticks(self, at: int) -> int:
        ticks = _TICKS.match(self._source, at)
        end = ticks.end() if ticks else at + 1
        closing = self._closing_ticks(at, end - at)
        if closing < 0:
            return self._take_text(at, end)
        code = self._source[end:closing].replace("\n", " ")
        if code[0] == code[-1] == " " and code.strip():
            code = code[1:-1]
        self._marks.append(("code", len(self._tokens), len(self._tokens) + 1, ""))
        self._tokens.append(code)
        return closing + end - at

    def _closing_ticks(self, at: int, length: int) -> int:
        if self._ticks is None:
            self._ticks = {}
            for run in _TICKS.finditer(self._source):
                self._ticks.setdefault(len(run[0]), []).append(run.start())
        same = self._ticks.get(length, [])
        index = bisect_right(same, at)
        return same[index] if index < len(same) else -1

    def _take_bang(self, at: int) -> int:
        if not self._source.startswith("[", at + 1):
            return self._take_text(at, at + 1)
        return self._take_open(at, image=True)

    def _take_open(self, at: int, *, image: bool = False) -> int:
        self._brackets.append(_Bracket(len(self._tokens), len(self._runs), len(self._marks), image))
        return self._take_text(at, at + 2 if image else at + 1)

    def _take_close(self, at: int) -> int:
        bracket = self._brackets.pop() if self._brackets else None
        depth = len(self._brackets)
        dead = bracket is not None and bracket.image and depth < self._images_from
        self._images_from = min(self._images_from, depth)
        destination = None if bracket is None or dead else _DESTINATION.match(self._source, at + 1)
        if bracket is None or destination is None:
            return self._take_text(at, at + 1)
        self._link(bracket, _ESCAPE.sub(r"\1", destination["angled"] or destination["bare"]))
        if bracket.image:
            self._images_from = depth
        else:
            self._brackets.clear()  # links do not nest
            self._images_from = 0
        return destination.end()

    def _link(self, bracket: _Bracket, url: str) -> None:
        self._pair_runs(bracket.runs)
        self._tokens[bracket.token] = ""
        text = "".join(self._tokens[bracket.token :])
        if not text.strip():
            self._tokens.append(url)
        if self._linkable(url):
            self._marks[bracket.marks :] = [mark for mark in self._marks[bracket.marks :] if mark[0] != "link"]
            self._marks.append(("link", bracket.token, len(self._tokens), url))
        elif text.strip() and text != (shown := url.removeprefix("mailto:")):
            self._tokens.append(f" ({shown})")

    def _take_run(self, at: int) -> int:
        source = self._source
        char = source[at]
        match = _RUN[char].match(source, at)
        end = match.end() if match else at + 1
        length = end - at
        if length <= _MAX_RUN if char in "*_" else length == 2:
            before = source[at - 1] if at else " "
            after = source[end] if end < len(source) else " "
            if char == "_" and after in "(.":  # __init__.py and __init__() go on as names do
                after = "x" if after == "(" else source[end + 1 : end + 2] or "."
            opens, closes = _FLANKS[char](before, after, length)
            if opens or closes:
                self._runs.append(_Run(len(self._tokens), char, length, length, opens, closes))
        return self._take_text(at, end)

    def _pair_runs(self, bottom: int) -> None:
        """Pairs closing with opening runs from `bottom` on; what pairs with nothing stays text."""
        if len(self._runs) < bottom + 2:
            del self._runs[bottom:]
            return
        openers: list[_Run] = []
        hopeless: dict[tuple[str, bool, int], int] = {}  # how many of the openers cannot match such a closer
        for closer in self._runs[bottom:]:
            while closer.closes and closer.left:
                key = (closer.char, closer.opens, closer.length % 3)
                index = _opener(openers, closer, hopeless.get(key, 0))
                if index < 0:
                    hopeless[key] = len(openers)
                    break
                self._pair(openers[index], closer)
                del openers[index + 1 if openers[index].left else index :]
                hopeless = {key: min(count, len(openers)) for key, count in hopeless.items()}
            if closer.opens and closer.left:
                openers.append(closer)
        del self._runs[bottom:]

    def _pair(self, opener: _Run, closer: _Run) -> None:
        used = min(2, opener.left, closer.left)
        for run in (opener, closer):
            run.left -= used
            self._tokens[run.token] = run.char * run.left
        kind = _PAIRS.get(closer.char, "bold" if used == 2 else "italic")
        self._marks.append((kind, opener.token + 1, closer.token, ""))


_TAKES: dict[str, Callable[[_Reader, int], int]] = {
    "$": _Reader._take_dollar,
    ":": _Reader._take_colon,
    "\\": _Reader._take_backslash,
    "<": _Reader._take_less,
    "`": _Reader._take_ticks,
    "!": _Reader._take_bang,
    "[": _Reader._take_open,
    "]": _Reader._take_close,
    **dict.fromkeys(_RUN, _Reader._take_run),
}
_PAIRS: dict[str, SpanKind] = {"~": "strikethrough", "|": "spoiler"}


def _opener(openers: list[_Run], closer: _Run, bottom: int) -> int:
    for index in range(len(openers) - 1, bottom - 1, -1):
        if openers[index].char == closer.char and _match(openers[index], closer):
            return index
    return -1


def _match(opener: _Run, closer: _Run) -> bool:
    """CommonMark's rule of three, by which `**a*b**` is not three emphases."""
    if not (opener.closes or closer.opens) or (opener.length + closer.length) % 3:
        return True
    return opener.length % 3 == 0 and closer.length % 3 == 0


def _is_mark(char: str) -> bool:
    return not char.isalnum() and not char.isspace()


def _ascii_word(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _star(before: str, after: str, length: int) -> tuple[bool, bool]:
    intraword = _ascii_word(before) and _ascii_word(after)  # 2*3*4, x**2 + y**2
    opens = not (after.isspace() or intraword or after in ")],;") and (not _is_mark(after) or not _ascii_word(before))
    closes = not (before.isspace() or before in "([{" or (intraword and length == 1)) and (
        not _is_mark(before) or not _ascii_word(after) or (length > 1 and before in _AFTER_A_SENTENCE)
    )
    return opens, closes


def _underscore(before: str, after: str, _length: int) -> tuple[bool, bool]:
    opens = not (after.isspace() or before.isalnum() or after in ")],;")
    closes = not (before.isspace() or after.isalnum() or before in "([{")
    return opens, closes


def _bar(before: str, after: str, _length: int) -> tuple[bool, bool]:
    opens = not (after.isspace() or _ascii_word(before) or before in ")]")  # (a)||(b) is an expression
    closes = not (before.isspace() or _ascii_word(after) or after in "([")
    return opens, closes


_FLANKS: dict[str, Callable[[str, str, int], tuple[bool, bool]]] = {
    "*": _star,
    "_": _underscore,
    "~": _star,
    "|": _bar,
}
