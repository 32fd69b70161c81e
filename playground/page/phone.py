"""A phone: what one person sees and does in one app. Each platform derives its own from `Phone`."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

from playground.server import PlatformServer
from playground.wire import Wire

PlaceKind = Literal["dm", "group", "topic", "channel", "thread"]
# Events that come by themselves, again and again; the page is not redrawn for them.
_QUIET = frozenset(("call", "poll", "heartbeat", "ack", "silence", "answer", "lost", "press"))
_CODE = re.compile(r"pairing approve \w+ ([A-HJ-NP-Z2-9]{8})\b")
_PICTURES = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
SHOWN_MESSAGES = 200
MAX_NAME_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneUser:
    id: str
    name: str
    owner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PhonePlace:
    """Somewhere a person can read and write, or join."""

    id: str
    title: str
    kind: PlaceKind
    parent: str = ""
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PhoneMessage:
    """A message in the same form for every platform; the page draws it in the look of each app."""

    id: str
    author: str
    author_id: str
    by_bot: bool
    mine: bool
    at_ms: int
    words: Sequence[Wire] = ()  # text, format (entities, markdown, mrkdwn), entities
    edited: bool = False
    service: str = ""  # the text of a message nobody wrote: somebody joined, a topic was opened
    private: bool = False  # only this person sees it
    quote: Wire | None = None  # author, text
    buttons: Sequence[Sequence[Wire]] = ()  # label, key (what `press` takes), style
    reactions: Sequence[Wire] = ()  # emoji, count, mine
    files: Sequence[Wire] = ()  # name, kind (image, voice, audio, video, file), size_bytes, url
    thread: Wire | None = None  # place, replies, last


class Phone(ABC):
    """Ids are strings. Raises ValueError with a sentence for an unknown id, or where no client could."""

    platform: ClassVar[str]
    typing_seconds: ClassVar[float]

    def __init__(self, server: PlatformServer) -> None:
        self.stage = server
        self.line = "up"
        self.owner = ""

    @property
    @abstractmethod
    def handle(self) -> str:
        """The name that mentions the bot, without the @."""

    @property
    @abstractmethod
    def mention(self) -> str:
        """The platform's own form of a mention of the bot."""

    @abstractmethod
    def people(self) -> list[PhoneUser]: ...

    @abstractmethod
    def places(self, person: str) -> list[PhonePlace]: ...

    @abstractmethod
    def messages(self, person: str, place: str) -> list[PhoneMessage]: ...

    @abstractmethod
    def names(self) -> dict[str, str]:
        """Return the names behind ids that stand in texts as mentions."""

    @abstractmethod
    def commands(self) -> list[Wire]:
        """Return the commands that a slash offers now: name, description."""

    @abstractmethod
    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        """Return True if the bot types there, False if it has finished, None for anything else."""

    def drafts(self, person: str, place: str) -> list[Wire]:
        """Return the drafts that the bot is writing: words, until_ms."""
        return []

    @abstractmethod
    def add_person(self, name: str) -> str:
        """Return their id."""

    @abstractmethod
    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None: ...

    @abstractmethod
    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: str, caption: str = ""
    ) -> None: ...

    @abstractmethod
    def join(self, person: str, place: str) -> None: ...

    @abstractmethod
    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        """Return the new place."""

    @abstractmethod
    def press(self, person: str, place: str, message: str, button: str) -> None: ...

    @abstractmethod
    def _edit(self, person: str, place: str, message: str, text: str) -> None: ...

    @abstractmethod
    def _delete(self, person: str, place: str, message: str) -> None: ...

    @abstractmethod
    def _react(self, person: str, place: str, message: str, emoji: str, *, remove: bool) -> None: ...

    # The same on every platform

    def file(self, file_id: str) -> bytes | None:
        return next((one.content for one in self.stage.world.files.values() if one.id == file_id), None)

    def show_file(self, file_id: str, kind: str = "") -> Wire:
        """Return a file as the page shows it; `kind` is told by the content unless given."""
        stored = next(one for one in self.stage.world.files.values() if one.id == file_id)
        kind = kind or file_kind(stored.content, stored.mime_type)
        about = {"name": stored.name or kind, "kind": kind, "size_bytes": stored.size}
        return {**about, "url": f"/media/{self.platform}/{file_id}"}

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        self._check_author(person, place, message)
        self._edit(person, place, message, self.put_mentions(text))

    def delete(self, person: str, place: str, message: str) -> None:
        self._check_author(person, place, message)
        self._delete(person, place, message)

    def react(self, person: str, place: str, message: str, emoji: str) -> None:
        """Add the reaction, or remove it if it is there."""
        marks = self._find_message(person, place, message).reactions
        remove = any(one["emoji"] == emoji and one["mine"] for one in marks)
        self._react(person, place, message, emoji, remove=remove)

    def _find_message(self, person: str, place: str, message: str) -> PhoneMessage:
        return next(one for one in self.messages(person, place) if one.id == message)

    def _check_author(self, person: str, place: str, message: str) -> None:
        if not self._find_message(person, place, message).mine:
            raise ValueError("Somebody else wrote this message.")

    def put_mentions(self, text: str) -> str:
        """Replace `@handle` by the platform's own mention, as clients do while one types."""
        pattern = rf"(?<!\w)@(?:{re.escape(self.handle)}|hermes)\b"
        return re.sub(pattern, lambda _: self.mention, text, flags=re.IGNORECASE)

    def view(self, person: str, place: str) -> Wire:
        """Return everything the page draws of this phone, as JSON."""
        people = self.people()
        person = person if person in {one.id for one in people} else self.owner
        places = self.places(person)
        here = next((one for one in places if one.id == place), places[0])
        joined = here.joined
        return {
            "platform": self.platform,
            "line": self.line,
            "handle": self.handle,
            "people": [asdict(one) for one in people],
            "person": person,
            "places": [asdict(one) for one in places],
            "place": here.id,
            "messages": [asdict(one) for one in self.messages(person, here.id)[-SHOWN_MESSAGES:]] if joined else [],
            "drafts": self.drafts(person, here.id) if joined else [],
            "typing_until_ms": self._typing_until_ms(person, here.id) if joined else 0,
            "names": self.names(),
            "commands": self.commands(),
        }

    def codes(self) -> list[Wire]:
        """Return the newest pairing code that each person was told, as it can be read on their phone."""
        found = []
        for person in self.people():
            for message in reversed(self.messages(person.id, "dm")):
                code = _CODE.search(" ".join(words["text"] for words in message.words)) if message.by_bot else None
                if code:
                    about = {"platform": self.platform, "person": person.id, "name": person.name}
                    found.append({**about, "code": code[1], "at_ms": message.at_ms})
                    break
        return found

    def note_change(self) -> None:
        """Note a change that the platform itself does not, such as a new person."""
        self.stage.events.note("page")

    async def cut(self) -> None:
        self.line = "down"
        await self.stage.pause()

    async def freeze(self) -> None:
        if self.line == "down":
            await self.stage.resume()
        self.line = "half_open"
        self.stage.half_open()

    async def restore(self) -> None:
        if self.line == "half_open":
            await self.stage.pause()  # connections that were dead are reset as soon as anything comes through again
        self.line = "up"
        await self.stage.resume()

    def is_news(self, events: Sequence[Wire]) -> bool:
        return any(event["kind"] not in _QUIET for event in events)

    def _typing_until_ms(self, person: str, place: str) -> int:
        horizon = time.time() - self.typing_seconds
        log = self.stage.events
        for event in reversed(log.after(log.last - 200)):
            if event["at"] < horizon:
                break
            types = self.is_typing_event(event, person, place)
            if types is not None:
                return int((event["at"] + self.typing_seconds) * 1000) if types else 0
        return 0


