"""Read the Markdown that models write into text and spans, and split its source into pieces that stand alone.

markdown-it parses it (see `dialect`), imported with the first text that has any markup. Nothing raises: whatever is not
understood is text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from gateway.platforms.text import Measure, best_cut, find_reach, find_resumption, tidy

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

SpanKind = Literal["bold", "italic", "strikethrough", "spoiler", "code", "link", "pre", "quote"]

RULE = "———"
_MAX_PARSED_CHARS = 25_000  # a longer answer becomes a file; the worst text of this length takes half a second
_GAP = "  "
_KINDS: dict[str, SpanKind] = {
    "strong_open": "bold",
    "em_open": "italic",
    "s_open": "strikethrough",
    "spoiler_open": "spoiler",
}
_MARKUP = re.compile(r"[*_`~\[\\|]|<[A-Za-z/]|^[ \t]*[-+#>]", re.MULTILINE)
_INLINE = re.compile(
    r"`[^`\n]++`|!?\[[^\[\]\n]*+\]\([^()\s]*+\)|\*\*[^*\n]++\*\*|~~[^~\n]++~~|\|\|[^|\n]++\|\||__[^_\n]++__"
)
_LOOKAHEAD_CHARS = 500  # an inline mark that begins before a cut is looked for this far behind it


class Span(NamedTuple):  # a tuple, since making a frozen dataclass takes four times as long
    kind: SpanKind
    start: int
    end: int
    detail: str = ""  # a link's address, the language of code


class Rich(NamedTuple):
    text: str
    spans: Sequence[Span] = ()  # not empty, properly nested, the inner before the outer


Linkable = Callable[[str], bool]
"""Whether a platform can put a link to this address under a text; the others are written out behind it."""


def link_nothing(_url: str) -> bool:
    return False


def has_markup(text: str) -> bool:
    """Return False only for a text that reads as itself."""
    return _MARKUP.search(text) is not None


def read(markdown: str, linkable: Linkable, *, table_columns: int) -> Rich:
    """Read all of it; tables wider than `table_columns` are written out row by row."""
    source = tidy(markdown)
    if not has_markup(source) or len(source) > _MAX_PARSED_CHARS:
        return Rich(source)
    writer = _Writer(linkable, table_columns)
    writer.write_blocks(parse_blocks(source))
    text = "".join(writer.parts).rstrip()
    if not text:
        return Rich(source)  # nothing but markup: better shown than swallowed
    spans = [span if span.end <= len(text) else span._replace(end=len(text)) for span in writer.spans]
    return Rich(text, [span for span in spans if span.start < span.end])


def read_line(source: str) -> str:
    """Return what one line says, without its marks."""
    writer = _Writer(link_nothing, 0)
    writer.write_inline(source)
    return "".join(writer.parts)


def parse_blocks(source: str) -> list["Token"]:
    """Return markdown-it's block tokens; those named `inline` hold source that is not parsed yet."""
    tokens: list[Token] = []
    _parser().block.parse(source, _parser(), {}, tokens)
    return tokens


@cache
def _parser() -> "MarkdownIt":
    from gateway.platforms.dialect import build_parser

    return build_parser()


def lines_of(token: "Token") -> tuple[int, int]:
    """Return the first source line of a block and the one after its last."""
    first, after = token.map or (0, 0)
    return first, after


class _Place(NamedTuple):
    """The position of a writer."""

    at: int
    parts: int
    spans: int


