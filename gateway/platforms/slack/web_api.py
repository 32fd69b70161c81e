"""Slack's Web API through its SDK: each error tells whether Slack may have acted on the call.

SlackProblem
├── SlackRefused     Slack refused it, and says why
├── SlackTooFast     Slack asks us to wait
├── SlackTooLarge    a file is larger than we accept
├── SlackNotSent     nothing was done: it never left this machine
└── SlackMaybeSent   it was sent, and no answer says what became of it

No error names an address or has the SDK's error as its cause: those may hold a token or what people wrote.
"""

import io
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.platforms.outgoing import UPLOAD_SECONDS
from gateway.platforms.text import describe_size_limit
from gateway.platforms.transport import SharedTransport, network_errors, read_at_most

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30.0
_DOWNLOAD_SECONDS = 60.0
_PATIENCE_SECONDS = 5.0  # if Slack does not say how long to wait
# Shorter than any server's: a request on a connection that the server just closed would be in doubt.
_IDLE_SECONDS = 15.0
_MOST_AT_ONCE = 100
_MAX_ENVELOPE_BYTES = 16_000_000
# According to Slack, something may have been done before these.
_TROUBLE = frozenset(("fatal_error", "internal_error", "service_unavailable", "team_added_to_org"))
SIGN_IN_PAGE = "Slack returned a sign-in page instead of the file; the bot may lack the scope files:read"

Wire = dict[str, Any]


class SlackProblem(Exception):
    pass


class SlackRefused(SlackProblem):
    def __init__(self, error: str, *, needed: str = "", words: str = "") -> None:
        super().__init__(f"{error} ({needed or words})" if needed or words else error)
        self.error = error
        self.needed = needed  # the scope that is missing


class SlackTooFast(SlackProblem):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"Slack asks us to wait for {seconds:.0f} seconds")
        self.seconds = seconds


class SlackTooLarge(SlackProblem):
    pass


class SlackNotSent(SlackProblem):
    pass


class SlackMaybeSent(SlackProblem):
    pass


