"""python-telegram-bot's way to the network, on aiohttp: each failure says whether Telegram may have acted on it.

TelegramError
├── TooFast          Telegram asks us to wait
├── TooLarge         a file has more bytes than we would take
├── InvalidToken
│   └── NothingThere the same, or a server that is not itself yet: 404
└── NetworkError
    ├── NotSent      nothing was done: it never left this machine, or Telegram says so itself
    └── MaybeSent    it went out, and no answer of Telegram's came back

No error names the address of a request: it holds the token. For the same reason none carries aiohttp's as its cause.
"""

import io
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
from telegram import Bot
from telegram.error import BadRequest, InvalidToken, NetworkError, TelegramError, TimedOut
from telegram.request import BaseRequest, RequestData

from gateway.platforms.transport import describe_network_error, read_at_most

_JSON = {"Content-Type": "application/json"}
_MAX_ANSWER_BYTES = 16_000_000  # a hundred updates are far smaller
_DOWNLOAD_SECONDS = 60.0
_PATIENCE_SECONDS = 5.0  # when we are told to wait, and not how long
_LONGEST_SECONDS = 3600.0
# Shorter than any server's: a request on a line that the server has just closed would be in doubt.
_IDLE_SECONDS = 15.0
_KNOWN_REFUSALS = (400, 401, 403, 409)
_NOT_TELEGRAMS = "the answer is not one that Telegram gives"
_MOST_AT_ONCE = 100  # sends, signs of typing and downloads together; more of them wait
_TRANSPORT_GRACE_SECONDS = 20.0  # our own clock, set to less, is the one that counts


class TelegramTooFast(TelegramError):
    """In place of RetryAfter, which cannot be made without a deprecation warning."""

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
    """One pool of connections, from `initialize` to `shutdown`; environment, proxies and cookies play no part."""

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
        """Requests under way end with MaybeSent."""
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
        """Lets through what python-telegram-bot can name itself; the rest is raised from here."""
        read_seconds = _clamp_seconds(read_timeout, self._read_seconds)
        connect_seconds = _clamp_seconds(connect_timeout, self._connect_seconds)
        status, payload = await self._exchange(
            method,
            url,
            _MAX_ANSWER_BYTES,
            aiohttp.ClientTimeout(
                # So that an answer which comes byte by byte has an end as well.
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
        """A file's content; TooLarge once it is clear that there is more than `max_bytes` of it."""
        timeout = aiohttp.ClientTimeout(
            total=_DOWNLOAD_SECONDS, connect=self._connect_seconds, sock_read=self._read_seconds
        )
        status, content = await self._exchange("GET", url, max_bytes, timeout, None)
        if status != HTTPStatus.OK:
            raise TelegramNotSent(f"the file server answers with status {status}")
        return content

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        # In place of the inherited one, which writes what it cannot read into the log.
        try:
            answer = json.loads(payload)
        except (ValueError, RecursionError):
            raise TelegramMaybeSent("Telegram's server gave an answer that is not JSON") from None
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
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers=_JSON if isinstance(body, bytes) else None,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                return response.status, await _read_response(response, max_bytes)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise TelegramNotSent(
                f"no connection to Telegram could be made ({describe_network_error(error)})"
            ) from None
        except TimeoutError:
            raise TelegramMaybeSent("Telegram did not answer in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TelegramMaybeSent(
                f"the connection broke before Telegram had answered ({describe_network_error(error)})"
            ) from None


def _raise_unless_plain_refusal(status: int, answer: dict[str, Any]) -> None:
    # Its shape is looked at here: python-telegram-bot trusts it, and would fail in ways that look like bugs of ours.
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
        # Also said by a server that restarts, of what it has handed on already.
        raise TelegramMaybeSent(f"Telegram has trouble of its own (status {status})")
    if not HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        # A gateway in between may have passed the request on before it gave up.
        raise TelegramMaybeSent(f"something between us and Telegram answered with status {status}")
    if status == HTTPStatus.NOT_FOUND:
        raise TelegramNotFound(words or "Not Found")
    if status not in _KNOWN_REFUSALS:
        raise BadRequest(f"status {status}")


def _build_body(request_data: RequestData | None) -> aiohttp.FormData | bytes | None:
    if request_data is None:
        return None
    if not request_data.contains_files:
        return request_data.json_payload  # cheaper to write than a form
    fields = request_data.json_parameters
    form = aiohttp.FormData()
    for name, value in fields.items():
        form.add_field(name, value)
    for name, (file_name, content, mime) in request_data.multipart_data.items():
        # As a stream: bytes would be written in one go, and hold up everybody else meanwhile.
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        form.add_field(name, stream, filename=file_name, content_type=mime)
    return form


async def _read_response(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    content = await read_at_most(response, max_bytes)
    if content is None:
        raise TelegramTooLarge(f"the answer has more than {max_bytes} bytes")
    return content


def _clamp_seconds(value: object, otherwise: float) -> float:
    """python-telegram-bot hands on marks for "not given" as well; and no request of ours may wait for ever."""
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        return otherwise
    return float(min(value, _LONGEST_SECONDS))


class ListeningBot(Bot):
    """python-telegram-bot's, with updates as they came.

    Its own `get_updates` takes a page apart as a whole: one update that it cannot read costs all the others, and
    goes into the log with every text in it.
    """

    async def fetch_updates(self, offset: int | None, kinds: Sequence[str], *, wait_seconds: int) -> object:
        asked = {"offset": offset, "timeout": wait_seconds, "allowed_updates": kinds}
        page: object = await self._post("getUpdates", asked, read_timeout=wait_seconds + _TRANSPORT_GRACE_SECONDS)
        return page


class TelegramTransport:
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
        self._holders = 0

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[ListeningBot]:
        """Whoever leaves last closes it: a send that is under way when listening fails may still get its answer."""
        if not self._holders:
            for request in self._requests:
                await request.initialize()
        self._holders += 1
        try:
            yield self.bot
        finally:
            self._holders -= 1
            if not self._holders:
                for request in self._requests:
                    await request.shutdown()

    async def download(self, address: str, max_bytes: int) -> bytes:
        return await self._requests[1].download(address, max_bytes)
