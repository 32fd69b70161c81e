"""What the child process finds in a file, and how it says that there is nothing to be had.

Everything in `inside`, `plain`, `pdf`, `office`, `sheets` and `package` runs in a process of its own, with limits: a
file may be made to harm whoever reads it.
"""

import time
from dataclasses import dataclass, field

LOCKED = "it is locked with a password; please send it without one"


class UnreadableFile(Exception):
    """The text says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    text: str = ""
    partial: bool = False  # there is more
    title: str = ""  # what the file is, where that is only known from its inside
    problem: str = ""


class Enough(Exception):
    """As much was read as is wanted."""


@dataclass(slots=True, kw_only=True)
class WordCollector:
    """Collects words until there are enough of them, or no time is left."""

    max_chars: int
    until: float  # by the monotonic clock
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
        """What was read in time is better than nothing."""
        if time.monotonic() > self.until:
            self.stop()

    @property
    def text(self) -> str:
        return "".join(self.pieces)[: self.max_chars].strip()
