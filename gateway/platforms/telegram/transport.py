"""The network layer of python-telegram-bot, on aiohttp: each error tells whether Telegram may have acted.

TelegramError
├── TelegramTooFast         Telegram asks us to wait
├── TelegramTooLarge        a file is larger than we accept
├── InvalidToken
│   └── TelegramNotFound    404: an invalid token, or a server that is still starting
└── NetworkError
    ├── TelegramNotSent     nothing was done: it never left this machine, or Telegram says so
    └── TelegramMaybeSent   it was sent, and no answer came back

No error names the address of a request, which holds the token; so none has aiohttp's error as its cause.
"""

import io
import json
import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import aiohttp
from telegram import Bot
from telegram.error import BadRequest, InvalidToken, NetworkError, TelegramError, TimedOut
from telegram.request import BaseRequest, RequestData

from gateway.platforms.transport import SharedTransport, network_errors, read_at_most

_JSON = {"Content-Type": "application/json"}
_MAX_ANSWER_BYTES = 16_000_000  # a hundred updates are far smaller
_DOWNLOAD_SECONDS = 60.0
_PATIENCE_SECONDS = 5.0  # if Telegram does not say how long to wait
_LONGEST_SECONDS = 3600.0
# Shorter than any server's: a request on a connection that the server just closed would be in doubt.
_IDLE_SECONDS = 15.0
_KNOWN_REFUSALS = (400, 401, 403, 409)
_NOT_TELEGRAMS = "the answer is not from Telegram"
_MOST_AT_ONCE = 100  # sends, typing and downloads together; more wait
_TRANSPORT_GRACE_SECONDS = 20.0  # the listener's own timeout is shorter and comes first


