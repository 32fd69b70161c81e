"""Translate Discord's errors for the listener, the delivery and the media fetcher."""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from http import HTTPStatus

import aiohttp
from discord import (
    ConnectionClosed,
    DiscordException,
    HTTPException,
    LoginFailure,
    RateLimited,
)

from gateway.errors import (
    DeliveryInDoubt,
    DeliveryRejected,
    GatewayError,
    PlatformAuthFailed,
    PlatformUnavailable,
)

NETWORK_ERRORS = (aiohttp.ClientError, OSError)
"""Errors of the network; a timeout is an OSError."""

Failure = DiscordException | aiohttp.ClientError | OSError
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_PATIENCE_SECONDS = 30.0  # if Discord does not say how long to wait
_UNKNOWN_CHANNEL = 10003
_WRONG_TOKEN, _TOO_MANY_SERVERS, _CONTENT_NOT_ALLOWED = 4004, 4011, 4014
# An Invalid Form Body names the field.
_INVALID_FORM = 50035
_CLOSED = {
    _UNKNOWN_CHANNEL: "Discord does not know the channel; it was deleted, or the bot was removed",
    50001: "the bot may not see the channel",
    50007: "the user accepts no direct messages from the bot",
    50278: "the user accepts no direct messages from the bot",
    50008: "nobody can write in such a channel",
    50013: "the bot may not write in the channel",
    50024: "nobody can write in such a channel",
    160005: "the thread is locked",
    50006: "it has no text",
    40005: "the file is too large for Discord",
    200000: "the server's AutoMod blocked it",
    240000: "Discord blocked it because of a harmful link",
}
_NO_ACCESS = (50001, 50013)
_GONE = (_UNKNOWN_CHANNEL,)
_TOO_FAST = "Discord asks us to wait"


class InvalidResponse(DiscordException):
    """A malformed answer: discord.py trusts the server and would fail like a bug."""


class DiscordRejection(Enum):
    """Why Discord did not accept a message."""

    NOTHING_TO_EDIT = auto()
    NOTHING_TO_QUOTE = auto()
    TOO_LONG = auto()
    BUTTONS = auto()
    FILE = auto()  # too large, or not allowed there
    WORDING = auto()


_BY_CODE = {
    10008: DiscordRejection.NOTHING_TO_EDIT,
    50005: DiscordRejection.NOTHING_TO_EDIT,
    50083: DiscordRejection.NOTHING_TO_EDIT,  # the thread is archived; a new message reopens it
    160002: DiscordRejection.NOTHING_TO_QUOTE,
    40005: DiscordRejection.FILE,
    50013: DiscordRejection.FILE,  # or nothing may be written there: sending text will tell
}

_BY_FIELD = (
    ("message_reference", DiscordRejection.NOTHING_TO_QUOTE),
    ("components", DiscordRejection.BUTTONS),
    ("or fewer in length", DiscordRejection.TOO_LONG),
    ("content", DiscordRejection.WORDING),
)


def classify_rejection(error: Failure) -> DiscordRejection | None:
    if not isinstance(error, HTTPException):
        return None
    if error.code == _INVALID_FORM:
        words = error.text.lower()
        return next((meaning for sign, meaning in _BY_FIELD if sign in words), DiscordRejection.WORDING)
    if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return DiscordRejection.FILE  # from a proxy, which has no codes
    return _BY_CODE.get(error.code)


def translate_send_error(error: Failure, *, repeatable: bool = False) -> GatewayError:
    """`repeatable` calls do no harm when done twice, such as an edit."""
    match error:
        case RateLimited():
            return PlatformUnavailable(_TOO_FAST, retry_after=error.retry_after)
        case HTTPException(status=HTTPStatus.TOO_MANY_REQUESTS):
            return PlatformUnavailable(_TOO_FAST, retry_after=_read_retry_after(error))
        case HTTPException(status=HTTPStatus.UNAUTHORIZED):
            return PlatformUnavailable("Discord does not accept the bot token")
        case HTTPException() if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            words = " ".join(error.text.split())[:200] or "no reason given"
            return DeliveryRejected(_CLOSED.get(error.code) or f"Discord refused it: {words}")
        case _ if repeatable or isinstance(error, _NEVER_SENT):
            return PlatformUnavailable(describe_failure(error))
        case _:
            return DeliveryInDoubt(describe_failure(error))