class SlackWebApi(SharedTransport["SlackWebApi"]):
    """A pool of connections. Ignores the environment, proxies and cookies, and retries nothing."""

    def __init__(self, bot_token: str, app_token: str, api_url: str) -> None:
        self._bot = _build_client(bot_token, api_url)
        self._app = _build_client(app_token, api_url)
        self._session: aiohttp.ClientSession | None = None

    @property
    def bot_client(self) -> AsyncWebClient:
        return self._bot

    async def open_client(self) -> "SlackWebApi":
        if self._session is None:
            self._session = self._bot.session = self._app.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_MOST_AT_ONCE, keepalive_timeout=_IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=_CONNECT_SECONDS + _READ_SECONDS, connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
                ),
            )
        return self

    async def close_client(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, **arguments: object) -> Wire:
        """Return Slack's answer; arguments of None are left out."""
        return (await self._call(self._bot, method, arguments))[0]

    async def test_auth(self) -> tuple[Wire, frozenset[str]]:
        """Return who we are and the scopes of the bot's token; none if Slack does not list them."""
        answer, headers = await self._call(self._bot, "auth.test", {})
        scopes = headers.get("x-oauth-scopes", "")
        return answer, frozenset(scope.strip() for scope in scopes.split(",") if scope.strip())

    async def open_socket(self) -> aiohttp.ClientWebSocketResponse:
        """Open a connection for Socket Mode, with a ticket of its own."""
        answer, _ = await self._call(self._app, "apps.connections.open", {})
        with network_errors("Slack", SlackNotSent, SlackMaybeSent):
            try:
                return await self._open_session.ws_connect(
                    str(answer["url"]),
                    autoping=False,  # so that we see Slack's pings: they show that the connection is alive
                    max_msg_size=_MAX_ENVELOPE_BYTES,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                )
            except aiohttp.WSServerHandshakeError as error:
                raise SlackNotSent(f"Slack did not open the socket (status {error.status})") from None

    async def download(self, url: str, max_bytes: int) -> tuple[bytes, str]:
        """Return a file's content and type. Our token is sent along, so the address must be Slack's."""
        if not self._is_slack_url(url):
            raise SlackRefused("the file is stored outside of Slack")
        with network_errors("Slack", SlackNotSent, SlackMaybeSent):
            async with self._open_session.get(
                url,
                headers={"Authorization": f"Bearer {self._bot.token}"},
                timeout=aiohttp.ClientTimeout(total=_DOWNLOAD_SECONDS, connect=_CONNECT_SECONDS),
                allow_redirects=False,  # to the sign-in page
            ) as response:
                if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
                    raise SlackRefused(SIGN_IN_PAGE)
                if response.status == HTTPStatus.NOT_FOUND:
                    raise SlackRefused("Slack no longer has the file")
                if response.status != HTTPStatus.OK:
                    raise SlackNotSent(f"Slack's file server answers with status {response.status}")
                content = await read_at_most(response, max_bytes)
                if content is None:
                    raise SlackTooLarge(describe_size_limit(max_bytes))
                return content, response.content_type

    async def upload(self, url: str, content: bytes) -> None:
        """Upload content. Nobody sees it before another call completes the upload."""
        with network_errors("Slack", SlackNotSent, SlackMaybeSent):
            # As a stream: bytes would be written in one go and block the event loop.
            async with self._open_session.post(
                url,
                data=io.BytesIO(content),
                timeout=aiohttp.ClientTimeout(total=UPLOAD_SECONDS, connect=_CONNECT_SECONDS),
                allow_redirects=False,
            ) as response:
                if response.status != HTTPStatus.OK:
                    raise SlackNotSent(f"Slack's file server answers with status {response.status}")

    async def _call(
        self, client: AsyncWebClient, method: str, arguments: Mapping[str, object]
    ) -> tuple[Wire, Mapping[str, str]]:
        if self._session is None:
            raise SlackNotSent("the connections to Slack are closed")
        form = {name: _encode_field(value) for name, value in arguments.items() if value is not None}
        with network_errors("Slack", SlackNotSent, SlackMaybeSent):
            try:
                answer = await client.api_call(method, data=form)
                if isinstance(answer.data, dict):
                    return answer.data, answer.headers
            except SlackApiError as error:
                raise _translate_response(error.response) from None
            # The SDK trusts the server and fails in many ways on anything but a JSON object.
            except (SlackClientError, AttributeError, TypeError, ValueError) as error:
                raise SlackMaybeSent("the answer is not from Slack") from error
        raise SlackMaybeSent("the answer is not from Slack")

    @property
    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise SlackNotSent("the connections to Slack are closed")
        return self._session

    def _is_slack_url(self, url: str) -> bool:
        asked, ours = urlsplit(url), urlsplit(self._bot.base_url)
        if (asked.scheme, asked.netloc) == (ours.scheme, ours.netloc):
            return True
        host = asked.hostname or ""
        return asked.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))


def _build_client(token: str, api_url: str) -> AsyncWebClient:
    quiet = logging.getLogger(f"{__name__}.sdk")
    quiet.setLevel(logging.CRITICAL)  # the SDK's log quotes what people write
    client = AsyncWebClient(token, api_url, logger=quiet, retry_handlers=[])
    client.proxy = None  # it takes one from the environment
    return client


def _encode_field(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _translate_response(response: Any) -> SlackProblem:
    """`response` is the SDK's, or aiohttp's if the SDK could not parse it."""
    status = getattr(response, "status_code", 0) or getattr(response, "status", 0)
    data = getattr(response, "data", None)
    told: Wire = data if isinstance(data, dict) else {}
    error = told.get("error")
    if status == HTTPStatus.TOO_MANY_REQUESTS or error in ("ratelimited", "rate_limited"):
        try:
            return SlackTooFast(max(float(response.headers.get("Retry-After") or _PATIENCE_SECONDS), 1.0))
        except ValueError:
            return SlackTooFast(_PATIENCE_SECONDS)
    if isinstance(error, str) and error in _TROUBLE:
        return SlackMaybeSent(f"Slack has trouble of its own ({error})")
    if isinstance(error, str) and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        about = told.get("response_metadata")
        words = about.get("messages") if isinstance(about, dict) else None
        explained = str(words[0])[:200] if isinstance(words, list) and words else ""
        return SlackRefused(error, needed=str(told.get("needed") or ""), words=explained)
    # A proxy may have passed the call on before it gave up.
    return SlackMaybeSent(f"the answer is not from Slack (status {status})")
