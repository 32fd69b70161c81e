"""The three parse modes, as strict as the server: what is unbalanced or unescaped is refused with its place."""

import re
from dataclasses import dataclass

from playground.telegram.entities import Formatted
from playground.telegram.html import parse_html
from playground.telegram.links import custom_emoji_id, link_entity
from playground.telegram.rules import Refused, Wire, bad_request, utf16_length

_RESERVED = frozenset("_*[]()~`>#+-=|{}.!\n")
_NAMES = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "Pre",
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
    "blockquote": "BlockQuote",
}
_OPENERS = (  # the longer marker first
    ("__", "underline"),
    ("_", "italic"),
    ("*", "bold"),
    ("~", "strikethrough"),
    ("||", "spoiler"),
    ("```", "pre"),
    ("`", "code"),
    ("[", "text_link"),
    ("![", "custom_emoji"),
)
_CLOSERS = {kind: marker for marker, kind in _OPENERS} | {"text_link": "]", "custom_emoji": "]"}
_LANGUAGE = re.compile(r"([^\s`]+)(?=\s)")
_NEWLINE = re.compile(r"\r\n|\n\r|\n|\r")
# Most of a text means nothing: it is taken in one go, which makes the difference in a benchmark.
_RUN = re.compile(r"[^_*\[\]()~`>#+\-=|{}.!\n\\]+")
_CODE_RUN = re.compile(r"[^`\\]+")


def parse_markup(text: str, mode: str) -> Formatted:
    """The text without its markup; `mode` is what the bot gave as `parse_mode`."""
    parsers = {"markdownv2": _MarkdownV2.parse, "markdown": parse_markdown, "html": parse_html}
    if mode.lower() not in parsers:
        raise bad_request("unsupported parse_mode")
    try:
        return parsers[mode.lower()](text)
    except Refused as refusal:
        raise bad_request(f"can't parse entities: {refusal.description}") from None


def parse_markdown(text: str) -> Formatted:
    """The old mode: nothing nests, and only an entity without an end is wrong."""
    out, entities, at = "", [], 0
    while at < len(text):
        char = text[at]
        if char == "\\" and text[at + 1 : at + 2] in set("_*`["):
            out, at = out + text[at + 1 : at + 2], at + 2
        elif char in "_*`[":
            inner, entity, at = _old_entity(text, at)
            if inner and entity:
                entities.append({**entity, "offset": utf16_length(out), "length": utf16_length(inner)})
            out += inner
        else:
            out, at = out + char, at + 1
    return Formatted(out, entities)


def _old_entity(text: str, start: int) -> tuple[str, Wire | None, int]:
    marker = "```" if text.startswith("```", start) else text[start]
    end_marker = "]" if marker == "[" else marker
    at, kind = start + len(marker), {"_": "italic", "*": "bold", "`": "code", "```": "pre", "[": "text_link"}[marker]
    entity: Wire | None = {"type": kind}
    if kind == "pre":
        at, language = _after_fence(text, at)
        entity = {"type": kind, "language": language} if language else entity
    end = text.find(end_marker, at)
    if end < 0:
        raise Refused(400, f"Can't find end of the entity starting at byte offset {_bytes(text, start)}")
    inner, after = text[at:end], end + len(end_marker)
    if kind == "text_link":
        url = inner
        if text.startswith("(", after):
            closing = text.find(")", after)
            closing = len(text) if closing < 0 else closing
            url, after = text[after + 1 : closing], closing + 1
        entity = link_entity(url)
    return inner, entity, after


def _after_fence(text: str, at: int) -> tuple[int, str]:
    """Past the language and one line break behind an opening fence."""
    language = ""
    if match := _LANGUAGE.match(text, at):
        language, at = match[1], match.end()
    if match := _NEWLINE.match(text, at):
        at = match.end()
    return at, language


def _bytes(text: str, at: int) -> int:
    return len(text[:at].encode("utf-8", "surrogatepass"))


@dataclass(slots=True)
class _Open:
    kind: str
    start: int  # in the source
    offset: int  # in UTF-16 units of the result
    begin: int  # in pieces of the result
    language: str = ""


