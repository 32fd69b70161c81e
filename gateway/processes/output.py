"""Reads what a background process wrote, from where its chat was told; what is shown of it is its end."""

import codecs

from gateway.processes.messages import Fresh
from tools.ansi import plain
from tools.backends import supervised
from tools.backends.base import Spawned

_READ_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16


def read_lines(spawned: Spawned, since: int) -> tuple[Fresh, int]:
    """Whole lines, and where the next one begins: the rest of a line is told with it."""
    tail, lines_before, is_gapped, end = _read(spawned, since)
    if whole := tail.rpartition(b"\n")[0]:
        return _fresh(whole, lines_before, is_gapped), end - len(tail) + len(whole) + 1
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(tail)
    unfinished = len(decoder.getstate()[0])  # of a character some bytes are still to come
    return _fresh(tail[: len(tail) - unfinished], lines_before, is_gapped), end - unfinished


def read_rest(spawned: Spawned, since: int) -> Fresh:
    """Of one that has ended."""
    tail, lines_before, is_gapped, _ = _read(spawned, since)
    return _fresh(tail, lines_before, is_gapped)


def _read(spawned: Spawned, since: int) -> tuple[bytes, int, bool, int]:
    """The end of what was written since; how many lines came before it; whether some are gone; where it ends."""
    total = supervised.standing(
        spawned
    ).output_bytes  # asked once: who writes faster than we read would keep us for ever
    tail, lines_before, is_gapped, at = b"", 0, False, since
    while at < total:
        piece = supervised.output(spawned, since=at, max_bytes=_READ_BYTES)
        if not piece.content:
            break
        if piece.start > at:
            lines_before += tail.count(b"\n")
            tail, is_gapped = b"", True
        whole = tail + piece.content
        tail = whole[-_TAIL_BYTES:]
        lines_before += whole[: len(whole) - len(tail)].count(b"\n")
        at = piece.end
    return tail, lines_before, is_gapped, at


def _fresh(tail: bytes, lines_before: int, is_gapped: bool) -> Fresh:
    text = plain(tail.decode("utf-8", "replace"), from_terminal=True).replace("\r", "")
    return Fresh(text=text, lines_before=lines_before, is_gapped=is_gapped)
