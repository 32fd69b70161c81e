"""Read the new output of a background process: its end, and how much came before."""

import codecs

from gateway.processes.messages import Fresh
from tools.ansi import plain
from tools.backends.base import ProcessControl, ProcessHandle

_READ_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16


async def read_lines(backend: ProcessControl, handle: ProcessHandle, since: int) -> tuple[Fresh, int]:
    """Return whole lines, and where the next one begins. An unfinished line is left for the next call."""
    tail, lines_before, is_gapped, end = await _read(backend, handle, since)
    if whole := tail.rpartition(b"\n")[0]:
        return _fresh(whole, lines_before, is_gapped), end - len(tail) + len(whole) + 1
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(tail)
    unfinished = len(decoder.getstate()[0])  # bytes of a character that is not complete yet
    return _fresh(tail[: len(tail) - unfinished], lines_before, is_gapped), end - unfinished


async def read_rest(backend: ProcessControl, handle: ProcessHandle, since: int) -> Fresh:
    """Return the end of the output of a process that has ended."""
    tail, lines_before, is_gapped, _ = await _read(backend, handle, since)
    return _fresh(tail, lines_before, is_gapped)


async def _read(backend: ProcessControl, handle: ProcessHandle, since: int) -> tuple[bytes, int, bool, int]:
    """Return the last output, how many lines came before it, whether some are lost, and where it ends."""
    # Ask once: a process that writes faster than we read would keep us here for ever.
    status = (await backend.statuses([handle])).get(handle.id)
    total = status.output_bytes if status else 0
    tail, lines_before, is_gapped, at = b"", 0, False, since
    while at < total:
        piece = await backend.read(handle, since=at, max_bytes=_READ_BYTES)
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
