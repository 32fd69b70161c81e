"""Render the model's Markdown as messages that Telegram accepts: text with entities."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from gateway.platforms.markdown import Span, SpanKind, read
from gateway.platforms.outgoing import Entity, EntityKind, Formatted
from gateway.platforms.text import best_cut, find_reach, find_resumption, utf16_len, utf16_offsets

MAX_UNITS = 4096
MAX_ENTITIES = 100  # the server silently drops what goes beyond

_TABLE_COLUMNS = 40  # about what a phone shows of monospace text without wrapping
_CODE = {"code", "pre"}
_STYLES = {"bold", "italic", "strikethrough", "spoiler"}
_BY_IMPORTANCE: dict[SpanKind, EntityKind] = {
    "pre": "pre", "link": "text_link", "code": "code", "spoiler": "spoiler",
    "quote": "blockquote", "bold": "bold", "strikethrough": "strikethrough", "italic": "italic",
}  # fmt: skip
_IMPORTANCE = list(_BY_IMPORTANCE)
# TDLib's check_link: a host without a dot is dropped with its link, and mailto:a@b.c becomes http://mailto:a@b.c.
_LINK = re.compile(
    r"https?://(?:[^\s/?#@]*@)?(?:[^\s/?#:@\[\]]+\.[^\s/?#:@\[\]]+|\[[0-9a-f:.]+\])(?:[:/?#]\S*)?$|tg://\w\S*$", re.I
)


def write_out(page: Formatted) -> Formatted:
    """Return the text for when the server rejects the entities: addresses are written out while they fit."""
    units = page.text.encode("utf-16-le")
    spare = MAX_UNITS - len(units) // 2
    parts, done = [], 0
    for link in (entity for entity in page.entities if entity.kind == "text_link"):
        start, end = link.offset * 2, (link.offset + link.length) * 2
        parts.append(units[done:end].decode("utf-16-le"))
        address = f" ({link.url})"
        if units[start:end].decode("utf-16-le") != link.url and utf16_len(address) <= spare:
            parts.append(address)
            spare -= utf16_len(address)
        done = end
    return Formatted(text="".join(parts) + units[done:].decode("utf-16-le"))


def render(markdown: str, limit: int = MAX_UNITS) -> list[Formatted]:
    """Return messages of at most `limit` UTF-16 units and 100 entities; none for a blank text."""
    text, spans = read(markdown, linkable, table_columns=_TABLE_COLUMNS)
    spans = _settle(spans)
    if len(spans) <= MAX_ENTITIES and utf16_len(text) <= limit:
        return [_make_message(text, 0, len(text), spans)] if text else []
    return list(_split(text, spans, limit))


def linkable(url: str) -> bool:
    """Return whether Telegram keeps a link to this address."""
    return _LINK.match(url) is not None


# From spans to entities that the server takes


def _settle(spans: Sequence[Span]) -> list[Span]:
    """Return the spans as Telegram wants them: in order, and nothing across code.

    Links and code exclude each other; a link around code wins, since without it the address would be lost.
    """
    code: list[tuple[int, int]] = []
    settled, link_end = [], 0
    for span in sorted(spans, key=_order):
        if span.kind in _STYLES or (span.kind in _CODE and span.start < link_end):
            continue
        if span.kind in _CODE:
            code.append((span.start, span.end))
        elif span.kind == "link":
            link_end = span.end
        settled.append(span)
    for span in spans:
        if span.kind in _STYLES:
            settled += [Span(span.kind, *part) for part in _around(span.start, span.end, code)]
    settled.sort(key=_order)
    return settled


def _order(span: Span) -> tuple[int, int, bool]:
    return span.start, -span.end, span.kind in _CODE


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


# From one text to messages


def _split(text: str, spans: Sequence[Span], limit: int) -> Iterator[Formatted]:
    whole = [(span.start, span.end) for span in spans if span.kind in ("pre", "link", "code")]
    start, upcoming = 0, 0
    live: list[Span] = []
    while start < len(text):
        stop = find_reach(text, start, limit, utf16_len)
        excess = bisect_left(whole, (start, 0)) + MAX_ENTITIES
        if excess < len(whole) and start < whole[excess][0] < stop:
            stop = whole[excess][0]  # before the link that would be one too many: its address would be lost
        end = stop if stop == len(text) else best_cut(text, start, stop, whole)
        while upcoming < len(spans) and spans[upcoming].start < end:
            live.append(spans[upcoming])
            upcoming += 1
        message = _make_message(text, start, end, live)
        if message.text:
            yield message
        live = [span for span in live if span.end > end]
        start = find_resumption(text, end)


def _make_message(text: str, start: int, end: int, spans: Sequence[Span]) -> Formatted:
    piece = text[start:end].rstrip()
    end = start + len(piece)
    clipped = [
        span._replace(start=max(span.start, start) - start, end=min(span.end, end) - start)
        for span in spans
        if span.start < end and span.end > start
    ]
    clipped = [span for span in clipped if not piece[span.start : span.end].isspace()]
    if len(clipped) > MAX_ENTITIES:
        clipped = sorted(clipped, key=lambda span: _IMPORTANCE.index(span.kind))[:MAX_ENTITIES]
        clipped.sort(key=_order)
    offsets = utf16_offsets(piece, [edge for span in clipped for edge in (span.start, span.end)])
    entities = tuple(
        Entity(
            kind=_BY_IMPORTANCE[span.kind],
            offset=offset,
            length=stop - offset,
            url=span.detail if span.kind == "link" else "",
            language=span.detail if span.kind == "pre" else "",
        )
        for span, offset, stop in zip(clipped, offsets[::2], offsets[1::2], strict=True)
    )
    return Formatted(text=piece, entities=entities)
