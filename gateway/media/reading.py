"""Readings of files, and how text files are read.

Everything here and in `child`, `pdf` and `office` runs in its own process, with limits: a file may be built to harm
its reader.
"""

import codecs
import time
from dataclasses import dataclass, field
from typing import BinaryIO

from gateway.media.kinds import looks_like_utf16

LOCKED = "it is locked with a password; please send it without one"
_MARKED = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class UnreadableFile(Exception):
    """A file that cannot be read; the text tells people why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    text: str = ""
    partial: bool = False  # the file has more text
    title: str = ""  # the format, where only the content tells it
    problem: str = ""


class Enough(Exception):
    """Stops reading: the limit of text or time is reached."""


@dataclass(slots=True, kw_only=True)
class WordCollector:
    """Collects text until there is enough of it, or no time is left."""

    max_chars: int
    until: float  # on the monotonic clock
    pieces: list[str] = field(default_factory=list)
    chars: int = 0
    partial: bool = False

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.chars += len(piece)
        if self.chars > self.max_chars:
            self.stop()

    def stop(self) -> None:
        self.partial = True
        raise Enough

    def check_time(self) -> None:
        """Stop when the time is over; the text read so far is kept."""
        if time.monotonic() > self.until:
            self.stop()

    @property
    def text(self) -> str:
        return "".join(self.pieces)[: self.max_chars].strip()


def read_text(file: BinaryIO, max_chars: int) -> Reading:
    content = file.read(4 * max_chars + 4)
    text = decode(content, whole=len(content) < 4 * max_chars + 4)
    partial = len(text) > max_chars or bool(file.read(1))
    return Reading(text=text[:max_chars].strip(), partial=partial)


def decode(content: bytes, *, whole: bool = True) -> str:
    """Decode text in an unknown encoding. Never fails: undecodable bytes are replaced."""
    encoding = next((name for mark, name in _MARKED if content.startswith(mark)), "") or looks_like_utf16(content)
    if encoding:
        return codecs.getincrementaldecoder(encoding)("replace").decode(content, final=whole)
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=whole)
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
