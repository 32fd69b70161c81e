"""Measure, clean and cut plain text for chat platforms.

Everything here is pure and gives the same answer for the same text: delivery resumes at piece k after a crash.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from tools.content import MediaKind, encodable

Measure = Callable[[str], int]
"""Measures a text as a platform does: at least one per character, and the parts add up to the whole."""

Ranges = Sequence[tuple[int, int]]

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_PARAGRAPH, _LINE, _WORD = re.compile(r"(?=\n\n)"), re.compile(r"(?=\n)"), re.compile(r"(?=\s)")
_SENTENCE = re.compile(r"[.!?…:;]+[\"'”’)\]*_]*(?=\s)|[。！？；…][”’」』）]*")
_COARSE_TO_FINE = (  # and whether what should stay whole may be divided there
    (_PARAGRAPH, False), (_LINE, False), (_LINE, True), (_SENTENCE, False), (_WORD, False), (_WORD, True),
)  # fmt: skip
_BLANK_LINES = re.compile(r"\s*\n")
_GAP = re.compile(r"\s*\n|\s+")  # the newline wins: what stands before the next line's first word is its indentation
_MAX_NAME_CHARS = 100
_GRAPHEME_CHARS = 64  # nobody's emoji or letter is longer; beyond that it is noise and may be cut


def utf16_len(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_offsets(text: str, indexes: Iterable[int]) -> list[int]:
    """Turn indexes into `text` into UTF-16 offsets, in one pass over the text."""
    if text.isascii():
        return list(indexes)
    astral = [match.start() for match in _ASTRAL.finditer(text)]
    return [index + bisect_left(astral, index) for index in indexes]


def one_line(name: object) -> str:
    """Make a name that somebody gave short, and unable to look like anything but a name."""
    return " ".join(encodable(str(name or "")).split())[:_MAX_NAME_CHARS]


def media_kind(mime: str) -> MediaKind:
    family = mime.partition("/")[0]
    return cast(MediaKind, family) if family in ("image", "audio", "video") else "file"


def tidy(text: str) -> str:
    """Make line ends newlines, replace half surrogate pairs and drop the blank lines around."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = encodable(text).rstrip()
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


def describe_size_limit(max_bytes: int) -> str:
    return f"it is larger than {max_bytes // 1_000_000} MB"


# Where to cut


def find_reach(text: str, start: int, limit: int, measure: Measure) -> int:
    """Return the farthest end of a piece from `start`; one character always gets through, or nothing ever would."""
    high = min(len(text), start + limit)
    if measure(text[start:high]) <= limit:
        return max(high, start + 1)
    low = start + 1
    while high - low > 1:
        middle = (low + high) // 2
        if measure(text[start:middle]) <= limit:
            low = middle
        else:
            high = middle
    return low


def best_cut(text: str, start: int, stop: int, whole: Ranges = ()) -> int:
    """Return the best place in `(start, stop]` to end a piece that cannot go beyond `stop`.

    Paragraph, line, sentence, word, character: a coarser place is taken only where it leaves the piece at least
    half full. `whole` are ascending ranges (code, links) that are cut only when nothing else is left.
    """
    floor = start + (stop - start + 1) // 2
    for pattern, may_divide in _COARSE_TO_FINE:
        places = [match.end() for match in pattern.finditer(text, floor, stop + 2)]
        for place in reversed(places):
            if place <= stop and (may_divide or not _range_around(whole, place)):
                return place
    around = _range_around(whole, stop)
    if around and around[0] >= floor:
        return around[0]
    # Back off from the middle of what people see as one character.
    near = range(stop, max(start, stop - _GRAPHEME_CHARS), -1)
    return next((cut for cut in near if cut == len(text) or not _joined(text, cut)), stop)


def find_resumption(text: str, cut: int) -> int:
    """Return where the next piece begins: after the white space at the cut, but with its line's indentation."""
    gap = _GAP.match(text, cut)
    return gap.end() if gap else cut


def _range_around(ranges: Ranges, place: int) -> tuple[int, int] | None:
    index = bisect_left(ranges, (place, 0)) - 1
    if index >= 0 and ranges[index][0] < place < ranges[index][1]:
        return ranges[index]
    return None


def _joined(text: str, cut: int) -> bool:
    here, before = text[cut], text[cut - 1]
    if here.isascii() and before.isascii():
        return False
    if here == "\u200d" or before == "\u200d" or "\U0001f3fb" <= here <= "\U0001f3ff":
        return True  # joined emoji; skin tones
    if "\U0001f1e6" <= here <= "\U0001f1ff":
        flags = cut
        while flags > 0 and "\U0001f1e6" <= text[flags - 1] <= "\U0001f1ff" and cut - flags < _GRAPHEME_CHARS:
            flags -= 1
        return (cut - flags) % 2 == 1  # a flag is a pair of letters
    return unicodedata.category(here)[0] == "M" or "\U000e0020" <= here <= "\U000e007f"
