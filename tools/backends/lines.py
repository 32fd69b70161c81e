"""Lines out of a file of any size, holding no more than is asked for."""

from collections.abc import Iterator
from typing import BinaryIO

from tools.backends.base import Line, LinesRead

MAX_LINE_BYTES = 4_000
MAX_LOOKED_AT_BYTES = 256_000_000
_LOOK_BYTES = 8_192
_CHUNK_BYTES = 1 << 20


def read_lines(file: BinaryIO, *, first: int, count: int) -> LinesRead | None:
    """Lines `first` to `first + count - 1`, counted from 1. None when it is no text."""
    if b"\0" in file.read(_LOOK_BYTES):
        return None
    file.seek(0)
    lines: list[Line] = []
    number = 0
    for number, (beginning, length) in enumerate(_each(file), start=1):
        if number >= first:
            lines.append(_line(beginning, length))
        if number >= first + count - 1 or file.tell() > MAX_LOOKED_AT_BYTES:
            break
    more, counted_all = _count_rest(file)
    return LinesRead(lines=tuple(lines), total_lines=number + more, counted_all=counted_all)


def _each(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The beginning of each line, and how long it is."""
    while piece := file.readline(MAX_LINE_BYTES):
        beginning, length = piece, len(piece)
        while not piece.endswith(b"\n") and (piece := file.readline(_CHUNK_BYTES)):
            length += len(piece)
        yield beginning, length


def _line(beginning: bytes, length: int) -> Line:
    text = beginning.decode("utf-8", "replace").rstrip("\r\n")
    return Line(text=text, left_out_bytes=length - len(beginning))


def _count_rest(file: BinaryIO) -> tuple[int, bool]:
    count, last = 0, b"\n"
    while chunk := file.read(_CHUNK_BYTES):
        count += chunk.count(b"\n")
        last = chunk[-1:]
        if file.tell() > MAX_LOOKED_AT_BYTES:
            return count, False
    return count + (last != b"\n"), True
