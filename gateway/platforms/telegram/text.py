"""Telegram's flavour of text: the model's Markdown as text with entities, in pieces Telegram accepts."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gateway.platforms.inline import Linkable, read_inline
from gateway.platforms.markdown import Block, Code, Prose, Quote, Rule, Table, has_markup, read
from gateway.platforms.tables import aligned
from gateway.platforms.text import best_cut, reach, resume, tidy, utf16_len, utf16_offsets

EntityKind = Literal["bold", "italic", "strikethrough", "spoiler", "code", "pre", "text_link", "blockquote"]

MAX_UNITS = 4096
MAX_ENTITIES = 100  # the server silently drops what goes beyond

_SOFT: tuple[EntityKind, ...] = ("bold", "italic", "strikethrough", "spoiler")
_IMPORTANCE: tuple[EntityKind, ...] = (
    "pre", "text_link", "code", "spoiler", "blockquote", "bold", "strikethrough", "italic",
)  # fmt: skip
_TABLE_COLUMNS = 40  # about what a phone shows of monospace text without wrapping
_RULE = "———"
# TDLib's check_link: a host without a dot is dropped with its link, and mailto:a@b.c becomes http://mailto:a@b.c.
_LINK = re.compile(
    r"https?://(?:[^\s/?#@]*@)?(?:[^\s/?#:@\[\]]+\.[^\s/?#:@\[\]]+|\[[0-9a-f:.]+\])(?:[:/?#]\S*)?$|tg://\w\S*$", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    kind: EntityKind
    offset: int  # in UTF-16 units, as is the length
    length: int
    url: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    text: str
    entities: tuple[Entity, ...] = ()

    @property
    def plain(self) -> str:
        """Without entities, for when the server rejects them: addresses are written out while they fit a message."""
        return _written_out(self)


def pieces(markdown: str, limit: int = MAX_UNITS) -> list[Formatted]:
    """Messages of at most `limit` UTF-16 units and 100 entities; none for a blank text."""
    text, marks = _rendered(markdown)
    if len(marks) <= MAX_ENTITIES and utf16_len(text) <= limit:
        return [_message(text, 0, len(text), marks)] if text else []
    return list(_messages(text, marks, limit))


def formatted(markdown: str) -> Formatted:
    """All of it as one, however long."""
    text, marks = _rendered(markdown)
    return _message(text, 0, len(text), marks)


def plain(markdown: str) -> str:
    """Readable text without any entities, however long: links as `text (url)`, code without fences."""
    return _rendered(markdown, lambda url: False)[0]


def linkable(url: str) -> bool:
    """Whether Telegram keeps a link to this address."""
    return _LINK.match(url) is not None


# From blocks to text and marks.


class _Mark(NamedTuple):
    """An entity still in Python's indexes."""

    kind: EntityKind
    start: int
    end: int
    url: str = ""
    language: str = ""


def _rendered(markdown: str, can_link: Linkable = linkable) -> tuple[str, list[_Mark]]:
    source = tidy(markdown)
    if not has_markup(source):
        return source, []
    canvas = _Canvas(can_link)
    canvas.blocks(read(source))
    text = "".join(canvas.parts).rstrip()
    if not text:
        return source, []  # nothing but markup: better shown than swallowed
    return text, _settled(canvas.marks, len(text))


class _Canvas:
    def __init__(self, can_link: Linkable) -> None:
        self.parts: list[str] = []
        self.marks: list[_Mark] = []
        self._at = 0
        self._can_link = can_link

    def blocks(self, blocks: Iterable[Block]) -> None:
        for index, block in enumerate(blocks):
            if index:
                self._write("\n")
            match block:
                case Prose():
                    self._prose(block)
                case Code():
                    self._write(block.text, "pre", block.language)
                case Quote():
                    start = self._at
                    self.blocks(block.blocks)
                    self._mark("blockquote", start)
                case Table():
                    self._table(block)
                case Rule():
                    self._write(_RULE)

    def _write(self, text: str, kind: EntityKind | None = None, language: str = "") -> None:
        start = self._at
        self.parts.append(text)
        self._at += len(text)
        if kind:
            self.marks.append(_Mark(kind, start, self._at, "", language))

    def _mark(self, kind: EntityKind, start: int) -> None:
        self.marks.append(_Mark(kind, start, self._at))

    def _prose(self, prose: Prose) -> None:
        if prose.prefix:
            self._write(prose.prefix)
        start = self._at
        if prose.literal:
            self._write(prose.source)
        elif prose.source:
            self._inline(prose.source)
        if prose.level:
            self._mark("bold", start)

    def _inline(self, source: str) -> None:
        rich = read_inline(source, self._can_link)
        start = self._at
        for span_kind, first, last, url in rich.spans:
            kind: EntityKind = "text_link" if span_kind == "link" else span_kind
            self.marks.append(_Mark(kind, start + first, start + last, url))
        self._write(rich.text)

    def _table(self, table: Table) -> None:
        rows = [[_plain_cell(cell) for cell in row] for row in (table.header, *table.rows)]
        lines = aligned(rows, table.aligns, _TABLE_COLUMNS)
        if lines is not None:
            self._write(lines, "pre")
            return
        for index, row in enumerate(table.rows or (table.header,)):
            if index:
                self._write("\n\n")
            self._record(table.header if table.rows else (), row)

    def _record(self, header: Sequence[str], row: Sequence[str]) -> None:
        """One row of a table too wide for a phone."""
        lines = 0
        for column, cell in enumerate(row):
            if not cell:
                continue
            if lines:
                self._write("\n")
            lines += 1
            if column < len(header) and header[column]:
                self._inline(header[column])
                self._write(": ")
            start = self._at
            self._inline(cell)
            if column == 0:
                self._mark("bold", start)


