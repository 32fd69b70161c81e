"""Hide secrets in text that leaves Hermes: known values in every spelling, and whatever looks like a key or token.

Never for text given to a model: it would write `[hidden]` back into files. Takes time in proportion to the text,
whatever the text is.
"""

import base64
import json
import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from hermes_config.platforms import PLATFORMS
from hermes_config.secret_shapes import GENERAL_SHAPES, LONGEST_KEY_CHARS, PRIVATE_KEY, Span

HIDDEN = "[hidden]"
NOTE = "Something that looks like a secret was hidden."

SHORTEST_CHARS = 4  # shorter values occur everywhere by chance
_ANYWHERE_CHARS = 8  # shorter ones are hidden as whole words: a password "test" must not eat every "latest"
_SAFE_IN_URLS = ("", "/", "!'()*", "!'()*~", "/:@!$&'()*+,;=")  # as several languages quote
_VISIBLE = string.digits + string.ascii_letters + string.punctuation
_LOOK_BACK_CHARS = 100
_MARKS_PER_CHAR = 4  # a secret with more marks between its characters is not held back in a stream

_SHAPES = (*GENERAL_SHAPES, *(shape for config in PLATFORMS.values() for shape in config.shapes))
_OPENINGS = tuple(opening for shape in _SHAPES for opening in shape.openings)
_KEY_OPEN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}(?:-{0,4}\Z|-----)")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")
# A secret follows these words.
_ANNOUNCED = re.compile(r"(?i:bearer|authorization\W{0,4}(?:\s+(?:basic|token))?)\s+\Z")
_BEGINNING = re.compile(rf"(?:{'|'.join(shape.beginning for shape in _SHAPES if shape.beginning)})\Z")
_NOT_VISIBLE = re.compile(r"[^!-~]")
_DASH = re.compile("-")
# Marks that split a secret without changing it for a reader: Markdown and characters without width inside of a word,
# needless escapes in a URL (also escaped again) and, for known values, line breaks with the start of the next line.
_MARK = r"[*`~|\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
_BREAK = r"\\?\r?\n[ \t>]*+"
_ESCAPE = r"%(?:25)*+(?!20)([2-7][0-9A-Fa-f])"
_UNMARKED = r"[!-)+-_a-{}]"  # visible, and none of the marks
_WITHIN_A_LINE = re.compile(rf"(?<={_UNMARKED}){_MARK}++(?={_UNMARKED})|{_ESCAPE}")
_WITHIN_A_TEXT = re.compile(rf"(?<={_UNMARKED})(?:{_MARK}|{_BREAK})++(?={_UNMARKED})|{_ESCAPE}")
_BEGUN_MARK = re.compile(rf"(?:(?<={_UNMARKED})(?:{_MARK}|{_BREAK})++(?:\\?\r?)|%(?:25)*+[2-7]?|\\\r?|\r)\Z")
_SECRET_HALF = re.compile(r"(?:[:.]([A-Za-z0-9_-]{20,})|-([A-Za-z0-9]{20,}))\Z")


