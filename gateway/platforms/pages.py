"""What platforms share that send a long message page by page: how much is too much, and which page comes next."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gateway.errors import DeliveryRejected
from gateway.messages import Media, OutboundMessage
from gateway.platforms.uploads import files_of, words_beside

PageT = TypeVar("PageT")
CutT = TypeVar("CutT", covariant=True)

MAX_PIECES = 6  # of more than that nobody reads the first
HEAD_UNITS = 1_500  # of a text that comes as a document
DOCUMENT_NAME = "answer.md"
ATTACHED = f"The whole text is attached as {DOCUMENT_NAME}."
_REMEMBERED_MESSAGES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text that is too long for messages."""

    text: str

    @property
    def content(self) -> bytes:
        return self.text.encode(errors="replace")


class Cut(Protocol[CutT]):
    """Makes pages of words and files; of the same ones always the same. `needs_words`: the first must be words."""

    def __call__(self, markdown: str, files: tuple[Media, ...], *, needs_words: bool) -> tuple[CutT, ...]: ...


class Pages(Generic[PageT]):
    """Cuts messages, and remembers the last few: a long one is asked for once for each of its pages."""

    def __init__(self, cut: Cut[PageT]) -> None:
        self._cut = cut
        self._known: OrderedDict[str, tuple[object, tuple[PageT, ...]]] = OrderedDict()

    def of(self, message: OutboundMessage, *, needs_words: bool) -> tuple[PageT, ...]:
        said = words_beside(message), files_of(message), needs_words
        known, pages = self._known.get(message.key, (None, ()))
        if known != said:
            pages = self._cut(said[0], said[1], needs_words=needs_words)
        if len(pages) > 1:  # the others come soon
            self._known[message.key] = said, pages
            self._known.move_to_end(message.key)
            while len(self._known) > _REMEMBERED_MESSAGES:
                self._known.popitem(last=False)
        return pages


def piece_of(message: OutboundMessage, pages: Sequence[object]) -> int:
    """Which of them is to be sent now. Raises DeliveryRejected where there is none."""
    if not pages:
        raise DeliveryRejected("it has no text")
    return min(message.piece, len(pages) - 1)  # a version of ours that cut differently may have counted further
