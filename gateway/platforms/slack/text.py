"""Slack's flavours of text: Markdown in pieces that its `markdown` block takes, and its own mrkdwn where it must be."""

import re
from collections.abc import Iterable, Sequence

from gateway.platforms.inline import Rich, Span, read_inline
from gateway.platforms.markdown import Block, Code, Prose, Quote, Rule, Table, read
from gateway.platforms.tables import aligned
from gateway.platforms.text import split_markdown, tidy, utf16_len

# The block takes 12,000, but all blocks of a message together not much more, and buttons are blocks too.
MAX_MARKDOWN_UNITS = 11_000
MAX_SECTION_CHARS = 3_000
MAX_TEXT_CHARS = 40_000
_NOTIFICATION_CHARS = 700  # an edit's text may have 4,000 bytes, and an escape takes five
_SECTION_SOURCE_CHARS = 2_400  # of which a section is made: escapes and marks take room
_SHORTEST_SOURCE_CHARS = 100
_TABLE_COLUMNS = 80
_RULE = "———"
_GAP = "\u200b"  # between a mark and a letter: Slack sees marks only beside what is no word
_MARKS = {"bold": "*", "italic": "_", "strikethrough": "~", "code": "`"}
_CALLS = re.compile(r"<!(?=channel|here|everyone|subteam)")


def pieces(markdown: str, limit: int = MAX_MARKDOWN_UNITS) -> list[str]:
    """Markdown for one `markdown` block each; none for a blank text."""
    return [_CALLS.sub(f"<{_GAP}!", piece) for piece in split_markdown(markdown, limit, utf16_len)]


def sections(markdown: str) -> list[str]:
    """The same as mrkdwn, each short enough for a section."""
    return list(_sections(markdown, _SECTION_SOURCE_CHARS))


def mrkdwn(markdown: str) -> str:
    """All of it as one, however long."""
    return "\n".join(_lines(read(tidy(markdown)))).strip("\n")


def notification(markdown: str) -> str:
    """The beginning, without any marks: what a phone shows before one looks, and what is read aloud."""
    text = _plain(markdown[: 2 * _NOTIFICATION_CHARS])
    short = text if len(text) <= _NOTIFICATION_CHARS else text[: _NOTIFICATION_CHARS - 1].rstrip() + "…"
    return escaped(short)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def linkable(url: str) -> bool:
    return url.startswith(("http://", "https://", "mailto:")) and not any(char.isspace() for char in url)


def _sections(markdown: str, source_chars: int) -> Iterable[str]:
    for piece in split_markdown(markdown, source_chars):
        written = mrkdwn(piece)
        if len(written) <= MAX_SECTION_CHARS:
            if written:
                yield written
        elif source_chars > _SHORTEST_SOURCE_CHARS:
            yield from _sections(piece, source_chars // 2)
        else:
            yield written[:MAX_SECTION_CHARS]


def _plain(markdown: str) -> str:
    words = []
    for block in read(tidy(markdown)):
        match block:
            case Prose():
                words.append(block.prefix + _bare(block.source))
            case Code():
                words.append(block.text)
            case Quote():
                words += [_bare(inner.source) for inner in block.blocks if isinstance(inner, Prose)]
            case Table():
                words += [" ".join(map(_bare, row)) for row in (block.header, *block.rows)]
    return "\n".join(words).strip() or tidy(markdown)


def _lines(blocks: Iterable[Block]) -> Iterable[str]:
    for block in blocks:
        match block:
            case Prose():
                yield _prose(block)
            case Code():
                yield f"```\n{_code(block.text)}\n```"
            case Quote():
                inner = "\n".join(_lines(block.blocks))
                yield "\n".join(f"> {line}" for line in inner.split("\n"))
            case Table():
                yield _table(block)
            case Rule():
                yield _RULE


def _prose(prose: Prose) -> str:
    if prose.literal:
        return escaped(prose.prefix + prose.source)
    if prose.level:
        title = _marked(read_inline(prose.source, linkable), without="bold")
        return f"*{title}*" if title else ""
    return escaped(prose.prefix) + _marked(read_inline(prose.source, linkable))


def _code(text: str) -> str:
    return escaped(text).replace("```", f"``{_GAP}`")


def _table(table: Table) -> str:
    rows = [[_bare(cell) for cell in row] for row in (table.header, *table.rows)]
    lines = aligned(rows, table.aligns, _TABLE_COLUMNS)
    if lines is not None:
        return f"```\n{_code(lines)}\n```"
    header = table.header if table.rows else ()
    return "\n\n".join(_record(header, row) for row in table.rows or (table.header,))


def _record(header: Sequence[str], row: Sequence[str]) -> str:
    """One row of a table that is too wide."""
    lines = []
    for column, cell in enumerate(row):
        name = escaped(_bare(header[column])) if column < len(header) else ""
        words = _marked(read_inline(cell, linkable))
        if words:
            lines.append(f"*{name}*: {words}" if name else words)
    return "\n".join(lines)


def _bare(source: str) -> str:
    return read_inline(source, lambda url: False).text


def _marked(rich: Rich, *, without: str = "") -> str:
    """Slack's marks around the spans; they nest properly, so an opening goes out before what it holds."""
    text = rich.text
    if not rich.spans:
        return escaped(text)
    # Where; closing before opening; the inner closes before the outer and opens after it, by length and, where both
    # mark the same, by the order in which they were read.
    edges: list[tuple[int, int, int, int, str]] = []
    for number, span in enumerate(rich.spans):
        opening, closing = _mark(text, span) if span.kind != without else ("", "")
        length = span.end - span.start
        edges.append((span.start, 1, -length, -number, opening))
        edges.append((span.end, 0, length, number, closing))
    written, done = [], 0
    for place, *_, mark in sorted(edges):
        written += [escaped(text[done:place]), mark]
        done = place
    return "".join([*written, escaped(text[done:])])


def _mark(text: str, span: Span) -> tuple[str, str]:
    if span.kind == "link":
        return f"<{escaped(span.url).replace('|', '%7C')}|", ">"
    mark = _MARKS.get(span.kind, "")
    if not mark:
        return "", ""
    before = _GAP if span.start and text[span.start - 1].isalnum() else ""
    after = _GAP if span.end < len(text) and text[span.end].isalnum() else ""
    return before + mark, mark + after
