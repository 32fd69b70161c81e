"""The HTML parse mode: a dozen tags, properly nested, and nothing else that starts with a bracket."""

import re
from dataclasses import dataclass

from playground.telegram.entities import Formatted
from playground.telegram.links import link_entity
from playground.telegram.rules import Refused, Wire, utf16_length

_KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "tg-emoji": "custom_emoji",
    "a": "text_link",
    "pre": "pre",
    "code": "code",
    "blockquote": "blockquote",
}
_ARGUMENTS = {  # tag and attribute -> the prefix its value must have
    ("a", "href"): "",
    ("code", "class"): "language-",
    ("span", "class"): "tg-",
    ("tg-emoji", "emoji-id"): "",
}
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(lt|gt|amp|quot)(?![a-zA-Z]));?")
_LITERALS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_RUN = re.compile(r"[^<&]+")
_TOKEN = re.compile(r"[A-Za-z0-9.-]*")


@dataclass(slots=True)
class _Tag:
    name: str
    argument: str
    offset: int
    begin: int


def parse_html(text: str) -> Formatted:
    return _Html(text).parse()


class _Html:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.units = 0
        self.open: list[_Tag] = []
        self.entities: list[Wire] = []
        self.languages: dict[int, str] = {}  # of code that a pre may still enclose, by its place in the entities

    def parse(self) -> Formatted:
        while self.at < len(self.text):
            if run := _RUN.match(self.text, self.at):
                self._put(run[0])
                self.at = run.end()
            elif self._peek() == "&":
                self._put(self._reference())
            elif self.text.startswith("</", self.at):
                self._end_tag()
            else:
                self._start_tag()
        if self.open:
            raise Refused(400, f'Can\'t find end tag corresponding to start tag "{self.open[-1].name}"')
        entities = [one for one in self.entities if one["length"]]
        return Formatted("".join(self.out), sorted(entities, key=lambda one: (one["offset"], -one["length"])))

    def _put(self, words: str) -> None:
        self.out.append(words)
        self.units += utf16_length(words)

    def _reference(self) -> str:
        """The character a reference stands for; an ampersand that begins none stands for itself."""
        match = _REFERENCE.match(self.text, self.at)
        code = 0
        if match and not match[3]:
            code = int(match[1]) if match[1] else int(match[2], 16)
        if not match or (not match[3] and not 0 < code < 0x10FFFF):
            self.at += 1
            return "&"
        self.at = match.end()
        return _LITERALS[match[3]] if match[3] else chr(code)

    def _bytes(self, at: int) -> int:
        return len(self.text[:at].encode("utf-8", "surrogatepass"))

    def _peek(self) -> str:
        """The character here; beyond the end there is none."""
        return self.text[self.at : self.at + 1]

    def _skip_blanks(self) -> None:
        while self._peek().isspace():
            self.at += 1

    def _word(self, stops: str) -> str:
        start = self.at
        while self._peek() and not self._peek().isspace() and self._peek() not in stops:
            self.at += 1
        return self.text[start : self.at]

    def _start_tag(self) -> None:
        start = self.at
        self.at += 1
        name = self._word(">").lower()
        if not self._peek():
            raise Refused(400, f"Unclosed start tag at byte offset {self._bytes(start)}")
        if name not in _KINDS:
            raise Refused(400, f'Unsupported start tag "{name}" at byte offset {self._bytes(start)}')
        argument = ""
        while True:
            self._skip_blanks()
            if self._peek() == ">":
                break
            argument = self._attribute(name, start) or argument
        self.at += 1
        if name == "span" and argument != "spoiler":
            raise Refused(400, f'Tag "span" must have class "tg-spoiler" at byte offset {self._bytes(start)}')
        self.open.append(_Tag(name, argument, self.units, len(self.out)))

    def _attribute(self, tag: str, start: int) -> str:
        """What the tag wants to know from this attribute, if anything."""
        name = self._word("=>/\"'")
        where = f'tag "{tag}" at byte offset {self._bytes(start)}'
        if not name:
            raise Refused(400, f"Empty attribute name in the {where}" if self._peek() else f"Unclosed start {where}")
        self._skip_blanks()
        value = ""
        if self._peek() == "=":
            self.at += 1
            self._skip_blanks()
            value = self._value()
        if not self._peek():
            raise Refused(400, f"Unclosed start {where}")
        if (tag, name) == ("blockquote", "expandable"):
            return "1"
        prefix = _ARGUMENTS.get((tag, name))
        return value.removeprefix(prefix) if prefix is not None and value.startswith(prefix) else ""

    def _value(self) -> str:
        quote = self._peek()
        if quote not in ("'", '"'):
            match = _TOKEN.match(self.text, self.at)
            assert match
            start, self.at = self.at, match.end()
            if self._peek() and not self._peek().isspace() and self._peek() != ">":
                raise Refused(400, f"Unexpected end of name token at byte offset {self._bytes(start)}")
            return match[0].lower()
        self.at += 1
        value = ""
        while self._peek() and self._peek() != quote:
            if self._peek() == "&":
                value += self._reference()
            else:
                value += self._peek()
                self.at += 1
        self.at += 1
        return value

    def _end_tag(self) -> None:
        start = self.at
        if not self.open:
            raise Refused(400, f"Unexpected end tag at byte offset {self._bytes(start)}")
        self.at += 2
        name = self._word(">").lower()
        self._skip_blanks()
        if self._peek() != ">":
            raise Refused(400, f"Unclosed end tag at byte offset {self._bytes(start)}")
        self.at += 1
        tag = self.open.pop()
        if name not in ("", tag.name):
            expected = f'expected "</{tag.name}>", found "</{name}>"'
            raise Refused(400, f"Unmatched end tag at byte offset {self._bytes(start)}, {expected}")
        if self.units > tag.offset and (entity := self._entity(tag)):
            self.entities.append({**entity, "offset": tag.offset, "length": self.units - tag.offset})

    def _entity(self, tag: _Tag) -> Wire | None:
        kind = _KINDS[tag.name]
        if kind == "text_link":
            return link_entity(tag.argument or "".join(self.out[tag.begin :]))
        if kind == "custom_emoji":
            if not tag.argument.isdigit() or not int(tag.argument):
                raise Refused(400, "Invalid custom emoji identifier specified")
            return {"type": kind, "custom_emoji_id": tag.argument}
        if kind == "blockquote":
            return {"type": "expandable_blockquote" if tag.argument else kind}
        if kind in ("code", "pre"):
            return self._code(tag, kind)
        return {"type": kind}

    def _code(self, tag: _Tag, kind: str) -> Wire:
        """Code in pre is one entity, with the language if the code names one."""
        same = [tag.offset, self.units - tag.offset]
        other = self.entities[-1] if self.entities else {}
        if {kind, other.get("type")} == {"code", "pre"} and [other["offset"], other["length"]] == same:
            language = tag.argument or self.languages.pop(len(self.entities) - 1, "")
            if language:
                self.entities.pop()
                return {"type": "pre", "language": language}
        if kind == "code" and tag.argument:
            self.languages[len(self.entities)] = tag.argument
        return {"type": kind}
