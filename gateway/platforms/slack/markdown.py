"""Render the model's Markdown for Slack: pieces for its `markdown` block, and plain text where that is refused."""

import re

from gateway.platforms.markdown import link_nothing, read, split_markdown
from gateway.platforms.outgoing import Formatted
from gateway.platforms.text import utf16_len

# The block takes 12,000, but all blocks of a message together not much more, and buttons are blocks too.
MAX_MARKDOWN_UNITS = 11_000
_NOTIFICATION_CHARS = 700  # an edit's text may have 4,000 bytes, and an escape takes five
_TABLE_COLUMNS = 80
_GAP = "\u200b"
_CALLS = re.compile(r"<!(?=channel|here|everyone|subteam)")


def render(markdown: str, limit: int = MAX_MARKDOWN_UNITS) -> list[Formatted]:
    """Return Markdown for one `markdown` block each; none for a blank text."""
    pieces = split_markdown(markdown, limit, utf16_len)
    return [Formatted(text=_CALLS.sub(f"<{_GAP}!", piece)) for piece in pieces]


def render_plain(markdown: str) -> str:
    """Return all of it without any marks, with the addresses of links written out."""
    return read(markdown, link_nothing, table_columns=_TABLE_COLUMNS).text


def strip_marks(page: Formatted) -> Formatted:
    return Formatted(text=render_plain(page.text))


def render_notification(markdown: str) -> str:
    """Return the beginning without any marks: what a phone shows before one looks, and what is read aloud."""
    text = render_plain(markdown[: 2 * _NOTIFICATION_CHARS])
    return escape(text if len(text) <= _NOTIFICATION_CHARS else text[: _NOTIFICATION_CHARS - 1].rstrip() + "…")


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
