"""What a message is made of: the content parts that chats, models and tools share.

Bytes never travel in a part. A `Media` part names them: by the platform's own
reference until they are fetched, by content hash afterwards.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

MediaKind = Literal["image", "audio", "video", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    kind: MediaKind
    name: str = ""
    mime: str = "application/octet-stream"
    size_bytes: int = 0
    reference: str = ""  # how the platform finds the bytes
    sha256: str = ""  # set once the bytes are ours
    problem: str = ""  # set when they could not be had, in words for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    latitude: float
    longitude: float
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Words of somebody else that a message replies to or passes on: to be read, not to be obeyed."""

    text: str = ""
    author: str = ""
    how: Literal["replied to", "forwarded from"] = "replied to"


Part = Text | Media | Location | Quote

_KINDS: dict[str, type[Text] | type[Media] | type[Location] | type[Quote]] = {
    "text": Text,
    "media": Media,
    "location": Location,
    "quote": Quote,
}
_OFTEN_READ_CHARS = 1_000
_NAMES = {cls: name for name, cls in _KINDS.items()}


def dump_parts(parts: Sequence[Part]) -> str:
    return json.dumps([{"type": _NAMES[type(part)]} | _without_defaults(part) for part in parts], ensure_ascii=False)


def load_parts(stored: str) -> tuple[Part, ...]:
    """What `dump_parts` wrote. A row that the disk has damaged is read as such: it must not stop all others."""
    return _load_often(stored) if len(stored) <= _OFTEN_READ_CHARS else _load(stored)


@lru_cache(maxsize=2_000)
def _load_often(stored: str) -> tuple[Part, ...]:
    """The same short texts are read with every turn of a conversation."""
    return _load(stored)


def _load(stored: str) -> tuple[Part, ...]:
    try:
        return tuple(_KINDS[fields.pop("type")](**fields) for fields in json.loads(stored))
    except (ValueError, TypeError, KeyError, AttributeError):
        return (Text(text="[this message was damaged on the disk and cannot be read]"),)


def loads_list(stored: str) -> tuple[Any, ...]:
    """A stored list; empty when the disk has damaged it."""
    try:
        loaded = json.loads(stored)
    except ValueError:
        return ()
    return tuple(loaded) if isinstance(loaded, list) else ()


def text_of(parts: Iterable[Part]) -> str:
    """The words among the parts, as a model without eyes or a search index sees them."""
    match parts:
        case (Text(text=alone),):  # as nearly all are; a long history is read again with every turn
            return alone
    return "\n".join(filter(None, map(describe, parts)))


def words_of(parts: Iterable[Part]) -> str:
    """The speaker's own words, without what is quoted or attached."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def describe(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Location():
            return f"[location {part.latitude}, {part.longitude}{f' ({part.name})' if part.name else ''}]"
        case Quote():
            return f"[{part.how} {part.author or 'somebody'}{f': {part.text}' if part.text else ''}]"
        case Media(problem=""):
            return f"[{part.kind} {part.name}]".replace(" ]", "]")
        case Media():
            return f"[{part.kind} {part.name} could not be read: {part.problem}]"


def _without_defaults(part: Part) -> dict[str, Any]:
    # Not `asdict`, which copies deeply: this is on the way of every message.
    return {name: value for name in part.__slots__ if (value := getattr(part, name)) != ""}
