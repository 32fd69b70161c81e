"""Text with entities: found in people's texts, checked in the bot's, trimmed as the server trims."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from playground.telegram.rules import bad_request, utf16_length
from playground.wire import Wire

_PLAIN = frozenset(
    ("bold", "italic", "underline", "strikethrough", "spoiler", "code", "pre", "blockquote", "expandable_blockquote")
)
_FOUND = frozenset(("mention", "hashtag", "bot_command", "url", "email"))
# The server looks for nothing inside of these.
_OPAQUE = frozenset(("code", "pre", "text_link", *_FOUND))

_LOOKED_FOR = re.compile(
    r"(?P<email>(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?!\w))"
    r"|(?P<url>(?<![\w@])(?:https?://[^\s<>\"]+|(?:[A-Za-z0-9-]+\.)+(?:com|org|net|io|dev|me|app|de|uk|info|ai)\b"
    r"(?:[/?#][^\s<>\"]*)?))"
    r"|(?P<bot_command>(?<![\w/<>@])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/<>@]))"
    r"|(?P<mention>(?<!\w)@[A-Za-z][A-Za-z0-9_]{2,31}(?!\w))"
    r"|(?P<hashtag>(?<!\w)#\w*[^\W\d]\w*)"
)
_HINT = re.compile(r"[/@#]|\w\.\w")  # without one of these there is nothing to find
_CONTROL = {code: " " for code in range(32) if chr(code) not in "\n\r"} | {13: None}
_KEEPING_LENGTH = _CONTROL | {13: " "}


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Plain text and the entities in it."""

    text: str
    entities: list[Wire] = field(default_factory=list)

    def fields(self, name: str) -> Wire:
        """Return the fields of a Message; `name` is text or caption."""
        entities = "entities" if name == "text" else "caption_entities"
        return {name: self.text} | ({entities: self.entities} if self.entities else {})


def finish(marked: MarkedText) -> MarkedText:
    """Check entities against the text, trim it, and add the entities the server finds; the result may be empty."""
    try:
        marked.text.encode()
    except UnicodeEncodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    entities = sorted((one for one in marked.entities if one["length"]), key=_order)
    text = marked.text.translate(_CONTROL if not entities else _KEEPING_LENGTH)
    _check_bounds(text, entities)
    text, entities = _trim(text, entities)
    return MarkedText(text, _merge(entities, _find_entities(text)))


def read_entities(given: list[Wire] | None) -> list[Wire]:
    """Read a list of MessageEntity from a bot, without the kinds that the server finds by itself."""
    return [_read_entity(one) for one in given or () if one["type"] not in _FOUND]


def _read_entity(one: Wire) -> Wire:
    entity = {name: one[name] for name in ("type", "offset", "length")}
    if one["type"] == "text_link":
        return {**entity, "url": one["url"]}
    if one["type"] not in _PLAIN:
        raise bad_request("can't parse MessageEntity: Unsupported type specified")
    return {**entity, "language": one["language"]} if one.get("language") else entity


def _find_entities(text: str) -> list[Wire]:
    """Find commands, mentions, links, addresses and hashtags."""
    if not _HINT.search(text):
        return []
    found = []
    for match in _LOOKED_FOR.finditer(text):
        kind, start, end = match.lastgroup, match.start(), match.end()
        if kind == "url":
            end = start + len(match[0].rstrip(".,;:!?)'\"…"))
        offset = utf16_length(text[:start])
        found.append({"type": kind, "offset": offset, "length": utf16_length(text[start:end])})
    return found


def _order(entity: Wire) -> tuple[int, int]:
    return entity["offset"], -entity["length"]


def _check_bounds(text: str, entities: Sequence[Wire]) -> None:
    if not entities:
        return
    starts, units = {0}, 0  # UTF-16 offsets where a symbol may start
    for symbol in text:
        units += 1 + (symbol > "\uffff")
        starts.add(units)
    for entity in entities:
        offset, end = entity["offset"], entity["offset"] + entity["length"]
        if offset < 0:
            raise bad_request(f"receive an entity with incorrect offset {offset}")
        if offset > units:
            raise bad_request(f"entity begins after the end of the text at UTF-16 offset {offset}")
        if offset not in starts:
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at UTF-16 offset {offset}")
        where = f"entity beginning at UTF-16 offset {offset} ends"
        if end > units:
            raise bad_request(f"{where} after the end of the text at UTF-16 offset {end}")
        if end not in starts:
            raise bad_request(f"{where} in a middle of a UTF-16 symbol at UTF-16 offset {end}")


def _trim(text: str, entities: Sequence[Wire]) -> tuple[str, list[Wire]]:
    """Cut blanks and newlines at the end, and at the beginning up to the first entity."""
    text = text.rstrip(" \n")
    end = utf16_length(text)
    kept = [one | {"length": min(one["length"], end - one["offset"])} for one in entities if one["offset"] < end]
    first = kept[0]["offset"] if kept else end
    blanks = min(len(text) - len(text.lstrip(" \n")), first)
    return text[blanks:], [one | {"offset": one["offset"] - blanks} for one in kept]


def _merge(entities: list[Wire], found: list[Wire]) -> list[Wire]:
    closed = [(one["offset"], one["offset"] + one["length"]) for one in entities if one["type"] in _OPAQUE]
    fresh = [
        one
        for one in found
        if not any(one["offset"] < end and start < one["offset"] + one["length"] for start, end in closed)
    ]
    return sorted([*entities, *fresh], key=_order) if fresh else entities