class Redactor:
    """Hides the given values and everything that looks like a secret. Ignores values that are too short."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if len(value) >= SHORTEST_CHARS}
        known |= {half[1] or half[2] for value in known if (half := _SECRET_HALF.search(value))}
        long = {value for value in known if len(value) >= _ANYWHERE_CHARS}
        self._forms = sorted({form for value in long for form in (*_spell(value), *_encode_base64(value))})
        self._words = sorted({form for value in known - long for form in _spell(value)})
        bare = {_Bare.of(form, _WITHIN_A_TEXT).text for form in self._forms}
        self._bare_forms = sorted(form for form in bare if len(form) >= _ANYWHERE_CHARS)
        beginnings = (*self._forms, *self._words, *_OPENINGS)
        self._longest_chars = max(map(len, beginnings))
        self._begins_word, self._begins_anywhere = _Prefixes(beginnings), _Prefixes(self._forms)
        self._begins_bare = _Prefixes(self._bare_forms)

    def clean(self, text: str) -> str:
        """Return the same object when there is nothing to hide. Cleaning twice changes nothing."""
        spans = self.find(text)
        return _replace(text, spans) if spans else text

    def clean_json(self, text: str) -> str:
        """Clean JSON text, which may be broken, including secrets written with escapes."""
        cleaned = self.clean(text)
        if "\\" not in cleaned:
            return cleaned
        try:
            parsed = json.loads(cleaned)
        except (ValueError, RecursionError):
            return cleaned
        hidden = self.clean_all(parsed)
        return cleaned if hidden == parsed else json.dumps(hidden, ensure_ascii=False)

    def clean_all(self, value: Any) -> Any:
        """Clean a structure, keys too. Anything but text, numbers, mappings and sequences becomes its `repr`."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {self.clean_all(key): self.clean_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.clean_all(item) for item in value]
        return self.clean(value if isinstance(value, str) else repr(value))

    def clean_excerpt(self, text: str) -> str:
        """Clean text that is cut at an ellipsis, including the part of a known value next to the cut."""
        text = self.clean(text)
        inner = text.strip("…")
        start = max((_overlap(inner[::-1], form[::-1]) for form in self._forms), default=0) if text[:1] == "…" else 0
        end = max((_overlap(inner, form) for form in self._forms), default=0) if text[-1:] == "…" else 0
        before = f"…{HIDDEN}" if start >= SHORTEST_CHARS else text[: text.index(inner) + start]
        after = f"{HIDDEN}…" if end >= SHORTEST_CHARS else text[text.index(inner) + len(inner) - end :]
        return f"{before}{inner[start : max(len(inner) - end, start)]}{after}"

    def find(self, text: str) -> list[Span]:
        """Return what to hide, in order and without overlaps."""
        found = [span for shape in _SHAPES for span in shape.find(text)]
        patterns = [re.escape(form) for form in self._forms if form in text]
        patterns += [rf"(?<!\w){re.escape(word)}(?!\w)" for word in self._words if word in text]
        found += [match.span() for pattern in patterns for match in re.finditer(pattern, text)]
        found += self._find_disguised(text)
        joined: list[Span] = []
        for start, end in sorted(span for span in found if not _is_hidden(text, span)):
            if joined and start < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined

    def _find_disguised(self, text: str) -> Iterator[Span]:
        plain = _strip(text, _WITHIN_A_TEXT)
        if plain is not text and (present := [form for form in self._bare_forms if form in plain]):
            bare = _Bare.of(text, _WITHIN_A_TEXT)
            for form in present:
                yield from (bare.locate(match.span()) for match in re.finditer(re.escape(form), plain))
        plain = _strip(text, _WITHIN_A_LINE)
        if plain is not text and (spans := [span for shape in _SHAPES for span in shape.find(plain)]):
            bare = _Bare.of(text, _WITHIN_A_LINE)
            yield from (bare.locate(span) for span in spans)

    def find_beginning(self, text: str) -> int:
        """Return where a known value or an opening may begin at the end of the text; its length if nowhere.

        Inside of a word that takes four characters of a known value.
        """
        at = self._find_prefix(text, self._begins_word, self._begins_anywhere)
        tail = max(len(text) - _MARKS_PER_CHAR * self._longest_chars, 0)
        begun = _BEGUN_MARK.search(text, tail)
        if begun is None and not _WITHIN_A_TEXT.search(text, tail):
            return at
        bare = _Bare.of(text[tail : begun.start() if begun else len(text)], _WITHIN_A_TEXT)
        begins = self._find_prefix(bare.text, self._begins_bare, self._begins_bare)
        return min(at, tail + bare.locate((begins, begins + 1))[0]) if begins < len(bare.text) else at

    def _find_prefix(self, text: str, of_words: "_Prefixes", anywhere: "_Prefixes") -> int:
        for at in range(max(len(text) - self._longest_chars, 0), len(text)):
            if not (at and text[at - 1].isalnum()):
                if of_words.fit(text, at):
                    return at
            elif len(text) - at >= SHORTEST_CHARS and anywhere.fit(text, at):
                return at
        return len(text)


