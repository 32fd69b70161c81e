"""State that the three platforms share: messages, chats and files, and how a chat looks to its people."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from playground.events import EventLog
from playground.wire import Wire


@dataclass(slots=True, kw_only=True)
class Post:
    """A message and its history. `body` is the message as the bot would get it now."""

    body: Wire
    by_bot: bool = False  # by the bot that is connected here
    deleted: bool = False
    earlier: list[str] = field(default_factory=list)  # texts before edits

    @property
    def words(self) -> str:
        """The text that people read."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class StoredFile:
    id: str
    name: str
    mime_type: str
    size: int
    content: bytes  # empty: nothing was uploaded yet, or only the size is known


K = TypeVar("K")
V = TypeVar("V")
P = TypeVar("P", bound=Post)


@dataclass(slots=True, kw_only=True)
class ChatRoom(Generic[K, P]):
    """A chat or channel with its messages."""

    posts: dict[K, P] = field(default_factory=dict)

    def post(self, message_id: K) -> P | None:
        """Return a message that is not deleted."""
        post = self.posts.get(message_id)
        return None if post is None or post.deleted else post


class World(ABC):
    """Everything a server remembers. It survives the bot, not the server."""

    files: Mapping[str, StoredFile]

    def __init__(self) -> None:
        self.events = EventLog()
        self.now: Callable[[], float] = time.time

    @abstractmethod
    def posts_in(self, place: Any) -> Iterable[Post]:
        """Return the messages of a chat in order, deleted ones included."""

    @abstractmethod
    def describe(self, post: Any) -> Wire:
        """Return the fields that only this platform shows of a message."""

    def show(self, place: Any, *, deleted: bool = False) -> list[Wire]:
        """Return the chat as its people see it, with deleted messages if asked for."""
        return [
            {"by_bot": post.by_bot, "text": post.words, "message": dict(post.body), **self.describe(post)}
            | {name: value for name in ("deleted", "earlier") if (value := getattr(post, name))}
            for post in self.posts_in(place)
            if deleted or not post.deleted
        ]


def look_up(table: Mapping[K, V], key: K, what: str) -> V:
    """Raises ValueError, for the people who are played; bots are refused in the platform's own words."""
    if key not in table:
        raise ValueError(f"there is no {what} {key}")
    return table[key]
