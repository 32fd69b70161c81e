"""Hides secrets in text that leaves: values that we know, and what keys and tokens look like. Pure.

Never for what a model is given: it would write `[hidden]` back into files.

Everything here takes time in proportion to the text, whatever stands in it: a shape is tried only where the words it
begins with stand, takes all it can in one go, and nothing is read twice when it turns out to be harmless.
"""

import base64
import json
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
NOTE = "Something that looks like a secret was hidden."

SHORTEST_CHARS = 4  # what is shorter stands everywhere by chance
_ANYWHERE_CHARS = 8  # shorter ones are hidden as whole words: a password "test" must not eat every "latest"
_SAFE_IN_URLS = ("", "/", "!'()*", "!'()*~", "/:@!$&'()*+,;=")  # as several languages quote
_VISIBLE = string.digits + string.ascii_letters + string.punctuation
_LONGEST_KEY_CHARS = 20_000
_LOOKED_BACK_CHARS = 100

Span = tuple[int, int]


class Redactor:
    """Knows what to hide. Values that are empty or too short are left out."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if len(value) >= SHORTEST_CHARS}
        short = {form for value in known if len(value) < _ANYWHERE_CHARS for form in _spellings(value)}
        long = {value for value in known if len(value) >= _ANYWHERE_CHARS}
        forms = {form for value in long for form in (*_spellings(value), *_in_base64(value))}
        self._forms = tuple(sorted(forms, key=len, reverse=True))
        self._words = tuple(sorted(short, key=len, reverse=True))
        self._word = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, self._words))})(?!\w)")
        self._beginnings = (*self._forms, *self._words, *_OPENINGS)
        self._first = frozenset(form[0] for form in self._beginnings)
        self._loose = tuple(form for form in self._beginnings if form.strip(_VISIBLE))  # of more than one word

    def clean(self, text: str) -> str:
        """The same object when there is nothing to hide. What is clean stays as it is."""
        spans = self._spans(text)
        return _without(text, spans) if spans else text

    def clean_json(self, text: str) -> str:
        """JSON text, which may be broken; also of what is written with escapes and shows when it is read."""
        cleaned = self.clean(text)
        if "\\" not in cleaned:
            return cleaned
        try:
            read = json.loads(cleaned)
        except (ValueError, RecursionError):
            return cleaned
        hidden = self.clean_all(read)
        return cleaned if hidden == read else json.dumps(hidden, ensure_ascii=False)

    def clean_all(self, value: Any) -> Any:
        """Everything in a structure, keys too. What is neither text nor number becomes text, as it would be shown."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {self.clean_all(key): self.clean_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.clean_all(item) for item in value]
        return self.clean(value if isinstance(value, str) else repr(value))

    def clean_excerpt(self, text: str) -> str:
        """Of a text cut at an ellipsis: also a piece of a known value that stands at the cut."""
        text = self.clean(text)
        inner = text.strip("…")
        start = max((_overlap(inner[::-1], form[::-1]) for form in self._forms), default=0) if text[:1] == "…" else 0
        end = max((_overlap(inner, form) for form in self._forms), default=0) if text[-1:] == "…" else 0
        before = f"…{HIDDEN}" if start >= SHORTEST_CHARS else text[: text.index(inner) + start]
        after = f"{HIDDEN}…" if end >= SHORTEST_CHARS else text[text.index(inner) + len(inner) - end :]
        return f"{before}{inner[start : max(len(inner) - end, start)]}{after}"

    def _begins(self, text: str, word: int) -> int:
        """Where something begins at the end of the text that may be a known value or an opening; else its length."""
        longest = max(map(len, self._beginnings))
        for at in range(max(word, len(text) - longest), len(text)):
            if text[at] in self._first and (at == word or not text[at - 1].isalnum()):
                rest = text[at:]
                if any(form.startswith(rest) for form in self._beginnings):
                    return min(at, self._begins_inside(text, at))
        return self._begins_inside(text, len(text))

    def _begins_inside(self, text: str, end: int) -> int:
        """The same for what begins in the middle of a word, once four characters of it are there; and for phrases."""
        for form in self._forms:
            at = text.find(form[:SHORTEST_CHARS], max(len(text) - len(form), 0), end + SHORTEST_CHARS)
            while 0 <= at < end:
                if form.startswith(text[at:]):
                    end = at
                at = text.find(form[:SHORTEST_CHARS], at + 1, end + SHORTEST_CHARS)
        return min([end, *(len(text) - _overlap(text, form) for form in self._loose)])

    def _spans(self, text: str) -> list[Span]:
        """Where something is to be hidden: in order, and apart from each other."""
        found = [span for form in self._forms if form in text for span in _occurrences(form, text)]
        if any(word in text for word in self._words):
            found += [match.span() for match in self._word.finditer(text)]
        found += [span for shape in _SHAPES for opening in shape.openings for span in shape.find(opening, text)]
        if not found:
            return []
        # A password may be called "hidden", and one in an address may have been hidden before.
        return _joined(found if HIDDEN not in text else (span for span in found if not _is_mark(text, span)))


