"""Discord's flavour of text: the model's Markdown with what Discord does not show put another way, in pieces it takes.

Most of Markdown is Discord's own, so the source stays as it is: no escapes that people would meet when they copy.
"""

import re
from collections.abc import Iterator, Sequence

from gateway.platforms.inline import read_inline
from gateway.platforms.markdown import Table, has_markup, read
from gateway.platforms.tables import aligned
from gateway.platforms.text import FENCE, closes_fence, opens_fence, split_markdown, tidy, utf16_len

MAX_UNITS = 2_000
_TABLE_COLUMNS = 60  # of monospace text; wider ones wrap on a phone
_DEEP_HEADING = re.compile(r" {0,3}#{4,6}[ \t]+(?P<title>\S.*?)[ \t#]*$")  # Discord knows three levels
_RULE = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_SHOWN_RULE = "———"
_TABLE_LINE = re.compile(r"[\s|:-]*-[\s|:-]*$")
# Code and addresses are passed over; images are links; a star between letters or digits is a product, not emphasis.
_INLINE = re.compile(
    r"(?P<kept>`+[^`\n]+`+|<?https?://[^\s<>]+)|(?P<image>!)(?=\[[^\[\]\n]*\]\()|(?<=[0-9A-Za-z)])(?P<star>\*)(?=[0-9A-Za-z(])"
)


def pieces(markdown: str, limit: int = MAX_UNITS) -> list[str]:
    """Messages of at most `limit`, none for a blank text. Counted in UTF-16 units, which is never too little."""
    return split_markdown(flavoured(markdown), limit, utf16_len)


def flavoured(markdown: str) -> str:
    """All of it as one, however long."""
    text = tidy(markdown)
    return "\n".join(_lines(text.split("\n"))) if has_markup(text) else text


def plain(text: str) -> str:
    """For when Discord rejects the wording: without anything that could mean more than it says."""
    return re.sub(r"[`*_~|<>\[\]\\]", "", text).strip()


def _lines(lines: Sequence[str]) -> Iterator[str]:
    opened: re.Match[str] | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        fence = FENCE.match(line)
        if opened is not None:
            opened = None if fence and closes_fence(opened, fence) else opened
            yield line
        elif fence and opens_fence(fence):
            opened = fence
            yield line
        elif "|" in line and at < len(lines) and "|" in lines[at] and _TABLE_LINE.match(lines[at]):
            end = _table_end(lines, at)
            yield from _table(lines[at - 1 : end])
            at = end
        else:
            yield _line(line)


def _line(line: str) -> str:
    if heading := _DEEP_HEADING.match(line):
        title = heading["title"].replace("**", "")
        return f"**{title}**"
    if _RULE.match(line):
        return _SHOWN_RULE
    return _INLINE.sub(_shown, line) if "*" in line or "![" in line else line


def _shown(found: re.Match[str]) -> str:
    if found["image"]:
        return ""
    return found["kept"] or r"\*"


def _table_end(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and "|" in lines[at]:
        at += 1
    return at


def _table(lines: Sequence[str]) -> Iterator[str]:
    blocks = read("\n".join(lines))
    table = blocks[0]
    if len(blocks) != 1 or not isinstance(table, Table):
        yield from map(_line, lines)
        return
    rows = [[_plain_cell(cell) for cell in row] for row in (table.header, *table.rows)]
    columns = aligned(rows, table.aligns, _TABLE_COLUMNS)
    if columns is not None and "```" not in columns:
        yield from ("```", columns, "```")
        return
    for index, row in enumerate(table.rows or (table.header,)):
        if index:
            yield ""
        yield from _record(table.header if table.rows else (), row)


def _record(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    """One row of a table that is too wide."""
    for column, cell in enumerate(row):
        if cell:
            name = f"{header[column]}: " if column < len(header) and header[column] else ""
            yield f"{name}**{cell}**" if column == 0 and "**" not in cell else name + cell


def _plain_cell(cell: str) -> str:
    return read_inline(cell, lambda url: False).text
