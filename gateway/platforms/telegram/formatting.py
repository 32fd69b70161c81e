"""Format our messages for Telegram, page by page."""

from collections.abc import Sequence

from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity

from gateway.errors import DeliveryRejected
from gateway.messages import Address, Choice
from gateway.platforms.outgoing import Formatted, Pages
from gateway.platforms.telegram.markdown import MAX_UNITS, render

_GENERAL_TOPIC = "1"  # everybody knows it by this id, and Telegram refuses it
_MAX_MESSAGE_ID = 2**31 - 1
_SHORT_LABEL_CHARS = 12
_MAX_CAPTION_UNITS = 1_024

PAGES = Pages(
    render=render,
    max_units=MAX_UNITS,
    caption_units=lambda style: _MAX_CAPTION_UNITS if style == "photo" else 0,
    styles={
        "image/jpeg": "photo",
        "image/png": "photo",
        "image/webp": "photo",
        "image/gif": "animation",
        "audio/ogg": "voice",
        "audio/mpeg": "audio",
        "audio/mp4": "audio",
        "video/mp4": "video",
    },
)


def build_keyboard(choices: Sequence[Choice]) -> InlineKeyboardMarkup | None:
    if not choices:
        return None
    per_row = 3 if all(len(choice.label) <= _SHORT_LABEL_CHARS for choice in choices) else 2
    buttons = [InlineKeyboardButton(choice.label, callback_data=choice.action) for choice in choices]
    return InlineKeyboardMarkup([buttons[at : at + per_row] for at in range(0, len(buttons), per_row)])


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


def keep_message_id(written: str) -> str:
    """Return an empty text for other ids: those of button presses and reactions look different."""
    number = _parse_int(written)
    return written if number is not None and 0 < number <= _MAX_MESSAGE_ID else ""


def _parse_int(written: str) -> int | None:
    return int(written) if written.removeprefix("-").isdecimal() and written.isascii() else None
