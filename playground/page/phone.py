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
QUIET = frozenset(("call", "poll", "heartbeat", "ack", "silence", "answer", "lost", "press"))
_CODE = re.compile(r"pairing approve \w+ ([A-HJ-NP-Z2-9]{8})\b")
_TYPES = (
    (rb"\x89PNG\r\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8", "image/gif"),
    (rb"RIFF.{4}WEBP", "image/webp"),
    (rb"OggS", "audio/ogg"),
    (rb"ID3", "audio/mpeg"),
)
SHOWN_MESSAGES = 200
MAX_NAME_CHARS = 40


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

    def __init__(self, server: PlatformServer, *, handle: str, mention: str) -> None:
        """`handle` is the bot's name without the @, `mention` the platform's own form of a mention of it."""
        self.stage, self.handle, self.mention = server, handle, mention
        self.line = "up"
        self.owner = ""

    @abstractmethod
    def people(self) -> dict[str, str]:
        """Return names by id."""

    @abstractmethod
    def places(self, person: str) -> list[PhonePlace]: ...

    @abstractmethod
    def messages(self, person: str, place: str) -> list[PhoneMessage]: ...

    def names(self) -> dict[str, str]:
        """Return the names behind ids that stand in texts as mentions."""
        return {}

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
        """Return their id; `name` was checked, and mentions in the texts below are the platform's own."""

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
    def edit(self, person: str, place: str, message: str, text: str) -> None: ...

    @abstractmethod
    def delete(self, person: str, place: str, message: str) -> None: ...

    @abstractmethod
    def react(self, person: str, place: str, message: str, emoji: str, *, remove: bool) -> None: ...

    # The same on every platform

    def file(self, file_id: str) -> bytes | None:
        return next((one.content for one in self.stage.world.files.values() if one.id == file_id), None)

    def show_file(self, file_id: str, kind: str = "") -> Wire:
        """Return a file as the page shows it; `kind` is told by the content unless given."""
        stored = next(one for one in self.stage.world.files.values() if one.id == file_id)
        kind = kind or file_kind(stored.content, stored.mime_type)
        about = {"name": stored.name or kind, "kind": kind, "size_bytes": stored.size}
        return {**about, "url": f"/media/{self.platform}/{file_id}"}

    def put_mentions(self, text: str) -> str:
        """Replace `@handle` by the platform's own mention, as clients do while one types."""
        pattern = rf"(?<!\w)@(?:{re.escape(self.handle)}|hermes)\b"
        return re.sub(pattern, lambda _: self.mention, text, flags=re.IGNORECASE)

    def view(self, person: str, place: str) -> Wire:
        """Return everything the page draws of this phone, as JSON."""
        people = self.people()
        person = person if person in people else self.owner
        places = self.places(person)
        here = next((one for one in places if one.id == place), places[0])
        joined = here.joined
        return {
            "platform": self.platform,
            "line": self.line,
            "handle": self.handle,
            "people": [{"id": id_, "name": name, "owner": id_ == self.owner} for id_, name in people.items()],
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
        for person, name in self.people().items():
            for message in reversed(self.messages(person, "dm")):
                code = _CODE.search(" ".join(words["text"] for words in message.words)) if message.by_bot else None
                if code:
                    about = {"platform": self.platform, "person": person, "name": name}
                    found.append({**about, "code": code[1], "at_ms": message.at_ms})
                    break
        return found

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


def detect_type(content: bytes) -> str:
    """Return the type of a picture or sound that a browser may show, known by its content; else an empty string."""
    return next((name for magic, name in _TYPES if re.match(magic, content, re.DOTALL)), "")


def file_kind(content: bytes, mime_type: str) -> str:
    """Return how to show a file: as an image only what is one, since a name can claim anything."""
    family = (detect_type(content) or mime_type.replace("image/", "file/")).partition("/")[0]
    return family if family in ("image", "audio", "video") else "file"
