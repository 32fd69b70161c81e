"""What Discord's refusals and failures mean to whoever hears, sends or fetches."""

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
"""What the way to Discord fails with; a timeout is an OSError."""

Failure = DiscordException | aiohttp.ClientError | OSError
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_PATIENCE_SECONDS = 30.0  # when we are told to wait, and not how long
_UNKNOWN_CHANNEL = 10003
_WRONG_TOKEN, _TOO_MANY_SERVERS, _CONTENT_NOT_ALLOWED = 4004, 4011, 4014
# An Invalid Form Body says which field it means.
_INVALID_FORM = 50035
_CLOSED = {
    _UNKNOWN_CHANNEL: "Discord does not know the channel; it was deleted, or the bot was removed",
    50001: "the bot may not see the channel",
    50007: "the user takes no direct messages from the bot",
    50278: "the user takes no direct messages from the bot",
    50008: "nobody can write in such a channel",
    50013: "the bot may not write in the channel",
    50024: "nobody can write in such a channel",
    160005: "the thread is locked",
    50006: "it has no text",
    40005: "the file is too large for Discord",
    200000: "the server's AutoMod blocked it",
    240000: "Discord blocked it for a link that it finds harmful",
}
_NO_ACCESS = (50001, 50013)
_GONE = (_UNKNOWN_CHANNEL,)
_TOO_FAST = "Discord asks us to wait"


class InvalidResponse(DiscordException):
    """discord.py trusts the server: an answer of another shape than expected would look like a bug of ours."""


class DiscordRejection(Enum):
    """What is wrong with a message that Discord did not take."""

    NOTHING_TO_EDIT = auto()
    NOTHING_TO_QUOTE = auto()
    TOO_LONG = auto()
    BUTTONS = auto()
    FILE = auto()  # too large, or files are not wanted there
    WORDING = auto()


_BY_CODE = {
    10008: DiscordRejection.NOTHING_TO_EDIT,
    50005: DiscordRejection.NOTHING_TO_EDIT,
    50083: DiscordRejection.NOTHING_TO_EDIT,  # the thread is archived; a message of its own opens it again
    160002: DiscordRejection.NOTHING_TO_QUOTE,
    40005: DiscordRejection.FILE,
    50013: DiscordRejection.FILE,  # or nothing at all may be written there, which words will find out
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
        return DiscordRejection.FILE  # from a server in between, which has no codes
    return _BY_CODE.get(error.code)


def translate_send_error(error: Failure, *, repeatable: bool = False) -> GatewayError:
    """`repeatable` is what does no harm when it is done twice, such as an edit."""
    match error:
        case RateLimited():
            return PlatformUnavailable(_TOO_FAST, retry_after=error.retry_after)
        case HTTPException(status=HTTPStatus.TOO_MANY_REQUESTS):
            return PlatformUnavailable(_TOO_FAST, retry_after=_read_retry_after(error))
        case HTTPException(status=HTTPStatus.UNAUTHORIZED):
            return PlatformUnavailable("Discord does not accept the bot token")
        case HTTPException() if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return DeliveryRejected(_CLOSED.get(error.code) or f"Discord refused it: {_first_line(error.text)}")
        case _ if repeatable or isinstance(error, _NEVER_SENT):
            return PlatformUnavailable(describe_failure(error))
        case _:
            return DeliveryInDoubt(describe_failure(error))


def translate_history_error(error: Failure) -> PlatformUnavailable:
    """Of a channel's history, which can be asked for again."""
    problem = translate_send_error(error, repeatable=True)
    return problem if isinstance(problem, PlatformUnavailable) else PlatformUnavailable(str(problem))


def is_access_denied(error: Failure) -> bool:
    return isinstance(error, HTTPException) and error.code in _NO_ACCESS


def is_gone(error: Failure) -> bool:
    return isinstance(error, HTTPException) and error.code in _GONE


def describe_failure(error: Failure) -> str:
    """In words for people; never in those of a library, which may name addresses."""
    match error:
        case HTTPException():
            return f"Discord has trouble of its own (status {error.status})"
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | aiohttp.InvalidURL():
            return f"no connection to Discord could be made{_reason(error)}"
        case TimeoutError():
            return "Discord did not answer in time"
        case ConnectionClosed():
            return f"Discord closed the connection ({error.code})"
        case InvalidResponse():
            return str(error)
        case DiscordException():
            return "Discord's gateway could not be found"
        case _:
            return f"the connection broke before Discord had answered{_reason(error)}"


@contextmanager
def translate_listening_errors(variable: str) -> Iterator[None]:
    """Turns what goes wrong while listening into what the supervisor knows."""
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
                "Discord does not let the bot read messages: at https://discord.com/developers/applications choose "
                "the application, then Bot, switch on Message Content Intent under Privileged Gateway Intents, save, "
                "and start Hermes again"
            ) from error
        if error.code == _TOO_MANY_SERVERS:
            raise PlatformAuthFailed(
                "the bot is in more servers than Discord lets one connection serve (2,500); take it out of some"
            ) from error
        raise PlatformUnavailable(describe_failure(error)) from error
    except (*NETWORK_ERRORS, DiscordException) as error:
        raise PlatformUnavailable(f"Discord cannot be heard: {describe_failure(error)}") from error


@contextmanager
def check_response() -> Iterator[None]:
    try:
        yield
    except NETWORK_ERRORS:
        raise  # an address that is none is a ValueError too
    except (TypeError, KeyError, ValueError, AttributeError, zlib.error) as error:
        raise InvalidResponse("the server's answer makes no sense") from error


def _build_token_error(variable: str) -> PlatformAuthFailed:
    return PlatformAuthFailed(
        f"Discord does not accept the bot token; correct {variable} "
        "(https://discord.com/developers/applications, Bot, Reset Token) and start Hermes again"
    )


def _read_retry_after(error: HTTPException) -> float:
    try:
        return max(float(error.response.headers["Retry-After"]), 0.0)
    except (KeyError, ValueError):
        return _PATIENCE_SECONDS


def _first_line(text: str) -> str:
    return " ".join(text.split())[:200] or "no reason given"


def _reason(error: Failure) -> str:
    errno = getattr(getattr(error, "os_error", error), "errno", None)
    return f" ({os.strerror(errno)})" if errno and errno > 0 else ""
