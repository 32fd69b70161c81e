"""Text for chat platforms: what of it can be kept, how long it is, where it is best cut, and Markdown in pieces.

Everything here is pure and gives the same answer for the same text: delivery resumes at piece k after a crash.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.parts import encodable

Measure = Callable[[str], int]
"""How long a text is for a platform: at least one per character, and the parts add up to the whole."""

Ranges = Sequence[tuple[int, int]]

FENCE = re.compile(r"(?P<lead>[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?)(?P<marks>`{3,}+|~{3,}+)(?P<info>[^\n]*+)")
"""A line that may open or close fenced code, matched from its start."""

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SENTENCE = re.compile(r"[.!?…:;]+[\"'”’)\]*_]*(?=\s)|[。！？；…][”’」』）]*")
_SPACE = re.compile(r"\s")
_BLANK_LINES = re.compile(r"\s*\n")
_GAP = re.compile(r"\s*\n|\s+")  # the newline wins: what stands before the next line's first word is its indentation
_FENCE_LINE = re.compile("^" + FENCE.pattern, re.MULTILINE)
_INLINE = re.compile(
    r"`[^`\n]++`|!?\[[^\[\]\n]*+\]\([^()\s]*+\)|\*\*[^*\n]++\*\*|~~[^~\n]++~~|\|\|[^|\n]++\|\||__[^_\n]++__"
)
_MAX_NAME_CHARS = 100
_LOOKAHEAD_CHARS = 500  # an inline mark that begins before a cut is looked for this far behind it
_GRAPHEME_CHARS = 64  # nobody's emoji or letter is longer; beyond that it is noise and may be cut


def utf16_len(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_offsets(text: str, indexes: Iterable[int]) -> list[int]:
    """Python indexes into `text` as UTF-16 offsets, in one pass over the text."""
    if text.isascii():
        return list(indexes)
    astral = [match.start() for match in _ASTRAL.finditer(text)]
    return [index + bisect_left(astral, index) for index in indexes]


def one_line(name: object) -> str:
    """A name that somebody gave: short, and unable to look like anything but a name."""
    return " ".join(encodable(str(name or "")).split())[:_MAX_NAME_CHARS]


def tidy(text: str) -> str:
    """Line ends as newlines, half surrogate pairs (which no platform can encode) replaced, no blank lines around."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = encodable(text).rstrip()
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


# Where to cut: shared by everyone.


def reach(text: str, start: int, limit: int, measure: Measure) -> int:
    """The farthest end of a piece from `start`; one character always gets through, or nothing ever would."""
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
    """The best place in `(start, stop]` to end a piece that cannot go beyond `stop`.

    Paragraph, line, sentence, word, character: a coarser place is taken only where it leaves the piece at least
    half full. `whole` are ascending ranges (code, links) that are cut only when nothing else is left.
    """
    floor = start + (stop - start + 1) // 2
    for places, may_divide in _COARSE_TO_FINE:
        for place in places(text, floor, stop):
            if may_divide or not _range_around(whole, place):
                return place
    around = _range_around(whole, stop)
    if around and around[0] >= floor:
        return around[0]
    return _between_characters(text, start, stop)


def resume(text: str, cut: int) -> int:
    """Where the next piece begins: after the white space at the cut, but with its line's indentation."""
    gap = _GAP.match(text, cut)
    return gap.end() if gap else cut


def _found(token: str) -> Callable[[str, int, int], Iterator[int]]:
    def places(text: str, floor: int, stop: int) -> Iterator[int]:
        end = stop + len(token)
        while (place := text.rfind(token, floor, end)) >= 0:
            yield place
            end = place + len(token) - 1

    return places


def _sentences(text: str, floor: int, stop: int) -> Iterable[int]:
    ends = [match.end() for match in _SENTENCE.finditer(text, floor, stop + 1)]
    return [end for end in reversed(ends) if end <= stop]


def _words(text: str, floor: int, stop: int) -> Iterable[int]:
    return reversed([match.start() for match in _SPACE.finditer(text, floor, stop + 1)])


_COARSE_TO_FINE: tuple[tuple[Callable[[str, int, int], Iterable[int]], bool], ...] = (
    (_found("\n\n"), False),
    (_found("\n"), False),
    (_found("\n"), True),
    (_sentences, False),
    (_words, False),
    (_words, True),
)


def _range_around(ranges: Ranges, place: int) -> tuple[int, int] | None:
    index = bisect_left(ranges, (place, 0)) - 1
    if index >= 0 and ranges[index][0] < place < ranges[index][1]:
        return ranges[index]
    return None


def _between_characters(text: str, start: int, stop: int) -> int:
    """Backs off from the middle of what people see as one character."""
    for cut in range(stop, max(start, stop - _GRAPHEME_CHARS), -1):
        if cut == len(text) or not _joined(text, cut):
            return cut
    return stop


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


