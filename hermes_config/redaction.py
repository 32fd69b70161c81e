"""Hide secrets in text that leaves Hermes: known values in every spelling, and whatever looks like a key or token.

Never for text given to a model: it would write `[hidden]` back into files. Takes time in proportion to the text,
whatever the text is.
"""

import base64
import json
import re
import string
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
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

_SHAPES = (*GENERAL_SHAPES, *(shape for config in PLATFORMS.values() for shape in config.shapes))
_OPENINGS = tuple(opening for shape in _SHAPES for opening in shape.openings)
_KEY_OPEN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}(?:-{0,4}\Z|-----)")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")
# A secret follows these words.
_ANNOUNCED = re.compile(r"(?i:bearer|authorization\W{0,4}(?:\s+(?:basic|token))?)\s+\Z")
_BEGINNING = re.compile(rf"(?:{'|'.join(shape.beginning for shape in _SHAPES if shape.beginning)})\Z")
_NOT_VISIBLE = re.compile(r"[^!-~]")
_DASH = re.compile("-")


class Redactor:
    """Hides the given values and everything that looks like a secret. Ignores values that are too short."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if len(value) >= SHORTEST_CHARS}
        long = {value for value in known if len(value) >= _ANYWHERE_CHARS}
        self._forms = sorted({form for value in long for form in (*_spell(value), *_encode_base64(value))})
        self._words = sorted({form for value in known - long for form in _spell(value)})
        self._beginnings = sorted((*self._forms, *self._words, *_OPENINGS))
        self._longest_chars = max(map(len, self._beginnings))

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
        joined: list[Span] = []
        for start, end in sorted(span for span in found if not _is_hidden(text, span)):
            if joined and start < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined

    def find_beginning(self, text: str) -> int:
        """Return where a known value or an opening may begin at the end of the text; its length if nowhere.

        Inside of a word that takes four characters of a known value.
        """
        for at in range(max(len(text) - self._longest_chars, 0), len(text)):
            rest = text[at:]
            if not (at and text[at - 1].isalnum()):
                if _is_prefix(rest, self._beginnings):
                    return at
            elif len(rest) >= SHORTEST_CHARS and _is_prefix(rest, self._forms):
                return at
        return len(text)


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


def _is_prefix(text: str, in_order: Sequence[str]) -> bool:
    """Tell whether one of the sorted strings begins with the text."""
    at = bisect_left(in_order, text)
    return at < len(in_order) and in_order[at].startswith(text)
