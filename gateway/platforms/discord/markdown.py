"""Render the model's Markdown as Discord shows it, in pieces it takes.

Most of Markdown is Discord's own, so the source stays as it is: no escapes that people would meet when they copy. Only
what Discord does not know is put another way.
"""

import re
from collections.abc import Iterable, Sequence

from gateway.platforms.markdown import (
    RULE,
    align_table,
    has_markup,
    lines_of,
    list_entries,
    parse_blocks,
    split_markdown,
)
from gateway.platforms.outgoing import Formatted
from gateway.platforms.text import tidy, utf16_len

MAX_UNITS = 2_000
_MAX_LEVEL = 3  # of headings
_TABLE_COLUMNS = 60  # of monospace text; wider ones wrap on a phone
_HEADING = re.compile(r"[ \t]*#+[ \t]+(?P<title>.*?)[ \t#]*$")
# Code and addresses are passed over; images are links; a star between letters or digits is a product, not emphasis, and
# bars between words are an expression, not a spoiler.
_INLINE = re.compile(
    r"(?P<kept>`+[^`\n]+`+|<?https?://[^\s<>]+)|(?P<image>!)(?=\[[^\[\]\n]*\]\()"
    r"|(?<=[0-9A-Za-z)])(?P<star>\*)(?=[0-9A-Za-z(])|(?<=\s)(?P<bars>\|\|)(?=\s)"
)


def render(markdown: str, limit: int = MAX_UNITS) -> list[Formatted]:
    """Return messages of at most `limit`, none for a blank text, counted in UTF-16 units: that is never too little."""
    return [Formatted(text=piece) for piece in split_markdown(adapt(markdown), limit, utf16_len)]


def adapt(markdown: str) -> str:
    """Return all of it as one, however long."""
    text = tidy(markdown)
    if not has_markup(text):
        return text
    lines = text.split("\n")
    done = 0
    written: list[str] = []
    for token in parse_blocks(text):
        first, after = lines_of(token)
        replaced: Iterable[str] = ()
        match token.type:
            case "inline":
                replaced = map(_adapt_line, lines[first:after])
            case "heading_open" if token.level == 0 and len(token.markup) > _MAX_LEVEL:
                replaced = [_HEADING.sub(lambda one: f"**{one['title'].replace('**', '')}**", lines[first])]
            case "hr" if token.level == 0:
                replaced = [RULE]
            case "table" if token.level == 0:
                replaced = [_adapt_table(**token.meta)]
        if replaced and first >= done:
            written += [*lines[done:first], *replaced]
            done = after
    return "\n".join([*written, *lines[done:]])


def strip_marks(page: Formatted) -> Formatted:
    """Leave nothing that could mean more than it says, for when Discord rejects the wording."""
    return Formatted(text=re.sub(r"[`*_~|<>\[\]\\]", "", page.text).strip())


def _adapt_line(line: str) -> str:
    if "*" not in line and "![" not in line and "||" not in line:
        return line
    return _INLINE.sub(
        lambda found: found["kept"] or ("" if found["image"] else re.sub(r"(.)", r"\\\1", found[0])), line
    )


def _adapt_table(header: Sequence[str], aligns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    columns = align_table(header, aligns, rows, _TABLE_COLUMNS)
    if columns is not None and "```" not in columns:
        return f"```\n{columns}\n```"
    return "".join(
        gap + name + (f"**{cell}**" if is_first and "**" not in cell else cell)
        for gap, name, cell, is_first in list_entries(header, rows)
    )
