"""What a phone shows, in the same words for every platform; the page draws it, each in its app's own look."""

from dataclasses import dataclass
from typing import Literal

from playground.wire import Wire

PlaceKind = Literal["dm", "group", "topic", "channel", "thread"]
Format = Literal["entities", "markdown", "mrkdwn"]
FileKind = Literal["image", "voice", "audio", "video", "file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    id: str
    name: str
    owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Somewhere a person can read and write; one they are not in yet can be joined."""

    id: str
    title: str
    kind: PlaceKind
    parent: str = ""
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    text: str
    format: Format
    entities: tuple[Wire, ...] = ()
    small: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    label: str
    key: str  # what `press` takes
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    emoji: str
    count: int
    mine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """`url` is an address of the page itself, so that a file can be seen while the platform is down."""

    name: str
    kind: FileKind
    size_bytes: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    author: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    place: str
    replies: int
    last: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str
    author: str
    author_id: str
    by_bot: bool
    mine: bool
    at_ms: int
    words: tuple[Words, ...] = ()
    edited: bool = False
    service: str = ""  # what nobody wrote: somebody joined, a topic was opened
    private: bool = False  # only this person sees it
    waiting: bool = False  # the bot has promised an answer and has not given it
    quote: Quote | None = None
    buttons: tuple[tuple[Button, ...], ...] = ()
    reactions: tuple[Reaction, ...] = ()
    files: tuple[File, ...] = ()
    thread: Thread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What the bot is just writing, gone by itself at `until_ms`."""

    words: Words
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    name: str
    description: str
