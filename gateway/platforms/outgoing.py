"""Outgoing messages: their files and the pages they are sent as."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gateway.errors import DeliveryRejected, PlatformUnavailable
from gateway.messages import Media, OutboundMessage, Part, text_of

Load = Callable[[Media], Awaitable[bytes | None]]
"""Return the bytes of a file, None if they are no longer kept."""

UPLOAD_SECONDS = 1_200.0  # at most; delivery knows the size and gives up earlier
GONE = "it is no longer kept here"
_AT_ONCE = 4
_BUSY_SECONDS = 1.0
PageT = TypeVar("PageT")
PageT_co = TypeVar("PageT_co", covariant=True)
MAX_PIECES = 6  # a longer answer is sent as a document
HEAD_UNITS = 1_500  # shown above the document
DOCUMENT_NAME = "answer.md"
ATTACHED = f"The whole text is attached as {DOCUMENT_NAME}."
_REMEMBERED_MESSAGES = 32


def list_files(message: OutboundMessage) -> tuple[Media, ...]:
    return tuple(part for part in message.parts if isinstance(part, Media) and _is_file(part))


def read_text(message: OutboundMessage) -> str:
    """Return the text beside the files; a file that could not be had is described in it."""
    return text_of(tuple(part for part in message.parts if not _is_file(part)))


def join_names(files: tuple[Media, ...]) -> str:
    return ", ".join(clean_file_name(media) for media in files)


def clean_file_name(media: Media) -> str:
    """Return the name to send a file under: one line, no path, never empty."""
    clean = "".join(mark for mark in media.name if mark.isprintable() and mark not in '/\\"`').strip(". ")
    return clean or media.kind


def explain_not_sent(media: Media, reason: str, *, mark: str = "") -> str:
    """`mark` surrounds the name, so that it is not read as markup."""
    return f"{mark}{clean_file_name(media)}{mark} could not be sent: {reason}."


class Uploads:
    """Loads files to be sent, each of them as a whole, and only a few at a time."""

    def __init__(self, load: Load | None = None, *, at_once: int = _AT_ONCE) -> None:
        self._load = load
        self._at_once = at_once
        self._held = 0

    @asynccontextmanager
    async def load(self, media: Media | None) -> AsyncIterator[bytes | None]:
        """Raises PlatformUnavailable instead of waiting: a send that waits could time out and be in doubt."""
        if media is None or self._load is None:
            yield None
            return
        if self._held >= self._at_once:
            raise PlatformUnavailable("other files are being sent", retry_after=_BUSY_SECONDS)
        self._held += 1
        try:
            yield await self._load(media)
        finally:
            self._held -= 1


def _is_file(part: Part) -> bool:
    return isinstance(part, Media) and bool(part.sha256) and not part.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text that is too long for messages."""

    text: str

    @property
    def content(self) -> bytes:
        return self.text.encode(errors="replace")


class Paginate(Protocol[PageT_co]):
    """Splits text and files into pages, always the same way. `needs_words`: the first page must be text."""

    def __call__(self, markdown: str, files: tuple[Media, ...], *, needs_words: bool) -> tuple[PageT_co, ...]: ...


class PageCache(Generic[PageT]):
    """Paginates messages and remembers the last few: a long one is needed once for each of its pages."""

    def __init__(self, paginate: Paginate[PageT]) -> None:
        self._paginate = paginate
        self._known: OrderedDict[str, tuple[object, tuple[PageT, ...]]] = OrderedDict()

    def get_pages(self, message: OutboundMessage, *, needs_words: bool) -> tuple[PageT, ...]:
        said = read_text(message), list_files(message), needs_words
        known, pages = self._known.get(message.key, (None, ()))
        if known != said:
            pages = self._paginate(said[0], said[1], needs_words=needs_words)
        if len(pages) > 1:  # the others are needed soon
            self._known[message.key] = said, pages
            self._known.move_to_end(message.key)
            while len(self._known) > _REMEMBERED_MESSAGES:
                self._known.popitem(last=False)
        return pages


def choose_piece(message: OutboundMessage, pages: Sequence[object]) -> int:
    """Return the index of the page to send now. Raises DeliveryRejected if there is none."""
    if not pages:
        raise DeliveryRejected("it has no text")
    return min(message.piece, len(pages) - 1)  # an older version may have cut it into more
