"""Reads the Markdown that models write into blocks; what stands inside a line is `inline`'s business.

A line break stays a line break, as in a chat. Nothing raises: what is not understood is text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gateway.platforms.text import FENCE, closes_fence, opens_fence, tidy

Align = Literal["left", "center", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Lines that are read together, so that emphasis may span them; a blank line is prose without a source."""

    source: str
    prefix: str = ""  # indentation and bullet, shown as they are
    level: int = 0  # of a heading
    literal: bool = False  # displayed mathematics: not to be read any further


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    blocks: tuple["Block", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    header: tuple[str, ...]
    aligns: tuple[Align, ...]
    rows: tuple[tuple[str, ...], ...]  # of any length: models miscount


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    pass


Block = Prose | Code | Quote | Table | Rule

_MARKUP = re.compile(r"[*_`~\[<>\\#|]|^[ \t]*[-+]", re.MULTILINE)
_ITEM = re.compile(r"([ \t]*+)([-*+]|\d{1,9}[.)])[ \t]++(?=\S)")
_RULE = re.compile(r"[ \t]*+([-*_])(?:[ \t]*+\1){2,}[ \t]*+$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]++(?=\S)")
_QUOTE = re.compile(r"[ \t]*+(?:>[ \t]?)+")
_CELL = re.compile(r"(?:[^|`\\]|`[^`]*+`|\\.|[`\\])*")
_MATH = {"$$": "$$", "\\[": "\\]"}
_MATH_LINES = 60  # longer than any formula; without a bound, openings that never close would cost the square


def has_markup(text: str) -> bool:
    """False promises that the text reads as itself."""
    return _MARKUP.search(text) is not None


def read(markdown: str) -> list[Block]:
    return _Reader(tidy(markdown).split("\n")).read()


class _Reader:
    """Each `_take` looks at the line at an index and returns the index after what it took, or the same index."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._blocks: list[Block] = []
        self._prose: list[str] = []
        self._prefix = ""

    def read(self) -> list[Block]:
        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            take = _TAKES.get(line.lstrip()[:1])
            after = take(self, at) if take else at
            if after == at and "|" in line:
                after = self._take_table(at)
            if after == at:
                self._prose.append(line)
                after = at + 1
            at = after
        self._end_prose()
        return self._blocks

    def _end_prose(self) -> None:
        if self._prose:
            self._blocks.append(Prose(prefix=self._prefix, source="\n".join(self._prose)))
            self._prose, self._prefix = [], ""

    def _add(self, block: Block) -> None:
        self._end_prose()
        self._blocks.append(block)

    def _take_blank(self, at: int) -> int:
        self._add(Prose(source=""))
        return at + 1

    def _take_heading(self, at: int) -> int:
        line = self._lines[at]
        match = _HEADING.match(line)
        if not match:
            return at
        title = line[match.end() :].rstrip()
        bare = title.rstrip("#")  # "## Title ##", but not "# C#"
        title = bare.rstrip() if bare[-1:].isspace() else title
        self._add(Prose(source=title, level=len(match[1])))
        return at + 1

    def _take_fence(self, at: int) -> int:
        opened = FENCE.match(self._lines[at])
        if not opened or not opens_fence(opened):
            return at
        indent = len(opened["lead"])
        body: list[str] = []
        for after in range(at + 1, len(self._lines)):
            line = self._lines[after]
            closing = FENCE.match(line)
            if closing and closes_fence(opened, closing):
                after += 1
                break
            body.append(line[indent:] if not line[:indent].strip() else line.lstrip())
        else:
            after = len(self._lines)
        words = opened["info"].strip("{}. \t").split(None, 1)
        text = "\n".join(body).rstrip()
        if text:
            self._add(Code(text=text, language=words[0] if words else ""))
        else:
            self._end_prose()
        return after

    def _take_quote(self, at: int) -> int:
        inner: list[str] = []
        while at < len(self._lines) and (match := _QUOTE.match(self._lines[at])):
            inner.append(self._lines[at][match.end() :])
            at += 1
        while inner and not inner[-1].strip():
            inner.pop()
        if inner:  # quotes within are flattened by now, so this goes one level deep
            self._add(Quote(blocks=tuple(_Reader(inner).read())))
        else:
            self._add(Prose(source=""))
        return at

    def _take_rule_or_item(self, at: int) -> int:
        if _RULE.match(self._lines[at]):
            self._add(Rule())
            return at + 1
        return self._take_item(at)

    def _take_item(self, at: int) -> int:
        line = self._lines[at]
        match = _ITEM.match(line)
        if not match:
            return at
        self._end_prose()
        bullet = match[2] if match[2][-1] in ".)" else "•"
        rest = line[match.end() :]
        if rest.startswith(("```", "~~~")) and (after := self._take_fence(at)) > at:
            code = self._blocks.pop() if self._blocks and isinstance(self._blocks[-1], Code) else None
            self._blocks.append(Prose(prefix=match[1] + bullet, source=""))
            self._blocks.extend([code] if code else [])
            return after
        self._prefix = f"{match[1]}{bullet} "
        self._prose.append(rest)
        return at + 1

    def _take_math(self, at: int) -> int:
        line = self._lines[at].strip()
        closing = _MATH.get(line[:2])
        if not closing or closing in line[2:]:
            return at
        for after in range(at + 1, min(len(self._lines), at + _MATH_LINES)):
            if closing in self._lines[after]:
                self._add(Prose(source="\n".join(self._lines[at : after + 1]), literal=True))
                return after + 1
        return at

    def _take_table(self, at: int) -> int:
        if at + 1 == len(self._lines) or not (aligns := _aligns(self._lines[at + 1])):
            return at
        header = _cells(self._lines[at])
        if len(header) < len(aligns):
            return at
        rows = []
        after = at + 2
        while after < len(self._lines) and "|" in self._lines[after]:
            rows.append(_cells(self._lines[after]))
            after += 1
        self._add(Table(header=header, aligns=aligns, rows=tuple(rows)))
        return after


def _aligns(line: str) -> tuple[Align, ...]:
    """Of the columns, if this is the line between a table's header and its rows."""
    if "-" not in line or "|" not in line or line.strip("|:- \t"):
        return ()
    cells = _cells(line)
    if not all(cell.strip(":") and not cell.strip(":").strip("-") for cell in cells):
        return ()
    return tuple(_align(cell) for cell in cells)


def _align(cell: str) -> Align:
    if cell[-1] != ":":
        return "left"
    return "center" if cell[0] == ":" else "right"


def _cells(line: str) -> tuple[str, ...]:
    line = line.strip()
    line = line[1:] if line[:1] == "|" else line
    cells = []
    at = 0
    while at <= len(line):
        match = _CELL.match(line, at)
        end = match.end() if match else at
        cells.append(line[at:end].strip().replace("\\|", "|"))
        at = end + 1
    return tuple(cells[:-1] if len(cells) > 1 and not cells[-1] else cells)


_TAKES: dict[str, Callable[[_Reader, int], int]] = {
    "": _Reader._take_blank,
    "#": _Reader._take_heading,
    ">": _Reader._take_quote,
    "-": _Reader._take_rule_or_item,
    "*": _Reader._take_rule_or_item,
    "_": _Reader._take_rule_or_item,
    "+": _Reader._take_item,
    "`": _Reader._take_fence,
    "~": _Reader._take_fence,
    "$": _Reader._take_math,
    "\\": _Reader._take_math,
    **dict.fromkeys("0123456789", _Reader._take_item),
}