class _Writer:
    """Collects text and the spans that mark it; blank lines between blocks stay as they were."""

    def __init__(self, linkable: Linkable, table_columns: int) -> None:
        self.parts: list[str] = []
        self.spans: list[Span] = []
        self._at = 0
        self._linkable, self._table_columns = linkable, table_columns
        self._line = 0  # of the source, after what was written last
        self._behind: Literal["line", "bullet", "text"] = "line"  # behind a line's start, a bullet, anything else
        self._indent = ""
        self._outer: list[tuple[str, _Place]] = []  # the indentation outside each quote and item, and where it began

    def write_blocks(self, tokens: Iterable["Token"]) -> None:
        is_heading = False
        for token in tokens:
            if token.type in ("blockquote_open", "list_item_open"):
                self._open(token)
            elif token.type in ("blockquote_close", "list_item_close"):
                self._indent, start = self._outer.pop()
                self._behind = "text"
                if token.type == "blockquote_close":
                    self._mark("quote", start)
            elif token.nesting == 0:
                self._write_leaf(token, is_heading=is_heading)
            is_heading = token.type == "heading_open"

    def _open(self, token: "Token") -> None:
        is_quote = token.type == "blockquote_open"
        self._begin(token, "" if is_quote else self._indent)
        bullet = "" if is_quote else token.info + token.markup if token.info else "•"
        self._write(bullet)
        self._outer.append((self._indent, self._place()))
        self._indent = "" if is_quote else self._indent + " " * (len(bullet) + 1)
        self._behind = "line" if is_quote else "bullet"
        self._line = lines_of(token)[0] + 1

    def _write_leaf(self, token: "Token", *, is_heading: bool) -> None:
        if token.type == "fence" and not token.content.strip():
            return
        self._begin(token, self._indent if token.type == "inline" else "")
        start = self._place()
        match token.type:
            case "inline":
                self.write_inline(token.content)
                if is_heading:
                    self._mark("bold", start)
            case "fence":
                language = token.info.strip("{}. \t").split(None, 1)
                self._write(token.content.rstrip(), "pre", language[0] if language else "")
            case "table":
                self._write_table(**token.meta)
            case _:
                self._write(token.content or RULE)

    def _begin(self, token: "Token", indent: str = "") -> None:
        first, after = lines_of(token)
        if self._behind == "bullet" and token.type == "inline":
            self._write(" ")
        elif self._behind != "line":
            self._write("\n" * (1 + max(0, first - self._line)) + indent)
        self._behind, self._line = "text", after

    def _place(self) -> _Place:
        return _Place(self._at, len(self.parts), len(self.spans))

    def _write(self, text: str, kind: SpanKind | None = None, detail: str = "") -> None:
        self.parts.append(text)
        self._at += len(text)
        if kind:
            self.spans.append(Span(kind, self._at - len(text), self._at, detail))

    def _mark(self, kind: SpanKind, start: _Place, detail: str = "") -> None:
        """Mark all since `start`, instead of what is marked the same way within."""
        self.spans[start.spans :] = [span for span in self.spans[start.spans :] if span.kind != kind]
        self.spans.append(Span(kind, start.at, self._at, detail))

    def write_inline(self, source: str) -> None:
        if not has_markup(source):
            self._write(source.replace("\n", "\n" + self._indent))
            return
        tokens: list[Token] = []
        _parser().inline.parse(source, _parser(), {}, tokens)
        self._write_tokens(tokens)

    def _write_tokens(self, tokens: Iterable["Token"]) -> None:
        opened: list[tuple[Token, _Place]] = []
        for token in tokens:
            if token.nesting > 0:
                opened.append((token, self._place()))
            elif token.nesting < 0:
                opening, start = opened.pop()
                if opening.type == "link_open":
                    self._end_link(str(opening.attrs["href"]), start)
                else:
                    self._mark(_KINDS[opening.type], start)
            elif token.type == "code_inline":
                self._write(token.content, "code")
            elif token.type == "image":
                start = self._place()
                self._write_tokens(token.children or ())
                self._end_link(str(token.attrs["src"]), start)
            else:
                content = "\n" if token.type == "hardbreak" else token.content
                self._write(content.replace("\n", "\n" + self._indent))

    def _end_link(self, url: str, start: _Place) -> None:
        text = "".join(self.parts[start.parts :])
        if not text.strip():
            self._write(url)
        if self._linkable(url):
            self._mark("link", start, url)
        elif text.strip() and text != (address := url.removeprefix("mailto:")):
            self._write(f" ({address})")

    def _write_table(self, header: list[str], aligns: list[str], rows: list[list[str]]) -> None:
        columns = align_table(header, aligns, rows, self._table_columns)
        if columns is not None:
            self._write(columns, "pre")
            return
        for gap, name, cell, is_first in list_entries(header, rows):
            self._write(gap)
            self.write_inline(name)
            start = self._place()
            self.write_inline(cell)
            if is_first:
                self._mark("bold", start)


# Tables


def align_table(
    header: Sequence[str], aligns: Sequence[str], rows: Sequence[Sequence[str]], max_width: int
) -> str | None:
    """Return the cells without their marks in monospace columns; None if that is too wide."""
    count = max(map(len, (header, *rows)))
    if count * (1 + len(_GAP)) - len(_GAP) > max_width:
        return None  # looked at first: rows that are filled up to an absurd header would cost the product
    table = [[*map(read_line, row), *[""] * (count - len(row))] for row in (header, *rows)]
    widths = [max(1, *map(measure_width, column)) for column in zip(*table, strict=True)]
    if sum(widths) + len(_GAP) * (count - 1) > max_width:
        return None
    sides = [*aligns, *["left"] * (count - len(aligns))]
    lines = [_GAP.join(map(_pad, row, widths, sides)).rstrip() for row in table]
    return "\n".join([lines[0], _GAP.join("-" * width for width in widths), *lines[1:]])


