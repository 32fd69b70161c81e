"""Translate Telegram's errors for the listener, the delivery and the media fetcher."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, TelegramError

from gateway.errors import (
    DeliveryInDoubt,
    DeliveryRejected,
    GatewayError,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
)
from gateway.platforms.telegram.transport import TelegramMaybeSent, TelegramNotSent, TelegramTooFast, TelegramTooLarge

_CONFLICT_SECONDS = 15.0  # each try of ours takes updates from the other program


class TelegramRejection(Enum):
    """Why Telegram did not accept a message."""

    UNCHANGED = auto()  # an edit that would change nothing
    NOTHING_TO_EDIT = auto()
    NOTHING_TO_DELETE = auto()
    NO_THREAD = auto()
    NOTHING_TO_QUOTE = auto()
    TOO_LONG = auto()
    FILE = auto()  # not as this kind, or not at all
    CLOSED_TO_US = auto()
    WORDING = auto()  # anything else, most likely the formatting


# Matched in order and in lower case: python-telegram-bot turns ENTITY_INVALID into Entity_invalid.
_SIGNS = (
    ("message is not modified", TelegramRejection.UNCHANGED),
    ("message to edit not found", TelegramRejection.NOTHING_TO_EDIT),
    ("message can't be edited", TelegramRejection.NOTHING_TO_EDIT),
    ("message_id_invalid", TelegramRejection.NOTHING_TO_EDIT),
    ("no text in the message to edit", TelegramRejection.NOTHING_TO_EDIT),
    ("message to delete not found", TelegramRejection.NOTHING_TO_DELETE),
    ("message thread not found", TelegramRejection.NO_THREAD),
    ("topic_deleted", TelegramRejection.NO_THREAD),
    ("replied not found", TelegramRejection.NOTHING_TO_QUOTE),
    ("replied message not found", TelegramRejection.NOTHING_TO_QUOTE),
    ("message is too long", TelegramRejection.TOO_LONG),
    ("message_too_long", TelegramRejection.TOO_LONG),
    ("text is too long", TelegramRejection.TOO_LONG),
    ("photo_", TelegramRejection.FILE),  # invalid_dimensions, save_file_invalid, ext_invalid
    ("image_process_failed", TelegramRejection.FILE),
    ("too big for a photo", TelegramRejection.FILE),
    ("file is too big", TelegramRejection.FILE),
    ("file must be non-empty", TelegramRejection.FILE),
    ("wrong file", TelegramRejection.FILE),
    ("can't use file of type", TelegramRejection.FILE),
    ("wrong type of", TelegramRejection.FILE),
    ("media_invalid", TelegramRejection.FILE),
    ("video_content_type_invalid", TelegramRejection.FILE),
    ("voice_messages_forbidden", TelegramRejection.FILE),  # the user takes none
    ("status 413", TelegramRejection.FILE),
)
# A group may forbid one kind of file; "to send text messages" closes it to everything.
_FILES_FORBIDDEN = re.compile(r"rights to send (?!text|message)|chat_send_(?!plain)\w+_forbidden")
_CLOSED = (
    ("blocked by the user", "the user has blocked the bot"),
    ("user is deactivated", "the user's account was deleted"),
    ("can't initiate conversation", "the user has not started the bot yet"),
    ("can't send messages to bots", "bots cannot write to bots"),
    ("was kicked", "the bot was removed from the chat"),
    ("not a member", "the bot is not in the chat"),
    ("group chat was deleted", "the group was deleted"),
    ("group is deactivated", "the group was deleted"),
    ("chat not found", "Telegram does not know the chat"),
    ("user not found", "Telegram does not know the user"),
    ("peer_id_invalid", "Telegram does not know the chat"),
    ("topic_closed", "the topic is closed"),
    ("rights", "the bot may not write in the chat"),
    ("write_forbidden", "the bot may not write in the chat"),
    ("send_plain_forbidden", "the bot may not write in the chat"),
    ("chat_restricted", "the bot may not write in the chat"),
    ("chat_admin_required", "the bot may not write in the chat"),
    ("text is empty", "it has no text"),
    ("text must be non-empty", "it has no text"),
)


def classify_rejection(error: TelegramError) -> TelegramRejection:
    words = error.message.lower()
    found = next((meaning for sign, meaning in _SIGNS if sign in words), None)
    if found is None and _FILES_FORBIDDEN.search(words):
        found = TelegramRejection.FILE
    if found is not None:
        return found
    return (
        TelegramRejection.CLOSED_TO_US
        if isinstance(error, Forbidden) or _explain_closed(words)
        else TelegramRejection.WORDING
    )


def translate_send_error(error: TelegramError, *, repeatable: bool) -> GatewayError:
    """`repeatable` calls do no harm when done twice, such as an edit."""
    match error:
        case BadRequest() | Forbidden():
            return DeliveryRejected(_explain_closed(error.message.lower()) or f"Telegram refused it: {error.message}")
        case TelegramTooFast():
            return PlatformUnavailable(error.message, retry_after=error.seconds)
        case TelegramNotSent() | Conflict():
            return PlatformUnavailable(error.message)
        case InvalidToken():
            return PlatformUnavailable("Telegram does not accept the bot token")
        case _ if repeatable:
            return PlatformUnavailable(error.message)
        case TelegramMaybeSent() | _:
            return DeliveryInDoubt(error.message)


def translate_fetch_error(error: TelegramError) -> MediaUnavailable:
    words = error.message.lower()
    if isinstance(error, TelegramTooLarge) or "file is too big" in words:
        return MediaUnavailable("it is larger than Telegram gives to bots (20 MB), or than we accept")
    if isinstance(error, BadRequest):
        return MediaUnavailable("Telegram no longer has the file")
    return MediaUnavailable(f"it could not be fetched from Telegram: {error.message}")


@contextmanager
def translate_listening_errors(variable: str) -> Iterator[None]:
    """Turn errors while listening into those that the supervisor handles."""
    try:
        yield
    except InvalidToken as error:
        raise PlatformAuthFailed(
            f"Telegram does not accept the bot token. Correct {variable} (@BotFather shows it) and restart Hermes"
        ) from error
    except TelegramTooFast as error:
        raise PlatformUnavailable(error.message, retry_after=error.seconds) from error
    except Conflict as error:
        raise PlatformUnavailable(
            "another program receives this bot's messages with the same token (409). Stop it, or get a new token from "
            f"@BotFather and set {variable}",
            retry_after=_CONFLICT_SECONDS,
        ) from error
    except (BadRequest, Forbidden) as error:
        raise PlatformUnavailable(f"Telegram refuses: {error.message}") from error
    except TelegramError as error:
        raise PlatformUnavailable(error.message) from error


@contextmanager
def check_response() -> Iterator[None]:
    """Raise TelegramError for a malformed answer: python-telegram-bot trusts the server and would fail like a bug."""
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TelegramError("Telegram's server sent a malformed answer") from error


def _explain_closed(words: str) -> str:
    return next((plain for sign, plain in _CLOSED if sign in words), "")
