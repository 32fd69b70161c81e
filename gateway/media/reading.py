"""Types shared with the child process that reads files.

Everything in `child`, `plain`, `pdf` and `office` runs in its own process, with limits: a file may be built to harm
its reader.
"""

import time
from dataclasses import dataclass, field

LOCKED = "it is locked with a password; please send it without one"


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