class _MarkdownV2:
    """One pass over the text with a stack of what is open; a quote ends with its line, all else with its marker."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.units = 0
        self.open: list[_Open] = []
        self.entities: list[Wire] = []
        self.in_quote = False
        self.line_starts = True

    @classmethod
    def parse(cls, text: str) -> Formatted:
        parser = cls(text)
        while parser.at < len(text):
            parser._step()
        parser._end()
        return Formatted("".join(parser.out), sorted(parser.entities, key=lambda one: (one["offset"], -one["length"])))

    def _step(self) -> None:
        in_code = self._top() in ("code", "pre")
        if run := (_CODE_RUN if in_code else _RUN).match(self.text, self.at):
            self._put(run[0])
            return
        char = self.text[self.at]
        following = self.text[self.at + 1 : self.at + 2]
        if char == "\\" and "\x00" < following <= "~":
            self.at += 1
            self._put(following)
        elif char not in ("`" if in_code else _RESERVED):
            self._put(char)
        elif self.in_quote and char == "\n" and following != ">":
            self._end_quote(char)
        elif self._closes():
            self._close()
        else:
            self._begin(char)

    def _top(self) -> str:
        return self.open[-1].kind if self.open else ""

    def _put(self, words: str) -> None:
        self.out.append(words)
        self.units += utf16_length(words)
        self.at += len(words)
        if seen := words.rstrip("\r"):
            self.line_starts = seen.endswith("\n")

    def _sees(self, marker: str) -> bool:
        return self.text.startswith(marker, self.at)

    def _closes(self) -> bool:
        kind = self._top()
        if kind in ("", "blockquote"):
            return False
        if kind == "italic":
            return self._sees("_") and not self._sees("__")
        return self._sees(_CLOSERS[kind])

    def _begin(self, char: str) -> None:
        if char == "\n":
            return self._put(char)
        if char == ">" and self.line_starts:
            if not self.in_quote:
                self.open.append(_Open("blockquote", self.at, self.units, len(self.out)))
                self.in_quote = True
            self.at += 1
            return None
        markers = [pair for pair in _OPENERS if self._sees(pair[0])]
        if not markers:
            raise Refused(400, f"Character '{char}' is reserved and must be escaped with the preceding '\\'")
        marker, kind = max(markers, key=lambda pair: len(pair[0]))
        opened = _Open(kind, self.at, self.units, len(self.out))
        self.at += len(marker)
        if kind == "pre":
            self.at, opened.language = _after_fence(self.text, self.at)
        self.open.append(opened)
        return None

    def _close(self) -> None:
        opened = self.open.pop()
        self.at += len(_CLOSERS[opened.kind])
        entity: Wire | None = {"type": opened.kind}
        if opened.kind == "text_link":
            entity = link_entity(self._url("a URL") if self._sees("(") else "".join(self.out[opened.begin :]))
        elif opened.kind == "custom_emoji":
            entity = self._custom_emoji()
        elif opened.language:
            entity = {"type": "pre", "language": opened.language}
        if entity and self.units > opened.offset:
            self._add(entity, opened)

    def _custom_emoji(self) -> Wire:
        if not self._sees("("):
            raise Refused(400, "Custom emoji entity must contain a tg://emoji URL")
        return {"type": "custom_emoji", "custom_emoji_id": custom_emoji_id(self._url("a custom emoji URL"))}

    def _url(self, what: str) -> str:
        self.at += 1
        start, url = self.at, ""
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self._sees("\\") and "\x00" < self.text[self.at + 1 : self.at + 2] <= "~":
                self.at += 1
            url += self.text[self.at]
            self.at += 1
        if self.at >= len(self.text):
            raise Refused(400, f"Can't find end of {what} at byte offset {_bytes(self.text, start)}")
        self.at += 1
        return url

    def _add(self, entity: Wire, opened: _Open) -> None:
        self.entities.append({**entity, "offset": opened.offset, "length": self.units - opened.offset})

    def _end_quote(self, newline: str) -> None:
        kind = self._quote_kind()
        self._put(newline)
        self._add({"type": kind}, self.open.pop())
        self.in_quote = False

    def _quote_kind(self) -> str:
        """`||` right before the end of a quote makes it expandable; anything else still open is wrong."""
        kind = "blockquote"
        if self._top() == "spoiler" and self.text[self.open[-1].start + 2 : self.at].strip("\r") == "":
            self.open.pop()
            kind = "expandable_blockquote"
        self._refuse_open("blockquote")
        return kind

    def _refuse_open(self, allowed: str = "") -> None:
        if self._top() != allowed:
            opened = self.open[-1]
            name = "PreCode" if opened.language else _NAMES[opened.kind]
            raise Refused(400, f"Can't find end of {name} entity at byte offset {_bytes(self.text, opened.start)}")

    def _end(self) -> None:
        if self.in_quote:
            kind = self._quote_kind()
            opened = self.open.pop()
            if self.units > opened.offset:
                self._add({"type": kind}, opened)
        self._refuse_open()