class TelegramTooFast(TelegramError):
    """Replaces RetryAfter, which cannot be created without a deprecation warning."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Telegram asks us to wait for {seconds:.0f} seconds")
        self.seconds = seconds


class TelegramTooLarge(TelegramError):
    pass


class TelegramNotFound(InvalidToken):
    pass


class TelegramNotSent(NetworkError):
    pass


class TelegramMaybeSent(TimedOut):
    pass


class AiohttpRequest(BaseRequest):
    """A pool of connections, from `initialize` to `shutdown`. Ignores the environment, proxies and cookies."""

    def __init__(self, *, connections: int, connect_seconds: float = 10.0, read_seconds: float = 30.0) -> None:
        self._connections = connections
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._session: aiohttp.ClientSession | None = None

    @property
    def read_timeout(self) -> float:
        return self._read_seconds

    async def initialize(self) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=_IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": self.USER_AGENT},
            )

    async def shutdown(self) -> None:
        """Running requests fail with TelegramMaybeSent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: object = None,
        write_timeout: object = None,
        connect_timeout: object = None,
        pool_timeout: object = None,
    ) -> tuple[int, bytes]:
        """Return answers that python-telegram-bot can translate itself; raise the other errors here."""
        read_seconds = _clamp_seconds(read_timeout, self._read_seconds)
        connect_seconds = _clamp_seconds(connect_timeout, self._connect_seconds)
        status, payload = await self._exchange(
            method,
            url,
            _MAX_ANSWER_BYTES,
            aiohttp.ClientTimeout(
                # An answer that comes byte by byte must end as well.
                total=connect_seconds + read_seconds,
                connect=connect_seconds,
                sock_read=read_seconds,
            ),
            _build_body(request_data),
        )
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            _raise_unless_plain_refusal(status, self.parse_json_payload(payload))
        elif method == "POST" and "result" not in self.parse_json_payload(payload):
            raise TelegramMaybeSent(_NOT_TELEGRAMS)
        return status, payload

    async def download(self, url: str, max_bytes: int) -> bytes:
        """Return a file's content. Raises TelegramTooLarge as soon as it exceeds `max_bytes`."""
        timeout = aiohttp.ClientTimeout(
            total=_DOWNLOAD_SECONDS, connect=self._connect_seconds, sock_read=self._read_seconds
        )
        status, content = await self._exchange("GET", url, max_bytes, timeout, None)
        if status != HTTPStatus.OK:
            raise TelegramNotSent(f"the file server answers with status {status}")
        return content

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        # Replaces the inherited one, which logs what it cannot parse.
        try:
            answer = json.loads(payload)
        except (ValueError, RecursionError):
            raise TelegramMaybeSent("Telegram's server sent an answer that is not JSON") from None
        if not isinstance(answer, dict):
            raise TelegramMaybeSent(_NOT_TELEGRAMS)
        return answer

    async def _exchange(
        self,
        method: str,
        url: str,
        max_bytes: int,
        timeout: aiohttp.ClientTimeout,
        body: aiohttp.FormData | bytes | None,
    ) -> tuple[int, bytes]:
        if self._session is None:
            raise TelegramNotSent("the connections to Telegram are closed")
        headers = _JSON if isinstance(body, bytes) else None
        with network_errors("Telegram", TelegramNotSent, TelegramMaybeSent):
            async with self._session.request(
                method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                content = await read_at_most(response, max_bytes)
                if content is None:
                    raise TelegramTooLarge(f"the answer has more than {max_bytes} bytes")
                return response.status, content


def _raise_unless_plain_refusal(status: int, answer: dict[str, Any]) -> None:
    # Checked here: python-telegram-bot trusts the shape, and would fail in ways that look like our bugs.
    parameters, words = answer.get("parameters") or {}, answer.get("description") or ""
    if not isinstance(parameters, dict) or not isinstance(words, str):
        raise TelegramMaybeSent(_NOT_TELEGRAMS)
    if status == HTTPStatus.TOO_MANY_REQUESTS or "retry_after" in parameters:
        raise TelegramTooFast(_clamp_seconds(parameters.get("retry_after"), _PATIENCE_SECONDS))
    if not isinstance(parameters.get("migrate_to_chat_id", 0), int):
        raise TelegramMaybeSent(_NOT_TELEGRAMS)
    if status == HTTPStatus.SERVICE_UNAVAILABLE and answer.get("ok") is False:
        raise TelegramNotSent(f"Telegram has trouble of its own (status {status})")
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        # A restarting server says this too, about requests that it has already handed on.
        raise TelegramMaybeSent(f"Telegram has trouble of its own (status {status})")
    if not HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        # A proxy may have passed the request on before it gave up.
        raise TelegramMaybeSent(f"a server between us and Telegram answered with status {status}")
    if status == HTTPStatus.NOT_FOUND:
        raise TelegramNotFound(words or "Not Found")
    if status not in _KNOWN_REFUSALS:
        raise BadRequest(f"status {status}")


def _build_body(request_data: RequestData | None) -> aiohttp.FormData | bytes | None:
    if request_data is None:
        return None
    if not request_data.contains_files:
        return request_data.json_payload  # cheaper to write than a form
    form = aiohttp.FormData()
    for name, value in request_data.json_parameters.items():
        form.add_field(name, value)
    for name, (file_name, content, mime) in request_data.multipart_data.items():
        # As a stream: bytes would be written in one go and block the event loop.
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        form.add_field(name, stream, filename=file_name, content_type=mime)
    return form


def _clamp_seconds(value: object, otherwise: float) -> float:
    """Return `otherwise` for python-telegram-bot's "not given" and for no limit: no request may wait for ever."""
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        return otherwise
    return float(min(value, _LONGEST_SECONDS))


class ListeningBot(Bot):
    """A bot that returns raw updates: with `get_updates`, one that cannot be parsed loses the whole page, and its
    text is logged."""

    async def fetch_updates(self, offset: int | None, kinds: Sequence[str], *, wait_seconds: int) -> object:
        asked = {"offset": offset, "timeout": wait_seconds, "allowed_updates": kinds}
        page: object = await self._post("getUpdates", asked, read_timeout=wait_seconds + _TRANSPORT_GRACE_SECONDS)
        return page

    async def download(self, address: str, max_bytes: int) -> bytes:
        assert isinstance(self.request, AiohttpRequest)
        return await self.request.download(address, max_bytes)


class TelegramTransport(SharedTransport[ListeningBot]):
    """A bot and its connections: one for polls, the others for everything else."""

    def __init__(self, token: str, api_url: str) -> None:
        root = api_url.rstrip("/")
        self._requests = (AiohttpRequest(connections=1), AiohttpRequest(connections=_MOST_AT_ONCE))
        self.bot = ListeningBot(
            token,
            base_url=f"{root}/bot",
            base_file_url=f"{root}/file/bot",
            get_updates_request=self._requests[0],
            request=self._requests[1],
        )

    async def open_client(self) -> ListeningBot:
        for request in self._requests:
            await request.initialize()
        return self.bot

    async def close_client(self) -> None:
        for request in self._requests:
            await request.shutdown()
