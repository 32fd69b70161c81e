"""Translate Discord's errors for the listener, the delivery and the media fetcher."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import aiohttp
from discord import ConnectionClosed, DiscordException, HTTPException, LoginFailure, RateLimited

from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, PlatformAuthFailed, PlatformUnavailable
from gateway.platforms.outgoing import Rejection
from gateway.platforms.transport import describe_network_error

NETWORK_ERRORS = (aiohttp.ClientError, OSError)
"""Errors of the network; a timeout is an OSError."""

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_PATIENCE_SECONDS = 30.0  # if Discord does not say how long to wait
_UNKNOWN_CHANNEL = 10003
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


class InvalidResponse(DiscordException):
    """A malformed answer: discord.py trusts the server and would fail like a bug."""


_BY_CODE = {
    10008: Rejection.NOTHING_TO_EDIT,
    50005: Rejection.NOTHING_TO_EDIT,
    50083: Rejection.NOTHING_TO_EDIT,  # the thread is archived; a new message reopens it
    160002: Rejection.NOTHING_TO_QUOTE,
    40005: Rejection.FILE,
    50013: Rejection.FILE,  # or nothing may be written there: sending text will tell
}

_BY_FIELD = (
    ("message_reference", Rejection.NOTHING_TO_QUOTE),
    ("components", Rejection.BUTTONS),
    ("or fewer in length", Rejection.TOO_LONG),
    ("content", Rejection.WORDING),
)


def classify_rejection(error: Exception) -> Rejection | None:
    if not isinstance(error, HTTPException):
        return None
    if error.code == _INVALID_FORM:
        words = error.text.lower()
        return next((meaning for sign, meaning in _BY_FIELD if sign in words), Rejection.WORDING)
    if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        return Rejection.FILE  # from a proxy, which has no codes
    return _BY_CODE.get(error.code)


def translate_send_error(error: Exception, *, repeatable: bool = False) -> GatewayError:
    """`repeatable` calls do no harm when done twice, such as an edit."""
    match error:
        case RateLimited() | HTTPException(status=HTTPStatus.TOO_MANY_REQUESTS):
            return PlatformUnavailable("Discord asks us to wait", retry_after=_read_retry_after(error))
        case HTTPException(status=HTTPStatus.UNAUTHORIZED):
            return PlatformUnavailable("Discord does not accept the bot token")
        case HTTPException() if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            words = " ".join(error.text.split())[:200] or "no reason given"
            return DeliveryRejected(_CLOSED.get(error.code) or f"Discord refused it: {words}")
        case _ if repeatable or isinstance(error, _NEVER_SENT):
            return PlatformUnavailable(describe_failure(error))
        case _:
            return DeliveryInDoubt(describe_failure(error))


def translate_history_error(error: Exception) -> PlatformUnavailable:
    """Translate an error of reading history, which can be repeated."""
    problem = translate_send_error(error, repeatable=True)
    return problem if isinstance(problem, PlatformUnavailable) else PlatformUnavailable(str(problem))


def is_access_denied(error: Exception) -> bool:
    return isinstance(error, HTTPException) and error.code in _NO_ACCESS


def is_gone(error: Exception) -> bool:
    return isinstance(error, HTTPException) and error.code == _UNKNOWN_CHANNEL


def describe_failure(error: Exception) -> str:
    """Describe an error for people, without the library's text, which may name addresses."""
    match error:
        case HTTPException():
            return f"Discord has trouble of its own (status {error.status})"
        case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError() | aiohttp.InvalidURL():
            return f"cannot connect to Discord ({describe_network_error(error)})"
        case TimeoutError():
            return "Discord did not answer in time"
        case ConnectionClosed():
            return f"Discord closed the connection ({error.code})"
        case InvalidResponse():
            return str(error)
        case DiscordException():
            return "Discord's gateway was not found"
        case _:
            return f"the connection broke before Discord answered ({describe_network_error(error)})"


def translate_listening_error(error: Exception, variable: str) -> GatewayError:
    match error:
        case LoginFailure() | HTTPException(status=HTTPStatus.UNAUTHORIZED) | ConnectionClosed(code=4004):
            return PlatformAuthFailed(
                f"Discord does not accept the bot token. Correct {variable} "
                "(https://discord.com/developers/applications, Bot, Reset Token) and restart Hermes"
            )
        case ConnectionClosed(code=4014):
            return PlatformAuthFailed(
                "Discord does not let the bot read messages. At https://discord.com/developers/applications choose "
                "the application, then Bot, switch on Message Content Intent under Privileged Gateway Intents, save, "
                "and restart Hermes"
            )
        case ConnectionClosed(code=4011):
            return PlatformAuthFailed(
                "the bot is in more servers than one connection can serve (2,500). Remove it from some"
            )
        case ConnectionClosed():
            return PlatformUnavailable(describe_failure(error))
        case RateLimited() | HTTPException(status=HTTPStatus.TOO_MANY_REQUESTS):
            return PlatformUnavailable("Discord asks us to wait", retry_after=_read_retry_after(error))
        case _:
            return PlatformUnavailable(f"Listening to Discord failed: {describe_failure(error)}")


@contextmanager
def check_response() -> Iterator[None]:
    try:
        yield
    except NETWORK_ERRORS:
        raise  # an invalid address is a ValueError too
    except (TypeError, KeyError, ValueError, AttributeError, zlib.error) as error:
        raise InvalidResponse("Discord's server sent a malformed answer") from error


def _read_retry_after(error: RateLimited | HTTPException) -> float:
    if isinstance(error, RateLimited):
        return error.retry_after
    try:
        return max(float(error.response.headers["Retry-After"]), 0.0)
    except (KeyError, ValueError):
        return _PATIENCE_SECONDS