def check_name(name: str) -> str:
    """Return a new person's name without odd characters. Raises ValueError."""
    name = " ".join("".join(one for one in name if one.isprintable()).split())
    if not 0 < len(name) <= MAX_NAME_CHARS:
        raise ValueError(f"A name has 1 to {MAX_NAME_CHARS} characters.")
    return name


def to_handle(name: str) -> str:
    return "".join(one for one in name.lower() if one.isascii() and one.isalnum()) or "someone"


def flatten(text: str, names: Mapping[str, str]) -> str:
    """Return the text on one line, with mentions as names."""
    for number, name in names.items():
        text = text.replace(f"<@{number}>", f"@{name}")
    return " ".join(text.split())


def file_kind(content: bytes, mime_type: str) -> str:
    """Return how to show a file; pictures are known by their content, since a name can claim anything."""
    if picture_type(content):
        return "image"
    family = mime_type.partition("/")[0]
    return family if family in ("audio", "video") else "file"


def picture_type(content: bytes) -> str:
    """Return the type of a picture that a browser may show, else an empty string."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _PICTURES if content.startswith(magic)), "")


def sound_type(content: bytes) -> str:
    return "audio/ogg" if content.startswith(b"OggS") else "audio/mpeg" if content.startswith(b"ID3") else ""
