"""Outgoing messages: their files, the pages they are sent as, and what becomes of a page that is refused."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Literal

from gateway.errors import DeliveryRejected, PlatformUnavailable
from gateway.messages import Choice, Media, OutboundMessage, Part, text_of
from gateway.platforms.text import describe_size_limit, utf16_len

Load = Callable[[Media], Awaitable[bytes | None]]
"""Return the bytes of a file, None if they are no longer kept."""

UPLOAD_SECONDS = 1_200.0  # at most; delivery knows the size and gives up earlier
DOCUMENT_NAME = "answer.md"
_AT_ONCE = 4
_BUSY_SECONDS = 1.0
_MAX_PIECES = 6  # a longer answer is sent as a document
_HEAD_UNITS = 1_500  # shown above the document
_HEAD_SOURCE_CHARS = 10_000  # the head is made of these: markup may be longer than its text
_ATTACHED = f"The whole text is attached as {DOCUMENT_NAME}."
_REMEMBERED_MESSAGES = 32

FileStyle = Literal["photo", "voice", "audio", "video", "animation", "document"]
"""How a file is displayed."""

EntityKind = Literal["bold", "italic", "strikethrough", "spoiler", "code", "pre", "text_link", "blockquote"]


class Rejection(Enum):
    """Why a platform did not accept a message."""

    UNCHANGED = auto()  # an edit that would change nothing
    NOTHING_TO_EDIT = auto()
    NOTHING_TO_DELETE = auto()
    NO_THREAD = auto()
    NOTHING_TO_QUOTE = auto()
    TOO_LONG = auto()
    BLOCKS = auto()
    BUTTONS = auto()
    FILE = auto()  # too large, not as this kind, or not allowed there
    WORDING = auto()  # most likely the formatting
    CLOSED_TO_US = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A mark on a part of a text."""

    kind: EntityKind
    offset: int  # in UTF-16 units, as is the length
    length: int
    url: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """Text as a platform takes it: in its own Markdown, or with entities."""

    text: str
    entities: tuple[Entity, ...] = ()

    def append(self, sentence: str) -> "Formatted":
        return replace(self, text=f"{self.text}\n\n{sentence}" if self.text else sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text that is too long for messages."""

    text: str

    @property
    def content(self) -> bytes:
        return self.text.encode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that the answer sends, with its text."""

    media: Media
    style: FileStyle = "document"
    caption: Formatted = Formatted(text="")
    name_mark: str = ""  # surrounds the name in a sentence, so that it is not read as markup

    @property
    def name(self) -> str:
        return clean_file_name(self.media)

    def fit(self, content: bytes | None, max_bytes: int, platform: str) -> "Attachment | Formatted":
        """Return what the platform will accept, as far as we know beforehand."""
        if content is None:
            return self.explain("it is no longer kept here")
        if len(content) > max_bytes:
            return self.explain(f"{describe_size_limit(max_bytes)}, the most that {platform} accepts here")
        return self

    def explain(self, reason: str) -> Formatted:
        return self.caption.append(f"{self.name_mark}{self.name}{self.name_mark} could not be sent: {reason}.")


Page = Formatted | Document | Attachment


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPost:
    """One page of a message, ready to send. Ids are empty where there is none."""

    chat: str
    page: Page
    key: str
    piece: int
    thread: str = ""
    quotes: str = ""
    edits: str = ""
    choices: tuple[Choice, ...] = ()
    silent: bool = False
    more: bool = False
    is_plain: bool = False  # blocks of Markdown were refused

    def amend(
        self, problem: Rejection, plain: Callable[[Formatted], Formatted], platform: str
    ) -> "OutgoingPost | None":
        """Drop what was refused; None when nothing is left to try. Each step removes something, so this ends."""
        match problem:
            case Rejection.NO_THREAD if self.thread:
                return replace(self, thread="")
            case Rejection.NOTHING_TO_QUOTE if self.quotes:
                return replace(self, quotes="")
            case Rejection.NOTHING_TO_EDIT | Rejection.TOO_LONG if self.edits:
                return replace(self, edits="")
            case Rejection.BLOCKS if isinstance(self.page, Formatted) and not self.is_plain:
                return replace(self, page=plain(self.page), is_plain=True)
            case Rejection.BUTTONS | Rejection.BLOCKS if self.choices:
                return replace(self, choices=())
        page = _amend_page(self.page, problem, plain, platform)
        return replace(self, page=page) if page is not None else None


def _amend_page(page: Page, problem: Rejection, plain: Callable[[Formatted], Formatted], platform: str) -> Page | None:
    match problem, page:
        case Rejection.TOO_LONG, Formatted():
            return Document(text=plain(page).text)
        case Rejection.WORDING, Formatted() if (bare := plain(page)).text and bare != page:
            return bare
        case Rejection.WORDING, Attachment() if page.caption.entities:
            return replace(page, caption=replace(page.caption, entities=()))
        case Rejection.FILE | Rejection.WORDING, Attachment() if page.style != "document":
            return replace(page, style="document")
        case Rejection.FILE | Rejection.WORDING | Rejection.TOO_LONG, Attachment():
            return page.explain(f"{platform} does not accept it here")
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Splits messages into pages, and remembers the last few: a long one is needed once for each of its pages."""

    render: Callable[[str, int], list[Formatted]]  # of Markdown, to texts of at most so many UTF-16 units
    max_units: int
    source_factor: int = 1  # how much longer than its text the Markdown may be
    caption_units: Callable[[FileStyle], int]  # of the text that a single file may take along
    styles: Mapping[str, FileStyle] = field(default_factory=dict)  # by MIME type; others are documents
    name_mark: str = ""
    _known: OrderedDict[str, tuple[object, tuple[Page, ...]]] = field(default_factory=OrderedDict)

    def paginate(self, markdown: str, files: tuple[Media, ...] = (), *, needs_words: bool = False) -> tuple[Page, ...]:
        """Return text, then each file; always the same for the same. `needs_words`: the first page must be text."""
        enclosed = [
            Attachment(media=media, style=self.styles.get(media.mime, "document"), name_mark=self.name_mark)
            for media in files
        ]
        words = self._paginate_text(markdown or (", ".join(map(clean_file_name, files)) if needs_words else ""))
        match words, enclosed:
            case (Formatted() as caption,), [alone] if not needs_words:
                if utf16_len(caption.text) <= self.caption_units(alone.style):
                    return (replace(alone, caption=caption),)
        return (*words, *enclosed)

    def _paginate_text(self, markdown: str) -> tuple[Page, ...]:
        if utf16_len(markdown) <= self.source_factor * _MAX_PIECES * self.max_units:
            found = self.render(markdown, self.max_units)
            if len(found) <= _MAX_PIECES:
                return tuple(found)
        head = self.render(markdown[:_HEAD_SOURCE_CHARS], _HEAD_UNITS) or [Formatted(text="")]
        return head[0].append(_ATTACHED), Document(text=markdown)

    def get_pages(self, message: OutboundMessage, *, needs_words: bool) -> tuple[Page, ...]:
        """Raises DeliveryRejected if there is none."""
        said = read_text(message), list_files(message), needs_words
        known, pages = self._known.get(message.key, (None, ()))
        if known != said:
            pages = self.paginate(said[0], said[1], needs_words=needs_words)
        if not pages:
            raise DeliveryRejected("it has no text")
        if len(pages) > 1:  # the others are needed soon
            self._known[message.key] = said, pages
            self._known.move_to_end(message.key)
            while len(self._known) > _REMEMBERED_MESSAGES:
                self._known.popitem(last=False)
        return pages


def build_post(
    message: OutboundMessage, pages: tuple[Page, ...], *, chat: str, thread: str = "", quotes: str = "", edits: str = ""
) -> OutgoingPost:
    """Return the page to send now. `quotes` and `edits` are for the first one."""
    piece, last = min(message.piece, len(pages) - 1), len(pages) - 1  # an older version may have cut it into more
    is_first = piece == 0
    return OutgoingPost(
        chat=chat,
        page=pages[piece],
        key=message.key,
        piece=piece,
        thread=thread,
        quotes=quotes if is_first else "",
        edits=edits if is_first and isinstance(pages[piece], Formatted) else "",
        choices=message.choices if piece == last else (),
        silent=not message.notify or not is_first,  # a long answer notifies once
        more=piece < last,
    )


def list_files(message: OutboundMessage) -> tuple[Media, ...]:
    return tuple(part for part in message.parts if isinstance(part, Media) and _is_file(part))


def read_text(message: OutboundMessage) -> str:
    """Return the text beside the files; a file that could not be had is described in it."""
    return text_of(tuple(part for part in message.parts if not _is_file(part)))


def _is_file(part: Part) -> bool:
    return isinstance(part, Media) and bool(part.sha256) and not part.problem


def clean_file_name(media: Media) -> str:
    """Return the name to send a file under: one line, no path, never empty."""
    clean = "".join(mark for mark in media.name if mark.isprintable() and mark not in '/\\"`').strip(". ")
    return clean or media.kind


class Uploads:
    """Loads files to be sent, each of them as a whole, and only a few at a time."""

    def __init__(self, load: Load | None) -> None:
        self._load = load
        self._held = 0

    @asynccontextmanager
    async def load(self, media: Media | None) -> AsyncIterator[bytes | None]:
        """Raises PlatformUnavailable instead of waiting: a send that waits could time out and be in doubt."""
        if media is None or self._load is None:
            yield None
            return
        if self._held >= _AT_ONCE:
            raise PlatformUnavailable("other files are being sent", retry_after=_BUSY_SECONDS)
        self._held += 1
        try:
            yield await self._load(media)
        finally:
            self._held -= 1