def _plain_cell(cell: str) -> str:
    return read_inline(cell, lambda url: False).text


# From marks to entities the server takes.


def _settled(marks: list[_Mark], end: int) -> list[_Mark]:
    """The same marks as Telegram wants them: in order, styles not within themselves, nothing across code.

    Links and code exclude each other; a link around code wins, since without it the address would be lost.
    """
    links, code, settled = [], [], []
    soft: dict[EntityKind, list[tuple[int, int]]] = {}
    for mark in sorted(marks, key=_order):
        kind, start, stop = mark.kind, mark.start, min(mark.end, end)
        if start >= stop:
            continue
        if kind in _SOFT:
            soft.setdefault(kind, []).append((start, stop))
            continue
        if kind == "text_link":
            links.append((start, stop))
        elif kind != "blockquote":
            if links and start < links[-1][1]:
                continue
            code.append((start, stop))
        settled.append(mark if stop == mark.end else mark._replace(end=stop))
    for kind, ranges in soft.items():
        for start, stop in _outermost(ranges):
            settled += [_Mark(kind, *part) for part in _around(start, stop, code)]
    settled.sort(key=_order)
    return settled


def _order(mark: _Mark) -> tuple[int, int, bool]:
    return mark.start, -mark.end, mark.kind == "code"


def _outermost(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    reached = 0
    for start, end in ranges:
        if end > reached:
            yield start, end
            reached = end


def _around(start: int, end: int, holes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for index in range(bisect_left(holes, (start, 0)), len(holes)):
        hole_start, hole_end = holes[index]
        if hole_start >= end:
            break
        if hole_start > start:
            yield start, hole_start
        start = hole_end
    if start < end:
        yield start, end


# From one text to messages.


def _messages(text: str, marks: list[_Mark], limit: int) -> Iterator[Formatted]:
    whole = [(mark.start, mark.end) for mark in marks if mark.kind in ("pre", "text_link", "code")]
    start, upcoming = 0, 0
    live: list[_Mark] = []
    while start < len(text):
        stop = _stop(text, start, limit, whole)
        end = stop if stop == len(text) else best_cut(text, start, stop, whole)
        while upcoming < len(marks) and marks[upcoming].start < end:
            live.append(marks[upcoming])
            upcoming += 1
        message = _message(text, start, end, live)
        if message.text:
            yield message
        live = [mark for mark in live if mark.end > end]
        start = resume(text, end)


def _stop(text: str, start: int, limit: int, whole: Sequence[tuple[int, int]]) -> int:
    """As far as length allows, and before the mark that would be one too many: a lost link loses its address."""
    stop = reach(text, start, limit, utf16_len)
    excess = bisect_left(whole, (start, 0)) + MAX_ENTITIES
    if excess < len(whole) and start < whole[excess][0] < stop:
        return whole[excess][0]
    return stop


def _message(text: str, start: int, end: int, marks: Sequence[_Mark]) -> Formatted:
    piece = text[start:end].rstrip()
    end = start + len(piece)
    if not marks:
        return Formatted(text=piece)
    clipped = [
        (mark, max(mark.start, start) - start, min(mark.end, end) - start)
        for mark in marks
        if mark.start < end and mark.end > start
    ]
    clipped = [each for each in clipped if not piece[each[1] : each[2]].isspace()]
    if len(clipped) > MAX_ENTITIES:
        kept = sorted(clipped, key=lambda each: _IMPORTANCE.index(each[0].kind))[:MAX_ENTITIES]
        clipped = sorted(kept, key=lambda each: (each[1], -each[2]))
    offsets = utf16_offsets(piece, [index for _, *indexes in clipped for index in indexes])
    entities = tuple(
        Entity(kind=mark.kind, offset=offset, length=stop - offset, url=mark.url, language=mark.language)
        for (mark, _, _), offset, stop in zip(clipped, offsets[::2], offsets[1::2], strict=True)
    )
    return Formatted(text=piece, entities=entities)


def _written_out(message: Formatted) -> str:
    links = [entity for entity in message.entities if entity.kind == "text_link"]
    if not links:
        return message.text
    units = message.text.encode("utf-16-le")
    spare = MAX_UNITS - len(units) // 2
    parts, done = [], 0
    for link in links:
        end = (link.offset + link.length) * 2
        parts.append(units[done:end].decode("utf-16-le"))
        address = f" ({link.url})"
        shown = units[link.offset * 2 : end].decode("utf-16-le")
        if shown != link.url and utf16_len(address) <= spare:
            parts.append(address)
            spare -= utf16_len(address)
        done = end
    return "".join(parts) + units[done:].decode("utf-16-le")
