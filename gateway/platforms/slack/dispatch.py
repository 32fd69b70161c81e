"""slack-bolt's app as the one that tells envelopes apart. It answers Slack only after what it calls has returned."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from gateway.platforms.slack.parsing import SlackIdentity
from gateway.platforms.slack.web_api import Wire

log = structlog.get_logger()

_ANY = re.compile("")
_FAILURES = "hermes_failures"
_WORDS = "hermes_words"
_OK, _NOBODY, _NOT_TAKEN = 200, 404, 503

Took = Callable[[Wire], Awaitable[bool | str]]
"""Takes the body of a request; False when it could not be taken and must come again, a text when whoever acted is to
be told that and nobody else."""


class Dispatch:
    def __init__(self, client: AsyncWebClient, me: SlackIdentity, *, event: Took, press: Took, command: Took) -> None:
        async def authorize(**_: Any) -> AuthorizeResult:
            return AuthorizeResult(enterprise_id=None, team_id=me.team, bot_id=me.bot, bot_user_id=me.user)

        quiet = logging.getLogger(f"{__name__}.bolt")
        quiet.setLevel(logging.CRITICAL)  # its log tells what people write
        self._app = AsyncApp(
            client=client,
            authorize=authorize,  # who we are is known by now; Bolt would ask again, and read the environment for it
            process_before_response=True,  # or it would acknowledge before anything is kept
            request_verification_enabled=False,
            ignoring_self_events_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            logger=quiet,
        )
        self._app.event(_ANY)(_acking(event))
        self._app.action(_ANY)(_acking(press))
        self._app.command(_ANY)(_acking(command))

    async def __call__(self, envelope: Wire) -> Wire | None:
        """What to acknowledge with; None when there must be no acknowledgement. Raises what the listener raised."""
        failures: list[Exception] = []
        words: list[str] = []
        try:
            request = AsyncBoltRequest(mode="socket_mode", body=envelope.get("payload") or {})
            request.context[_FAILURES], request.context[_WORDS] = failures, words
            status = (await self._app.async_dispatch(request)).status
        except Exception as error:  # noqa: BLE001 - contained: Bolt chokes on what has not the shape it expects
            log.error("envelope skipped", problem=type(error).__name__)
            return {}
        if failures:
            raise failures[0]
        if status in (_OK, _NOBODY):  # what nobody wants to hear is acknowledged too, or it would come for ever
            return {"text": words[0]} if words else {}
        if status != _NOT_TAKEN:
            log.error("envelope failed", status=status)
        return None


def _acking(take: Took) -> Callable[..., Awaitable[BoltResponse | None]]:
    async def listener(ack: AsyncAck, body: Wire, context: AsyncBoltContext) -> BoltResponse | None:
        try:
            taken = await take(body)
        except Exception as error:  # noqa: BLE001 - raised by whoever called Bolt, which would log it and go on
            context[_FAILURES].append(error)
            taken = False
        if taken is False:
            return BoltResponse(status=_NOT_TAKEN)
        if isinstance(taken, str):
            context[_WORDS].append(taken)
        await ack()
        return None

    return listener