def translate_history_error(error: Failure) -> PlatformUnavailable:
    """Translate an error of reading history, which can be repeated."""
    problem = translate_send_error(error, repeatable=True)
    return problem if isinstance(problem, PlatformUnavailable) else PlatformUnavailable(str(problem))


def is_access_denied(error: Failure) -> bool:
    return isinstance(error, HTTPException) and error.code in _NO_ACCESS


def is_gone(error: Failure) -> bool:
    return isinstance(error, HTTPException) and error.code in _GONE


def describe_failure(error: Failure) -> str:
    """Describe an error for people, without the library's text, which may name addresses."""
    match error:
        case HTTPException():
            return f"Discord has trouble of its own (status {error.status})"
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | aiohttp.InvalidURL():
            return f"cannot connect to Discord{_reason(error)}"
        case TimeoutError():
            return "Discord did not answer in time"
        case ConnectionClosed():
            return f"Discord closed the connection ({error.code})"
        case InvalidResponse():
            return str(error)
        case DiscordException():
            return "Discord's gateway was not found"
        case _:
            return f"the connection broke before Discord answered{_reason(error)}"


@contextmanager
def translate_listening_errors(variable: str) -> Iterator[None]:
    """Turn errors while listening into those that the supervisor handles."""
    try:
        yield
    except LoginFailure as error:
        raise _build_token_error(variable) from error
    except HTTPException as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise _build_token_error(variable) from error
        wait = _read_retry_after(error) if error.status == HTTPStatus.TOO_MANY_REQUESTS else None
        raise PlatformUnavailable(f"Discord cannot be heard: {describe_failure(error)}", retry_after=wait) from error
    except RateLimited as error:
        raise PlatformUnavailable(_TOO_FAST, retry_after=error.retry_after) from error
    except ConnectionClosed as error:
        if error.code == _WRONG_TOKEN:
            raise _build_token_error(variable) from error
        if error.code == _CONTENT_NOT_ALLOWED:
            raise PlatformAuthFailed(
                "Discord does not let the bot read messages. At https://discord.com/developers/applications choose "
                "the application, then Bot, switch on Message Content Intent under Privileged Gateway Intents, save, "
                "and restart Hermes"
            ) from error
        if error.code == _TOO_MANY_SERVERS:
            raise PlatformAuthFailed(
                "the bot is in more servers than one connection can serve (2,500). Remove it from some"
            ) from error
        raise PlatformUnavailable(describe_failure(error)) from error
    except (*NETWORK_ERRORS, DiscordException) as error:
        raise PlatformUnavailable(f"Discord cannot be heard: {describe_failure(error)}") from error


@contextmanager
def check_response() -> Iterator[None]:
    try:
        yield
    except NETWORK_ERRORS:
        raise  # an invalid address is a ValueError too
    except (TypeError, KeyError, ValueError, AttributeError, zlib.error) as error:
        raise InvalidResponse("Discord's server sent a malformed answer") from error


def _build_token_error(variable: str) -> PlatformAuthFailed:
    return PlatformAuthFailed(
        f"Discord does not accept the bot token. Correct {variable} "
        "(https://discord.com/developers/applications, Bot, Reset Token) and restart Hermes"
    )


def _read_retry_after(error: HTTPException) -> float:
    try:
        return max(float(error.response.headers["Retry-After"]), 0.0)
    except (KeyError, ValueError):
        return _PATIENCE_SECONDS


def _reason(error: Failure) -> str:
    errno = getattr(getattr(error, "os_error", error), "errno", None)
    return f" ({os.strerror(errno)})" if errno and errno > 0 else ""