class _Prefixes:
    """The beginnings of some strings."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._in_order = sorted(strings)
        self._starts = frozenset(one[:3] for one in self._in_order)

    def fit(self, text: str, at: int) -> bool:
        """Tell whether one of the strings begins with all of the text from here on."""
        if at + 3 <= len(text) and text[at : at + 3] not in self._starts:  # mostly so, and much faster
            return False
        rest = text[at:]
        found = bisect_left(self._in_order, rest)
        return found < len(self._in_order) and self._in_order[found].startswith(rest)


@dataclass(frozen=True, slots=True)
class _Bare:
    """A text without marks, and where each of its pieces comes from."""

    text: str
    pieces: list[tuple[int, int, int]]  # where it begins here, where it began, and for an escape where that ended

    @classmethod
    def of(cls, text: str, marks: re.Pattern[str]) -> "_Bare":
        kept, pieces, chars, at = [], [], 0, 0
        for mark in marks.finditer(text):
            kept.append(text[at : mark.start()])
            pieces.append((chars, at, 0))
            chars += mark.start() - at
            if mark[1]:
                kept.append(_decode(mark))
                pieces.append((chars, *mark.span()))
                chars += 1
            at = mark.end()
        return cls("".join([*kept, text[at:]]), [*pieces, (chars, at, 0)])

    def locate(self, span: Span) -> Span:
        """Return the span in the original text."""
        first, last = (
            self.pieces[bisect_right(self.pieces, at, key=lambda piece: piece[0]) - 1] for at in (span[0], span[1] - 1)
        )
        return first[1] + span[0] - first[0], last[2] or last[1] + span[1] - last[0]


class Stream:
    """Text that arrives in pieces: whatever may be the beginning of a secret is held back until that is known.

    Up to three characters of a secret that begins inside of a word may be shown.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.forget()

    def feed(self, piece: str) -> str:
        """Return what may be shown now."""
        self._pieces.append(piece)
        self._pieces_chars += len(piece)
        # An unfinished word is waited for without a limit: scanning it again and again would take too long.
        is_too_long = self._waits_for is _DASH and self._pieces_chars > LONGEST_KEY_CHARS
        if self._waits_for and not self._waits_for.search(piece) and not is_too_long:
            return ""
        text = self._join()
        spans = self._redactor.find(text)
        end = max(self._find_settled(text), self._shown)
        return self._show(text, max(self._shown, min([end, *(a for a, b in spans if a < end < b)])), spans)

    def rest(self) -> str:
        """Return what was held back, when nothing follows it."""
        text = self._join()
        rest = self._show(text, len(text), self._redactor.find(text))
        self.forget()
        return rest

    def forget(self) -> None:
        """Start again with empty text."""
        self._text = ""  # held back, after a little of what was shown
        self._shown = 0  # characters of it
        self._pieces: list[str] = []
        self._pieces_chars = 0
        self._waits_for: re.Pattern[str] | None = None  # everything is held back until this occurs

    def _join(self) -> str:
        text = "".join((self._text, *self._pieces))
        self._pieces.clear()
        self._pieces_chars = 0
        return text

    def _show(self, text: str, end: int, spans: list[Span]) -> str:
        shown, base = self._shown, max(end - _LOOK_BACK_CHARS, 0)
        self._text, self._shown = text[base:], end - base
        return _replace(
            text[shown:end], [(max(start, shown) - shown, stop - shown) for start, stop in spans if shown < stop <= end]
        )

    def _find_settled(self, text: str) -> int:
        """Return how much of the text no secret can reach into any more."""
        self._waits_for = None
        key = text.rfind(PRIVATE_KEY.openings[0])
        is_recent = key >= 0 and key > len(text) - LONGEST_KEY_CHARS
        if is_recent and _KEY_OPEN.match(text, key) and not _KEY_END.search(text, key):
            self._waits_for = _DASH
            return key
        word = len(text.rstrip(_VISIBLE))
        opened = [at for opening in _OPENINGS if (at := text.find(opening, word)) >= 0]
        if word < len(text) and _ANNOUNCED.search(text, max(word - _LOOK_BACK_CHARS, 0), word):
            opened.append(word)
        if opened:
            self._waits_for = _NOT_VISIBLE
        if beginning := _BEGINNING.search(text, max(word, len(text) - _LOOK_BACK_CHARS)):
            opened.append(beginning.start())
        return min([*opened, self._redactor.find_beginning(text)])


def _spell(value: str) -> set[str]:
    """Return a value as it is written in plain text, in JSON, in JSON inside of JSON, and in URLs."""
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    in_json |= {json.dumps(one, ensure_ascii=False)[1:-1] for one in in_json}
    quoted = {quote(value, safe=safe, errors="replace") for safe in _SAFE_IN_URLS}
    quoted.add(quote_plus(value, errors="replace"))
    lower = {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), one) for one in quoted}
    return {value, *in_json, *quoted, *lower}


def _encode_base64(value: str) -> set[str]:
    """Return the three ways a value looks inside of longer base64, depending on where it begins."""
    raw = value.encode("utf-8", "surrogatepass")
    forms = set()
    for before, first in ((0, 0), (1, 2), (2, 3)):  # characters that depend on the neighbours are left out
        last = 8 * (before + len(raw)) // 6
        padded = bytes(before) + raw
        forms |= {encode(padded).decode()[first:last] for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return forms


def _is_hidden(text: str, span: Span) -> bool:
    """Tell whether the span lies within an earlier `[hidden]`: a password may be "hidden"."""
    start, end = span
    at = text.find(HIDDEN, max(end - len(HIDDEN), 0), start + len(HIDDEN))
    return 0 <= at <= start and end <= at + len(HIDDEN)


def _replace(text: str, spans: list[Span]) -> str:
    pieces, shown = [], 0
    for start, end in spans:
        pieces += [text[shown:start], HIDDEN]
        shown = end
    return "".join([*pieces, text[shown:]])


def _overlap(text: str, form: str) -> int:
    """Return how many characters of the form's beginning are at the end of the text."""
    longest = min(len(text), len(form))
    return next((size for size in range(longest, 0, -1) if text.endswith(form[:size])), 0)


def _strip(text: str, marks: re.Pattern[str]) -> str:
    """Return the text without marks; the same object if it has none."""
    if marks.search(text) is None:
        return text
    return marks.sub(_decode, text) if "%" in text else marks.sub("", text)


def _decode(mark: re.Match[str]) -> str:
    return chr(int(mark[1], 16)) if mark[1] else ""
