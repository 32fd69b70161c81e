"""Render the model's Markdown for Slack: pieces for its `markdown` block, and its own mrkdwn where that is refused."""

import re
from collections.abc import Iterator

from gateway.platforms.markdown import Rich, Span, link_nothing, read, split_markdown
from gateway.platforms.text import utf16_len

# The block takes 12,000, but all blocks of a message together not much more, and buttons are blocks too.
MAX_MARKDOWN_UNITS = 11_000
MAX_SECTION_CHARS = 3_000
MAX_TEXT_CHARS = 40_000
_NOTIFICATION_CHARS = 700  # an edit's text may have 4,000 bytes, and an escape takes five
_SECTION_SOURCE_CHARS = 2_400  # of which a section is made: escapes and marks take room
_SHORTEST_SOURCE_CHARS = 100
_TABLE_COLUMNS = 80
_GAP = "\u200b"  # between a mark and a letter: Slack sees marks only beside what is no word
_MARKS = {"bold": "*", "italic": "_", "strikethrough": "~", "code": "`"}
_CALLS = re.compile(r"<!(?=channel|here|everyone|subteam)")


def render(markdown: str, limit: int = MAX_MARKDOWN_UNITS) -> list[str]:
    """Return Markdown for one `markdown` block each; none for a blank text."""
    return [_CALLS.sub(f"<{_GAP}!", piece) for piece in split_markdown(markdown, limit, utf16_len)]


def render_sections(markdown: str) -> list[str]:
    """Return the same as mrkdwn, each short enough for a section."""
    return list(_make_sections(markdown, _SECTION_SOURCE_CHARS))


def render_mrkdwn(markdown: str) -> str:
    """Return all of it as one, however long."""
    return _write(read(markdown, linkable, table_columns=_TABLE_COLUMNS))


def render_notification(markdown: str) -> str:
    """Return the beginning without any marks: what a phone shows before one looks, and what is read aloud."""
    text = read(markdown[: 2 * _NOTIFICATION_CHARS], link_nothing, table_columns=_TABLE_COLUMNS).text
    short = text if len(text) <= _NOTIFICATION_CHARS else text[: _NOTIFICATION_CHARS - 1].rstrip() + "…"
    return escape(short)


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def linkable(url: str) -> bool:
    return url.startswith(("http://", "https://", "mailto:")) and not any(char.isspace() for char in url)


def _make_sections(markdown: str, source_chars: int) -> Iterator[str]:
    for piece in split_markdown(markdown, source_chars):
        written = render_mrkdwn(piece)
        if len(written) <= MAX_SECTION_CHARS:
            if written:
                yield written
        elif source_chars > _SHORTEST_SOURCE_CHARS:
            yield from _make_sections(piece, source_chars // 2)
        else:
            yield written[:MAX_SECTION_CHARS]


def _write(rich: Rich) -> str:
    """Put Slack's marks around the spans; they nest properly, so an opening goes out before what it holds."""
    text = rich.text
    # Where; closing before opening; the inner closes before the outer and opens after it, by length and, where both
    # mark the same, by the order in which they were read.
    edges: list[tuple[int, int, int, int, Span]] = []
    for number, span in enumerate(rich.spans):
        length = span.end - span.start
        edges.append((span.start, 1, -length, -number, span))
        edges.append((span.end, 0, length, number, span))
    written: list[str] = []
    done, is_quoted = 0, False
    for place, is_opening, _, _, span in sorted(edges):
        chunk = escape(text[done:place])
        if span.kind == "pre" and not is_opening:
            chunk = chunk.replace("```", f"``{_GAP}`")
        chunk += _mark(text, span)[0 if is_opening else 1]
        written.append(chunk.replace("\n", "\n> ") if is_quoted else chunk)
        if span.kind == "quote":
            is_quoted = bool(is_opening)
        done = place
    return "".join([*written, escape(text[done:])])


def _mark(text: str, span: Span) -> tuple[str, str]:
    match span.kind:
        case "link":
            return f"<{escape(span.detail).replace('|', '%7C')}|", ">"
        case "pre":
            return "```\n", "\n```"
        case "quote":
            return "> ", ""
    mark = _MARKS.get(span.kind, "")
    before = _GAP if mark and span.start and text[span.start - 1].isalnum() else ""
    after = _GAP if mark and span.end < len(text) and text[span.end].isalnum() else ""
    return before + mark, mark + after
