"""A phone: what one person sees and does in one app. Each platform derives its own from `Phone`."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import ClassVar

from playground.page.shapes import Command, Draft, FileKind, Message, Person, Place
from playground.stage import Stage
from playground.wire import Wire

# What the page need not be drawn anew for: they come by themselves, again and again.
_QUIET = frozenset(("call", "poll", "heartbeat", "said", "ack", "silence", "answer", "lost", "press"))
_CODE = re.compile(r"pairing approve \w+ ([A-HJ-NP-Z2-9]{8})\b")
SHOWN_MESSAGES = 200
MAX_NAME_CHARS = 40


class Phone(ABC):
    """Ids are strings; what a method does not know, or what no client would do, is a ValueError with a sentence."""

    platform: ClassVar[str]
    typing_seconds: ClassVar[float]

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.line = "up"
        self.owner = ""

    # What there is to see

    @property
    @abstractmethod
    def handle(self) -> str:
        """What people write to mention the bot, without the @."""

    @abstractmethod
    def people(self) -> list[Person]: ...

    @abstractmethod
    def places(self, person: str) -> list[Place]: ...

    @abstractmethod
    def messages(self, person: str, place: str) -> list[Message]: ...

    @abstractmethod
    def names(self) -> dict[str, str]:
        """Ids that stand in texts as mentions, and who they are."""

    @abstractmethod
    def commands(self) -> list[Command]:
        """What a slash offers at this moment."""

    @abstractmethod
    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        """True: the bot types there. False: it has said what it typed. None: about something else."""

    @abstractmethod
    def file(self, file_id: str) -> bytes | None: ...

    def drafts(self, person: str, place: str) -> list[Draft]:
        return []

    # What there is to do

    @abstractmethod
    def add_person(self, name: str) -> str:
        """Gives their id."""

    @abstractmethod
    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None: ...

    @abstractmethod
    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: FileKind, caption: str = ""
    ) -> None: ...

    @abstractmethod
    def edit(self, person: str, place: str, message: str, text: str) -> None: ...

    @abstractmethod
    def delete(self, person: str, place: str, message: str) -> None: ...

    @abstractmethod
    def react(self, person: str, place: str, message: str, emoji: str) -> None:
        """Put it there, or take it away if it is there."""

    @abstractmethod
    def press(self, person: str, place: str, message: str, button: str) -> None: ...

    @abstractmethod
    def join(self, person: str, place: str) -> None: ...

    @abstractmethod
    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        """Gives the place it is."""

    # The same on every platform

    def view(self, person: str, place: str) -> Wire:
        """Everything the page draws of this phone, as JSON."""
        known = {one.id for one in self.people()}
        person = person if person in known else self.owner
        places = self.places(person)
        here = next((one for one in places if one.id == place), places[0])
        messages = self.messages(person, here.id)[-SHOWN_MESSAGES:] if here.joined else []
        return {
            "platform": self.platform,
            "line": self.line,
            "handle": self.handle,
            "people": [asdict(one) for one in self.people()],
            "person": person,
            "places": [asdict(one) for one in places],
            "place": here.id,
            "messages": [asdict(one) for one in messages],
            "drafts": [asdict(one) for one in self.drafts(person, here.id)] if here.joined else [],
            "typing_until_ms": self._typing_until_ms(person, here.id) if here.joined else 0,
            "names": self.names(),
            "commands": [asdict(one) for one in self.commands()],
        }

    def codes(self) -> list[Wire]:
        """The newest pairing code that each person was told, as it can be read on their phone."""
        found = []
        for person in self.people():
            for message in reversed(self.messages(person.id, "dm")):
                code = _CODE.search(" ".join(words.text for words in message.words)) if message.by_bot else None
                if code:
                    about = {"platform": self.platform, "person": person.id, "name": person.name}
                    found.append({**about, "code": code[1], "at_ms": message.at_ms})
                    break
        return found

    def changed(self) -> None:
        """For what the platform itself tells nobody, such as a new person."""
        self.stage.events.note("page")

    async def cut(self) -> None:
        self.line = "down"
        await self.stage.pause()

    async def freeze(self) -> None:
        if self.line == "down":
            await self.stage.resume()
        self.line = "half_open"
        self.stage.half_open()

    async def mend(self) -> None:
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


def checked_name(name: str) -> str:
    """A new person's name; raises ValueError."""
    name = " ".join("".join(one for one in name if one.isprintable()).split())
    if not 0 < len(name) <= MAX_NAME_CHARS:
        raise ValueError(f"A name has 1 to {MAX_NAME_CHARS} characters.")
    return name


def mentioned(text: str, handle: str, mention: str) -> str:
    """The text with `@handle` as the platform's own mention, which clients put there while one types."""
    return re.sub(rf"(?<!\w)@{re.escape(handle)}\b", lambda _: mention, text, flags=re.IGNORECASE)


def plainly(text: str, names: Mapping[str, str]) -> str:
    """On one line, with mentions as the names of those who are meant."""
    for number, name in names.items():
        text = text.replace(f"<@{number}>", f"@{name}")
    return " ".join(text.split())


def file_kind(content: bytes, mime_type: str) -> FileKind:
    """What it is shown as; pictures by what is in them, since a name can claim anything."""
    if picture_type(content):
        return "image"
    family = mime_type.partition("/")[0]
    return family if family in ("audio", "video") else "file"  # type: ignore[return-value]


_PICTURES = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def picture_type(content: bytes) -> str:
    """The type of a picture that a browser may show, else empty."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((name for magic, name in _PICTURES if content.startswith(magic)), "")


def sound_type(content: bytes) -> str:
    return "audio/ogg" if content.startswith(b"OggS") else "audio/mpeg" if content.startswith(b"ID3") else ""