# Markdown source in pieces.


def split_markdown(text: str, limit: int, measure: Measure = len) -> list[str]:
    """Markdown in pieces of at most `limit`, each of which stands alone: fences are closed and opened again.

    A fence whose two lines would take half the limit is treated as text.
    """
    splitter = _Splitter(tidy(text), limit, measure)
    return [piece for piece in splitter.pieces() if piece.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fence:
    start: int
    body: int  # after the opening line
    body_end: int  # before the closing line, or the end of the text
    end: int
    opening: str
    closing: str
    closed: bool


class _Splitter:
    def __init__(self, text: str, limit: int, measure: Measure) -> None:
        self._text, self._limit, self._measure = text, limit, measure
        self._fences = [
            fence for fence in _fences(text) if measure(fence.opening) + measure(fence.closing) + 2 <= limit // 2
        ]
        self._starts = [fence.start for fence in self._fences]

    def pieces(self) -> Iterator[str]:
        start = 0
        while start < len(self._text):
            piece, start = self._piece(start)
            yield piece

    def _piece(self, start: int) -> tuple[str, int]:
        text = self._text
        inside = self._fence_around(start)
        head = inside.opening + "\n" if inside else ""
        room = self._limit - self._measure(head)
        stop = reach(text, start, room, self._measure)
        if stop == len(text) and self._fits(start, room):
            return head + text[start:] + self._last_closing(), stop
        cut = best_cut(text, start, stop, self._whole(start, stop))
        fence = self._fence_around(cut)
        if fence:  # then there must be room for closing it, whichever it is
            room -= max(self._measure(each.closing) + 1 for each in self._within(start, stop))
            stop = reach(text, start, room, self._measure)
            cut = best_cut(text, start, stop, self._whole(start, stop))
            fence = self._fence_around(cut)
        if fence is None:
            return head + text[start:cut].rstrip(), resume(text, cut)
        if cut <= fence.body and fence.start > start:  # an opening line alone is no use at the end of a piece
            return head + text[start : fence.start].rstrip(), fence.start
        after = resume(text, cut)
        if after >= fence.body_end:
            after = resume(text, fence.end)
        body = text[start : min(cut, fence.body_end)].rstrip()
        return (head + body).rstrip("\n") + "\n" + fence.closing, after

    def _fits(self, start: int, room: int) -> bool:
        return self._measure(self._text[start:]) + self._measure(self._last_closing()) <= room

    def _last_closing(self) -> str:
        last = self._fences[-1] if self._fences else None
        return "" if last is None or last.closed else "\n" + last.closing

    def _fence_around(self, place: int) -> _Fence | None:
        index = bisect_left(self._starts, place) - 1
        if index < 0:
            return None
        fence = self._fences[index]
        return fence if place < fence.end or (place == fence.end and not fence.closed) else None

    def _within(self, start: int, stop: int) -> list[_Fence]:
        first = max(0, bisect_right(self._starts, start) - 1)
        return [fence for fence in self._fences[first : bisect_right(self._starts, stop)] if fence.end > start]

    def _whole(self, start: int, stop: int) -> Ranges:
        fences = [(fence.start, fence.end) for fence in self._within(start, stop)]
        marks = (match.span() for match in _INLINE.finditer(self._text, start, stop + _LOOKAHEAD_CHARS))
        outside = [mark for mark in marks if not any(begin < mark[1] and mark[0] < end for begin, end in fences)]
        return sorted(fences + outside)


def _fences(text: str) -> Iterator[_Fence]:
    opened: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opened is None:
            opened = line if opens_fence(line) else None
        elif closes_fence(opened, line):
            yield _fence(text, opened, line)
            opened = None
    if opened:
        yield _fence(text, opened, None)


def opens_fence(line: re.Match[str]) -> bool:
    return line["marks"][0] == "~" or "`" not in line["info"]


def closes_fence(opened: re.Match[str], line: re.Match[str]) -> bool:
    return (
        line["marks"].startswith(opened["marks"])
        and not line["info"].strip()
        and not line["lead"].strip(" \t>")
        and (">" in line["lead"]) == (">" in opened["lead"])
    )


def _fence(text: str, opened: re.Match[str], closed: re.Match[str] | None) -> _Fence:
    lead = re.sub(r"[^ \t>]", " ", opened["lead"])  # a bullet is not repeated
    return _Fence(
        start=opened.start(),
        body=min(opened.end() + 1, len(text)),
        body_end=closed.start() if closed else len(text),
        end=closed.end() if closed else len(text),
        opening=lead + opened["marks"] + opened["info"].rstrip(),
        closing=lead + opened["marks"],
        closed=closed is not None,
    )
