"""Format our messages for Telegram, page by page, and drop what Telegram refuses."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity

from gateway.errors import DeliveryRejected
from gateway.messages import Address, Choice, Media, OutboundMessage
from gateway.platforms.outgoing import (
    ATTACHED,
    GONE,
    HEAD_UNITS,
    MAX_PIECES,
    Document,
    choose_piece,
    explain_not_sent,
    join_names,
)
from gateway.platforms.telegram.errors import TelegramRejection
from gateway.platforms.telegram.markdown import MAX_UNITS, Formatted, render
from gateway.platforms.text import utf16_len

_HEAD_SOURCE_CHARS = 10_000  # the head is made of these: markup may be longer than its text
_GENERAL_TOPIC = "1"  # everybody knows it by this id, and Telegram refuses it
_MAX_MESSAGE_ID = 2**31 - 1
_SHORT_LABEL_CHARS = 12
_MAX_CAPTION_UNITS = 1_024
_MAX_FILE_BYTES = 50_000_000
_MAX_PHOTO_BYTES = 10_000_000
_OPUS_HEAD_BYTES = 64
_NO_WORDS = Formatted(text="")

FileStyle = Literal["photo", "voice", "audio", "video", "animation", "document"]
"""How a file is displayed."""

_FILE_STYLES: dict[str, FileStyle] = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "photo",
    "image/gif": "animation",
    "audio/ogg": "voice",
    "audio/mpeg": "audio",
    "audio/mp4": "audio",
    "video/mp4": "video",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramAttachment:
    """A file that the answer sends."""

    media: Media
    style: FileStyle
    caption: Formatted = _NO_WORDS

    def fit(self, content: bytes | None) -> "TelegramAttachment | Formatted":
        """Return what Telegram will accept, as far as we know beforehand."""
        if content is None:
            return self.explain(GONE)
        if len(content) > _MAX_FILE_BYTES:
            return self.explain(f"it is larger than {_MAX_FILE_BYTES // 1_000_000} MB, the most that Telegram accepts")
        if self.style == "photo" and len(content) > _MAX_PHOTO_BYTES:
            return replace(self, style="document")
        if self.style == "voice" and b"OpusHead" not in content[:_OPUS_HEAD_BYTES]:
            return replace(self, style="document")
        return self

    def explain(self, reason: str) -> Formatted:
        sentence = explain_not_sent(self.media, reason)
        return replace(self.caption, text=f"{self.caption.text}\n\n{sentence}" if self.caption.text else sentence)


Page = Formatted | Document | TelegramAttachment


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramPost:
    """One page of a message, ready to send."""

    chat: int
    page: Page
    thread: int | None = None
    quotes: int | None = None
    edits: int | None = None
    choices: tuple[Choice, ...] = ()
    silent: bool = False
    more: bool = False

    @property
    def keyboard(self) -> InlineKeyboardMarkup | None:
        if not self.choices:
            return None
        per_row = 3 if all(len(choice.label) <= _SHORT_LABEL_CHARS for choice in self.choices) else 2
        buttons = [InlineKeyboardButton(choice.label, callback_data=choice.action) for choice in self.choices]
        return InlineKeyboardMarkup([buttons[at : at + per_row] for at in range(0, len(buttons), per_row)])

    def amend(self, problem: TelegramRejection) -> "TelegramPost | None":
        """Drop what Telegram refused; None when nothing is left to try. Each step removes something, so this ends."""
        match problem, self.page:
            case TelegramRejection.NO_THREAD, _ if self.thread is not None:
                return replace(self, thread=None)
            case TelegramRejection.NOTHING_TO_EDIT, _ if self.edits is not None:
                return replace(self, edits=None)
            case TelegramRejection.NOTHING_TO_QUOTE, _ if self.quotes is not None:
                return replace(self, quotes=None)
            case TelegramRejection.TOO_LONG, Formatted() as page:
                return replace(self, page=Document(text=page.plain), edits=None)
            case TelegramRejection.WORDING, Formatted() as page if page.entities:
                return replace(self, page=Formatted(text=page.plain))
            case TelegramRejection.WORDING, TelegramAttachment() as page if page.caption.entities:
                return replace(self, page=replace(page, caption=Formatted(text=page.caption.text)))
            case TelegramRejection.FILE | TelegramRejection.WORDING, TelegramAttachment() as page if (
                page.style != "document"
            ):
                return replace(self, page=replace(page, style="document"))
            case TelegramRejection.FILE | TelegramRejection.WORDING, TelegramAttachment() as page:
                return replace(self, page=page.explain("Telegram does not accept it"))
            case _:
                return None


def paginate(markdown: str, files: tuple[Media, ...] = (), *, needs_words: bool = False) -> tuple[Page, ...]:
    """Split a message into pages. The same text and files always give the same pages.

    Text comes first, then each file; a single photo takes a short text as its caption. `needs_words`: the first page
    replaces an earlier message, which only text can.
    """
    enclosed = tuple(TelegramAttachment(media=media, style=_FILE_STYLES.get(media.mime, "document")) for media in files)
    words = _paginate_text(markdown if markdown or not needs_words else join_names(files))
    if needs_words or len(enclosed) != 1 or enclosed[0].style != "photo":
        return (*words, *enclosed)
    match words:
        case (Formatted() as caption,) if utf16_len(caption.text) <= _MAX_CAPTION_UNITS:
            return (replace(enclosed[0], caption=caption),)
        case _:
            return (*words, *enclosed)


def _paginate_text(markdown: str) -> tuple[Page, ...]:
    if utf16_len(markdown) <= MAX_PIECES * MAX_UNITS:
        found = render(markdown)
        if len(found) <= MAX_PIECES:
            return tuple(found)
    return _render_head(markdown), Document(text=markdown)


def build_post(message: OutboundMessage, pages: Sequence[Page]) -> TelegramPost:
    piece, last = choose_piece(message, pages), len(pages) - 1
    first = piece == 0
    chat, thread = parse_address(message.address)
    return TelegramPost(
        chat=chat,
        page=pages[piece],
        thread=thread,
        quotes=_parse_message_id(message.address.reply_to) if first and chat < 0 else None,
        edits=_parse_message_id(message.edits) if first and not isinstance(pages[piece], TelegramAttachment) else None,
        choices=message.choices if piece == last else (),
        silent=not message.notify or not first,  # a long answer notifies once
        more=piece < last,
    )


def parse_address(address: Address) -> tuple[int, int | None]:
    """Return the chat and the topic. Raises DeliveryRejected."""
    chat = _parse_int(address.chat)
    if chat is None:
        raise DeliveryRejected(f"{address.chat} is not a Telegram chat id")
    return chat, _parse_int(address.thread) if address.thread != _GENERAL_TOPIC else None


def build_entities(page: Formatted) -> list[MessageEntity]:
    return [
        MessageEntity(
            type=entity.kind,
            offset=entity.offset,
            length=entity.length,
            url=entity.url or None,
            language=entity.language or None,
        )
        for entity in page.entities
    ]


def _render_head(markdown: str) -> Formatted:
    found = render(markdown[:_HEAD_SOURCE_CHARS], limit=HEAD_UNITS)
    if not found:
        return Formatted(text=ATTACHED)
    return replace(found[0], text=f"{found[0].text}\n\n{ATTACHED}")


def _parse_int(written: str) -> int | None:
    return int(written) if written.removeprefix("-").isdecimal() and written.isascii() else None


def _parse_message_id(written: str) -> int | None:
    """Return None for other ids: those of button presses and reactions look different."""
    number = _parse_int(written)
    return number if number is not None and 0 < number <= _MAX_MESSAGE_ID else None
