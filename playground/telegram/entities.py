"""Text with entities: found in what people write, checked in what bots give, trimmed as the server trims."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from playground.telegram.rules import Refused, Wire, bad_request, utf16_length

_PLAIN = frozenset(
    ("bold", "italic", "underline", "strikethrough", "spoiler", "code", "pre", "blockquote", "expandable_blockquote")
)
_FOUND = frozenset(("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number"))
# Nothing is looked for inside of these.
_OPAQUE = frozenset(
    ("code", "pre", "text_link", "text_mention", "custom_emoji", "mention", "hashtag", "bot_command", "url", "email")
)

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


@dataclass(frozen=True, slots=True)
class Formatted:
    """Text without markup, and what it looks like where."""

    text: str
    entities: list[Wire] = field(default_factory=list)


def find_entities(text: str) -> list[Wire]:
    """What the server marks by itself: commands, mentions, links, addresses, hashtags."""
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


def read_entities(given: object) -> list[Wire]:
    """A list of MessageEntity as a bot gives it. Kinds the server finds by itself are ignored."""
    if not isinstance(given, list):
        return []  # as the server does with anything that is not an array
    read = []
    for one in given:
        try:
            entity = _read_entity(one)
        except Refused as refusal:
            raise bad_request(f"Can't parse MessageEntity: {refusal.description}") from None
        if entity:
            read.append(entity)
    return read


def _read_entity(one: object) -> Wire | None:
    if not isinstance(one, dict):
        raise Refused(400, "expected an Object")
    entity: Wire = {"offset": _required(one, "offset", int), "length": _required(one, "length", int)}
    kind = _required(one, "type", str)
    if kind in _FOUND:
        return None
    entity = {"type": kind, **entity}
    if kind == "text_link":
        return entity | {"url": _required(one, "url", str)}
    if kind == "text_mention":
        return entity | {"user_id": _required(_required(one, "user", dict), "id", int)}
    if kind == "custom_emoji":
        return entity | {"custom_emoji_id": str(_required(one, "custom_emoji_id", (int, str)))}
    if kind not in _PLAIN:
        raise Refused(400, "Unsupported type specified")
    if kind == "pre" and one.get("language"):
        entity["language"] = str(one["language"])
    return entity


def _required(one: Wire, name: str, kind: type | tuple[type, ...]) -> Any:
    value = one.get(name)
    if isinstance(value, str) and kind is int and re.fullmatch(r"-?\d+", value):
        value = int(value)  # numbers may come as strings
    if value is None:
        raise Refused(400, f'Can\'t find field "{name}"')
    if not isinstance(value, kind) or isinstance(value, bool):
        words = {int: "a Number", str: "a String", dict: "an Object"}.get(kind if isinstance(kind, type) else str)
        raise Refused(400, f'Field "{name}" must be {words}')
    return value


def finish(formatted: Formatted) -> Formatted:
    """Checked against the text, trimmed, and with what the server finds by itself; may be empty."""
    try:
        formatted.text.encode()
    except UnicodeEncodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    entities = sorted((one for one in formatted.entities if one["length"]), key=_order)
    text = formatted.text.translate(_CONTROL if not entities else _KEEPING_LENGTH)
    _check_bounds(text, entities)
    text, entities = _trim(text, entities)
    return Formatted(text, _merge(entities, find_entities(text)))


_KEEPING_LENGTH = _CONTROL | {13: " "}


def _order(entity: Wire) -> tuple[int, int]:
    return entity["offset"], -entity["length"]


def _check_bounds(text: str, entities: Sequence[Wire]) -> None:
    if not entities:
        return
    starts = {0: 0}  # UTF-16 offsets where a symbol may start -> byte offset
    units = size = 0
    for symbol in text:
        units += 1 + (symbol > "\uffff")
        size += len(symbol.encode())
        starts[units] = size
    for entity in entities:
        offset, length = entity["offset"], entity["length"]
        if not 0 <= offset <= 1_000_000:
            raise bad_request(f"receive an entity with incorrect offset {offset}")
        if not 0 <= length <= 1_000_000:
            raise bad_request(f"receive an entity with incorrect length {length}")
        if offset > units:
            raise bad_request(f"entity begins after the end of the text at UTF-16 offset {offset}")
        if offset not in starts:
            raise bad_request(f"entity begins in a middle of a UTF-16 symbol at byte offset {starts[offset + 1]}")
        where = f"entity beginning at UTF-16 offset {offset} ends"
        if offset + length > units:
            raise bad_request(f"{where} after the end of the text at UTF-16 offset {offset + length}")
        if offset + length not in starts:
            at = starts[offset + length + 1]
            raise bad_request(f"{where} in a middle of a UTF-16 symbol at byte offset {at}")


def _trim(text: str, entities: Sequence[Wire]) -> tuple[str, list[Wire]]:
    """The end always, the beginning up to the first entity; blanks and newlines alone."""
    text = text.rstrip(" \n")
    end = utf16_length(text)
    kept = [one | {"length": min(one["length"], end - one["offset"])} for one in entities if one["offset"] < end]
    first = kept[0]["offset"] if kept else end
    cut = min(len(text) - len(text.lstrip(" \n")), first)
    if not cut:
        return text, kept
    return text[cut:], [one | {"offset": one["offset"] - cut} for one in kept]


def _merge(entities: list[Wire], found: list[Wire]) -> list[Wire]:
    closed = [(one["offset"], one["offset"] + one["length"]) for one in entities if one["type"] in _OPAQUE]
    fresh = [
        one
        for one in found
        if not any(one["offset"] < end and start < one["offset"] + one["length"] for start, end in closed)
    ]
    return sorted([*entities, *fresh], key=_order) if fresh else entities
