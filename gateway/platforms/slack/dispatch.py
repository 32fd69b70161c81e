"""Route Slack's envelopes with slack-bolt, which acknowledges them only after their handler has returned."""

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

HandleBody = Callable[[Wire], Awaitable[bool | str]]
"""Handle the body of a request. Returns False if it must come again, or a text that only the sender will see."""


class Dispatch:
    """Routes envelopes with a slack-bolt app, which answers Slack only after the handler returned."""

    def __init__(
        self, client: AsyncWebClient, me: SlackIdentity, *, event: HandleBody, press: HandleBody, command: HandleBody
    ) -> None:
        async def authorize(**_: Any) -> AuthorizeResult:
            return AuthorizeResult(enterprise_id=None, team_id=me.team, bot_id=me.bot, bot_user_id=me.user)

        quiet = logging.getLogger(f"{__name__}.bolt")
        quiet.setLevel(logging.CRITICAL)  # its log quotes what people write
        self._app = AsyncApp(
            client=client,
            authorize=authorize,  # Bolt would ask Slack again, and read the environment
            process_before_response=True,  # or it would acknowledge before anything is stored
            request_verification_enabled=False,
            ignoring_self_events_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            logger=quiet,
        )
        self._app.event(_ANY)(_build_listener(event))
        self._app.action(_ANY)(_build_listener(press))
        self._app.command(_ANY)(_build_listener(command))

    async def __call__(self, envelope: Wire) -> Wire | None:
        """Return the payload of the acknowledgement; None to send none. Raises what the handler raised."""
        failures: list[Exception] = []
        words: list[str] = []
        try:
            request = AsyncBoltRequest(mode="socket_mode", body=envelope.get("payload") or {})
            request.context[_FAILURES], request.context[_WORDS] = failures, words
            status = (await self._app.async_dispatch(request)).status
        except Exception as error:  # noqa: BLE001 - contained: Bolt fails on unexpected shapes
            log.error("envelope skipped", problem=type(error).__name__)
            return {}
        if failures:
            raise failures[0]
        if status == _NOT_TAKEN:
            return None
        if status not in (_OK, _NOBODY):
            log.error("envelope skipped", status=status)
        # Events that nobody handles are acknowledged too, or they would come for ever.
        return {"text": words[0]} if words else {}


def _build_listener(take: HandleBody) -> Callable[..., Awaitable[BoltResponse | None]]:
    async def listener(ack: AsyncAck, body: Wire, context: AsyncBoltContext) -> BoltResponse | None:
        try:
            taken = await take(body)
        except Exception as error:  # noqa: BLE001 - raised again by `__call__`; Bolt would only log it
            context[_FAILURES].append(error)
            taken = False
        if taken is False:
            return BoltResponse(status=_NOT_TAKEN)
        if isinstance(taken, str):
            context[_WORDS].append(taken)
        await ack()
        return None

    return listener