class Stream:
    """Text that comes in pieces: what may be the beginning of a secret is held back until that is known.

    Of one that stands in the middle of a word, three characters may have been shown before it could be known.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.forget()

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        self._more.append(piece)
        self._more_chars += len(piece)
        if self._waits_for and not self._waits_for.search(piece) and not self._is_too_long():
            return ""
        text = self._taken()
        spans = self._redactor._spans(text)
        end = max(self._settled(text), self._shown)
        end = max([self._shown, min([end, *(start for start, stop in spans if start < end < stop)])])
        return self._show(text, end, spans)

    def rest(self) -> str:
        """What was held back, when nothing follows it."""
        text = self._taken()
        rest = self._show(text, len(text), self._redactor._spans(text))
        self.forget()
        return rest

    def forget(self) -> None:
        self._text = ""  # what is held back, and before it a little of what was shown
        self._shown = 0  # of that
        self._more: list[str] = []
        self._more_chars = 0
        self._waits_for: re.Pattern[str] | None = None  # until then all is held back

    def _is_too_long(self) -> bool:
        """For a key. Words are waited for without a limit: looking again and again would take its time."""
        return self._waits_for is _DASH and self._more_chars > _LONGEST_KEY_CHARS

    def _taken(self) -> str:
        text = "".join((self._text, *self._more))
        self._more.clear()
        self._more_chars = 0
        return text

    def _show(self, text: str, end: int, spans: list[Span]) -> str:
        shown, base = self._shown, max(end - _LOOKED_BACK_CHARS, 0)
        self._text, self._shown = text[base:], end - base
        new = [(max(start, shown) - shown, stop - shown) for start, stop in spans if shown < stop <= end]
        return _without(text[shown:end], new)

    def _settled(self, text: str) -> int:
        """How much of it no secret can reach into any more."""
        word = len(text.rstrip(_VISIBLE))
        self._waits_for = None
        key = text.rfind(_KEY_BEGINS)
        if 0 <= key > len(text) - _LONGEST_KEY_CHARS and _KEY_OPEN.match(text, key) and not _KEY_END.search(text, key):
            self._waits_for = _DASH
            return key
        opened = [at for opening in _OPENINGS if (at := text.find(opening, word)) >= 0]
        if word < len(text) and _ANNOUNCED.search(text, max(word - _LOOKED_BACK_CHARS, 0), word):
            opened.append(word)
        if opened:
            self._waits_for = _NOT_VISIBLE
        if half := _HALF.search(text, max(word, len(text) - _LOOKED_BACK_CHARS)):
            opened.append(half.start())
        return min([*opened, self._redactor._begins(text, word)])


def _spellings(value: str) -> set[str]:
    """A value as it stands in plain text, in JSON, in JSON inside of JSON, and in addresses."""
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    in_json |= {json.dumps(one, ensure_ascii=False)[1:-1] for one in in_json}
    quoted = {quote(value, safe=safe, errors="replace") for safe in _SAFE_IN_URLS}
    quoted.add(quote_plus(value, errors="replace"))
    lower = {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), one) for one in quoted}
    return {value, *in_json, *quoted, *lower}


def _in_base64(value: str) -> set[str]:
    """As it stands in base64, also in the middle of something longer: three ways, by where it begins."""
    raw = value.encode("utf-8", "surrogatepass")
    forms = set()
    for before, first in ((0, 0), (1, 2), (2, 3)):  # characters that hang on what stands before it are left out
        last = 8 * (before + len(raw)) // 6
        padded = bytes(before) + raw
        forms |= {encode(padded).decode()[first:last] for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return forms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What a kind of secret looks like. The pattern is tried where one of the openings stands.

    Its group is hidden; `is_real` tells secrets from what people write in their place, and from other things.
    """

    openings: tuple[str, ...]
    pattern: re.Pattern[str]
    is_real: Callable[[str], bool]

    def find(self, opening: str, text: str) -> Iterator[Span]:
        at = text.find(opening)
        while at >= 0:
            match = self.pattern.match(text, at)
            if match and self.is_real(match[1]):
                yield match.span(1)
            at = text.find(opening, match.end() if match else at + len(opening))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behind:
    """A shape whose beginning could stand anywhere: it is known by its middle, and the rest is read backwards."""

    openings: tuple[str, ...]
    pattern: re.Pattern[str]
    before: re.Pattern[str]

    def find(self, opening: str, text: str) -> Iterator[Span]:
        if opening not in text:
            return
        for match in self.pattern.finditer(text):
            start = max(match.start() - _LOOKED_BACK_CHARS, 0)
            if before := self.before.search(text, start, match.start()):
                yield before.start(), match.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrivateKeys:
    openings: tuple[str, ...]

    def find(self, opening: str, text: str) -> Iterator[Span]:
        at, end = text.find(opening), (0, 0)
        while at >= 0:
            after = at + len(opening)
            if begin := _KEY_BEGIN.match(text, at):
                if end[0] < begin.end():  # looked for once, however many begin before it
                    found = _KEY_END.search(text, begin.end())
                    end = found.span() if found else (len(text) + _LONGEST_KEY_CHARS, 0)
                after = end[1] if end[0] - at < _LONGEST_KEY_CHARS else _end_of_lines(text, begin.end())
                if _KEY_LINE.search(text, begin.end(), after):
                    yield at, after
            at = text.find(opening, after)


