"""Translate Telegram's errors for the listener, the delivery and the media fetcher."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, TelegramError

from gateway.errors import (
    DeliveryInDoubt,
    DeliveryRejected,
    GatewayError,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
)
from gateway.platforms.outgoing import Rejection
from gateway.platforms.telegram.transport import TelegramNotSent, TelegramTooFast, TelegramTooLarge

_CONFLICT_SECONDS = 15.0  # each try of ours takes updates from the other program


# Searched in order and in lower case: python-telegram-bot turns ENTITY_INVALID into Entity_invalid.
_SIGNS = (
    (Rejection.UNCHANGED, "message is not modified"),
    (
        Rejection.NOTHING_TO_EDIT,
        "message to edit not found|message can't be edited|message_id_invalid|no text in the message to edit",
    ),
    (Rejection.NOTHING_TO_DELETE, "message to delete not found"),
    (Rejection.NO_THREAD, "message thread not found|topic_deleted"),
    (Rejection.NOTHING_TO_QUOTE, "replied (message )?not found"),
    (Rejection.TOO_LONG, "(message|text) is too long|message_too_long"),
    (
        Rejection.FILE,
        "photo_|image_process_failed|too big for a photo|file is too big|file must be non-empty|wrong file"
        "|wrong type of|can't use file of type|media_invalid|video_content_type_invalid|voice_messages_forbidden"
        # A group may forbid one kind of file; "to send text messages" closes it to everything.
        r"|status 413|rights to send (?!text|message)|chat_send_(?!plain)\w+_forbidden",
    ),
)
_CLOSED = (
    ("blocked by the user", "the user has blocked the bot"),
    ("user is deactivated", "the user's account was deleted"),
    ("can't initiate conversation", "the user has not started the bot yet"),
    ("can't send messages to bots", "bots cannot write to bots"),
    ("was kicked", "the bot was removed from the chat"),
    ("not a member", "the bot is not in the chat"),
    ("group (chat was deleted|is deactivated)", "the group was deleted"),
    ("chat not found|peer_id_invalid", "Telegram does not know the chat"),
    ("user not found", "Telegram does not know the user"),
    ("topic_closed", "the topic is closed"),
    (
        "rights|write_forbidden|send_plain_forbidden|chat_restricted|chat_admin_required",
        "the bot may not write in the chat",
    ),
    ("text (is|must be non-)empty", "it has no text"),
)


def classify_refusal(error: Exception) -> Rejection | None:
    return classify_rejection(error) if isinstance(error, BadRequest) else None


def classify_rejection(error: TelegramError) -> Rejection:
    words = error.message.lower()
    found = next((meaning for meaning, signs in _SIGNS if re.search(signs, words)), None)
    if found is not None:
        return found
    is_closed = isinstance(error, Forbidden) or _explain_closed(words)
    return Rejection.CLOSED_TO_US if is_closed else Rejection.WORDING


def translate_send_error(error: Exception, *, repeatable: bool) -> GatewayError:
    """`repeatable` calls do no harm when done twice, such as an edit."""
    match error:
        case BadRequest() | Forbidden():
            return DeliveryRejected(_explain_closed(error.message.lower()) or f"Telegram refused it: {error.message}")
        case TelegramTooFast():
            return PlatformUnavailable(error.message, retry_after=error.seconds)
        case InvalidToken():
            return PlatformUnavailable("Telegram does not accept the bot token")
        case _ if repeatable or isinstance(error, TelegramNotSent | Conflict):
            return PlatformUnavailable(str(error))
        case _:
            return DeliveryInDoubt(str(error))


def translate_fetch_error(error: TelegramError) -> MediaUnavailable:
    words = error.message.lower()
    if isinstance(error, TelegramTooLarge) or "file is too big" in words:
        return MediaUnavailable("it is larger than Telegram gives to bots (20 MB), or than we accept")
    if isinstance(error, BadRequest):
        return MediaUnavailable("Telegram no longer has the file")
    return MediaUnavailable(f"it could not be fetched from Telegram: {error.message}")


def translate_listening_error(error: Exception, variable: str) -> GatewayError:
    match error:
        case InvalidToken():
            return PlatformAuthFailed(
                f"Telegram does not accept the bot token. Correct {variable} (@BotFather shows it) and restart Hermes"
            )
        case TelegramTooFast():
            return PlatformUnavailable(error.message, retry_after=error.seconds)
        case Conflict():
            return PlatformUnavailable(
                "another program receives this bot's messages with the same token (409). Stop it, or get a new token "
                f"from @BotFather and set {variable}",
                retry_after=_CONFLICT_SECONDS,
            )
        case BadRequest() | Forbidden():
            return PlatformUnavailable(f"Telegram refuses: {error.message}")
        case _:
            return PlatformUnavailable(str(error))


@contextmanager
def check_response() -> Iterator[None]:
    """Raise TelegramError for a malformed answer: python-telegram-bot trusts the server and would fail like a bug."""
    try:
        yield
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TelegramError("Telegram's server sent a malformed answer") from error


def _explain_closed(words: str) -> str:
    return next((plain for signs, plain in _CLOSED if re.search(signs, words)), "")