def list_entries(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the cells of a table too wide for columns: line ends before it, column, cell, whether its row begins."""
    gap = ""
    for row in rows or [header]:
        for column, cell in enumerate(row):
            if cell:
                name = f"{header[column]}: " if rows and column < len(header) and header[column] else ""
                yield gap, name, cell, column == 0
                gap = "\n"
        gap = "\n\n" if gap else ""


def measure_width(text: str) -> int:
    """Count columns of a terminal: East Asian wide characters and emoji take two, combining marks none."""
    if text.isascii():
        return len(text)
    seen = (char for char in text if unicodedata.category(char) not in {"Mn", "Me", "Cf"})
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in seen)


def _pad(cell: str, width: int, align: str) -> str:
    room = width - measure_width(cell)
    left = {"left": 0, "center": room // 2, "right": room}[align]
    return " " * left + cell + " " * (room - left)


# Source in pieces


class Fence(NamedTuple):
    """Fenced code, by its places in the source."""

    start: int  # of the opening line
    body: int  # after the opening line
    body_end: int  # before the closing line
    end: int  # of the closing line
    opening: str
    closing: str
    is_closed: bool


def find_fences(text: str) -> list[Fence]:
    if "```" not in text and "~~~" not in text:
        return []
    lines = text.replace("\r", " ").split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    fences = (token for token in parse_blocks("\n".join(lines)) if token.type == "fence")
    return [_locate(token, lines, starts) for token in fences]


def _locate(token: "Token", lines: Sequence[str], starts: Sequence[int]) -> Fence:
    first, after = lines_of(token)
    lead = lines[first][: lines[first].index(token.markup)]
    lead = re.sub(r"[^ \t>]", " ", lead)  # a bullet is not repeated
    last = lines[after - 1].strip(" \t>")
    is_closed = after > first + 1 and last.startswith(token.markup) and not last.strip(token.markup[0])
    end = starts[after] - 1
    return Fence(
        start=starts[first],
        body=min(starts[first + 1], end),
        body_end=starts[after - 1] if is_closed else end,
        end=end,
        opening=lead + token.markup + token.info.rstrip(),
        closing=lead + token.markup,
        is_closed=is_closed,
    )


def split_markdown(markdown: str, limit: int, measure: Measure = len) -> list[str]:
    """Split the source into pieces of at most `limit` that stand alone: fences are closed and opened again.

    A fence whose two lines would take half the limit is treated as text.
    """
    text = tidy(markdown)
    fences = [fence for fence in find_fences(text) if measure(fence.opening + fence.closing) + 2 <= limit // 2]
    pieces, start = [], 0
    while start < len(text):
        fences = [fence for fence in fences if fence.end > start]
        piece, start = _take_piece(text, start, fences, limit, measure)
        pieces.append(piece)
    return [piece for piece in pieces if piece.strip()]


def _take_piece(text: str, start: int, fences: Sequence[Fence], limit: int, measure: Measure) -> tuple[str, int]:
    """Return the piece that begins at `start`, and where the next one does."""
    head = fences[0].opening + "\n" if fences and fences[0].start < start else ""
    room = limit - measure(head)
    near = [fence for fence in fences if fence.start < start + limit]
    tail = "\n" + near[-1].closing if near and near[-1].end == len(text) and not near[-1].is_closed else ""
    if len(text) - start <= room and measure(text[start:] + tail) <= room:
        return head + text[start:] + tail, len(text)
    room -= max((measure(fence.closing) + 1 for fence in near), default=0)
    stop = find_reach(text, start, room, measure)
    code = [(fence.start, fence.end) for fence in near]
    marks = (match.span() for match in _INLINE.finditer(text, start, stop + _LOOKAHEAD_CHARS))
    outside = [mark for mark in marks if not any(begin < mark[1] and mark[0] < end for begin, end in code)]
    cut = best_cut(text, start, stop, sorted(code + outside))
    after = find_resumption(text, cut)
    fence = next((one for one in near if one.start < cut and cut < one.end + (not one.is_closed)), None)
    if fence is None:
        return head + text[start:cut].rstrip(), after
    if cut <= fence.body and fence.start > start:  # an opening line alone is no use at the end of a piece
        return head + text[start : fence.start].rstrip(), fence.start
    if after >= fence.body_end:
        after = find_resumption(text, fence.end)
    body = text[start : min(cut, fence.body_end)].rstrip()
    return (head + body).rstrip("\n") + "\n" + fence.closing, after