def _end_of_lines(text: str, start: int) -> int:
    """Of a key that was cut off, or has no end mark: as far as it looks like one."""
    match = _KEY_LINES.match(text, start)
    return match.end() if match else start


def _is_varied(text: str) -> bool:
    """Not `xxxxxxxx`, as examples have it."""
    return len(set(text)) >= 8


def _is_mixed(text: str) -> bool:
    """Has a piece that no person would write: names in kebab case, with numbers in between, do not."""
    return _is_varied(text) and any(map(_is_random, re.split("[-_.]", text)))


def _is_random(piece: str) -> bool:
    kinds = (any(map(str.isdigit, piece)), any(map(str.isupper, piece)), any(map(str.islower, piece)))
    return (kinds[0] and any(kinds[1:]) and len(piece) >= 16) or (all(kinds) and len(piece) >= 8)


def _is_no_example(text: str) -> bool:
    return not _EXAMPLE.fullmatch(text)


_EXAMPLE = re.compile(r"\$\{?\w+\}?|\{+[\w.]*\}+|%\w*%?|[A-Z_]+|[*.…xX]+|(?i:your)[\w.-]*|\[hidden\]")
_SIGNED_IN = r"[A-Za-z0-9._~+/-]"
_SHAPES: tuple[_Shape | _Behind | _PrivateKeys, ...] = (
    _Shape(
        openings=("sk-",),  # OpenAI, Anthropic, OpenRouter and many after them
        pattern=re.compile(r"(?<![A-Za-z0-9])(sk-[A-Za-z0-9_-]{16,}+)"),
        is_real=_is_mixed,
    ),
    _Shape(
        openings=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_", "sk_live_", "rk_live_", "hf_"),
        pattern=re.compile(r"(?<![A-Za-z0-9_-])((?:gh[pousr]|npm|[sr]k_live|hf)_[A-Za-z0-9]{20,}+)"),
        is_real=_is_mixed,
    ),
    _Shape(
        openings=("github_pat_", "glpat-"),
        pattern=re.compile(r"(?<![A-Za-z0-9])((?:github_pat_|glpat-)[A-Za-z0-9_-]{20,}+)"),
        is_real=_is_mixed,
    ),
    _Shape(
        openings=("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        pattern=re.compile(r"(?<![A-Za-z0-9])((?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}+)"),
        is_real=lambda token: _is_varied(token) and any(map(str.isdigit, token)),
    ),
    _Shape(
        openings=("AKIA", "ASIA"),
        pattern=re.compile(r"(?<![A-Za-z0-9+/])((?:AKIA|ASIA)[A-Z0-9]{16})(?![A-Za-z0-9+/=])"),
        is_real=_is_varied,
    ),
    _Shape(
        openings=("AIza",),
        pattern=re.compile(r"(?<![A-Za-z0-9_+/-])(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_+/=-])"),
        is_real=_is_varied,
    ),
    _Shape(
        openings=("eyJ",),
        pattern=re.compile(r"(?<![A-Za-z0-9_-])(eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{16,}+(?:\.[\w-]++)*+)", re.ASCII),
        is_real=_is_varied,
    ),
    _Shape(
        openings=("hooks.slack.com/",),
        pattern=re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,}+)"),
        is_real=lambda path: _is_varied(path) and any(map(str.isdigit, path)),
    ),
    _Shape(
        openings=("/api/webhooks/",),
        pattern=re.compile(r"/api/webhooks/[0-9]{10,24}/([A-Za-z0-9_-]{40,}+)"),
        is_real=_is_varied,
    ),
    _Shape(
        openings=("uthorization", "UTHORIZATION"),
        pattern=re.compile(
            rf"""(?i:uthorization)\\?["']?\s{{0,3}}[:=]\s{{0,3}}\\?["']?(?:(?i:bearer|basic|token)\s{{1,3}})"""
            rf"({_SIGNED_IN}{{8,}}+={{0,2}})"
        ),
        is_real=_is_no_example,
    ),
    _Shape(
        openings=("Bearer", "bearer", "BEARER"),
        pattern=re.compile(rf"(?<![A-Za-z0-9])(?i:bearer)\s{{1,3}}({_SIGNED_IN}{{16,}}+={{0,2}})"),
        is_real=_is_mixed,
    ),
    _Shape(
        openings=("://",),
        pattern=re.compile(r"""://[^\s/:@?#"'<>\\]{0,100}+:([^\s/@?#"'<>\\]{1,300}+)@"""),
        is_real=_is_no_example,
    ),
    _Behind(  # Telegram's bots
        openings=(":",),
        pattern=re.compile(r":[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
        before=re.compile(r"(?<![0-9])[0-9]{8,10}\Z"),
    ),
    _Behind(  # Discord's
        openings=(".",),
        pattern=re.compile(r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+"),
        before=re.compile(r"(?<![A-Za-z0-9_.-])[MNO](?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{23,27}\Z"),
    ),
    _PrivateKeys(openings=("-----BEGIN ",)),
)
_KEY_BEGINS = "-----BEGIN "
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_KEY_OPEN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}(?:-{0,4}\Z|-----)")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}-----")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{16}")
_KEY_LINES = re.compile(
    r"(?:(?:[\s\"',+]|\\[nr])*+[A-Za-z0-9+/]{16,}+=*+)*+(?:(?:[\s\"',+]|\\[nr])*+[A-Za-z0-9+/]++(?:=++|\Z))?+"
)
_OPENINGS = tuple(opening for shape in _SHAPES if not isinstance(shape, _Behind) for opening in shape.openings)
# What a secret follows; and what may be the first half of one that has no opening, a bot's token.
_ANNOUNCED = re.compile(r"(?i:bearer|authorization\W{0,4}(?:\s+(?:basic|token))?)\s+\Z")
_HALF = re.compile(
    r"(?:(?<![0-9])[0-9]{1,10}(?::[A-Za-z0-9_-]{0,35})?"
    r"|(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{5,27}(?:\.[A-Za-z0-9_-]*+){0,2})\Z"
)
_NOT_VISIBLE = re.compile(r"[^!-~]")
_DASH = re.compile("-")


def _occurrences(form: str, text: str) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _is_mark(text: str, span: Span) -> bool:
    """Whether it lies in a place where something was hidden before."""
    start, end = span
    at = text.find(HIDDEN, max(end - len(HIDDEN), 0), start + len(HIDDEN))
    return 0 <= at <= start and end <= at + len(HIDDEN)


def _without(text: str, spans: list[Span]) -> str:
    pieces, shown = [], 0
    for start, end in spans:
        pieces += [text[shown:start], HIDDEN]
        shown = end
    return "".join([*pieces, text[shown:]])


def _overlap(text: str, form: str) -> int:
    """How much of the form's beginning stands at the end of the text."""
    longest = min(len(text), len(form))
    return next((size for size in range(longest, 0, -1) if text.endswith(form[:size])), 0)
