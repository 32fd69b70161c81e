"""A model behind any OpenAI-compatible endpoint. The only file that uses the `openai` package.

Import it when a real model is asked for the first time: the package costs half a second and 20 MB.

The package builds the address, the headers and the connections. Requests and responses go through its transport, and
our own small parser reads the stream: the package's typed objects for requests and streamed pieces cost five times the
CPU of all the rest.
"""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import httpx2
import openai
import structlog
from aiohttp.http_exceptions import HttpProcessingError

from agent_core.conversation import Message
from agent_core.events import Emit, RestartableEmit
from agent_core.model import LoadMedia, OutOfRoom, ProviderError
from agent_core.models import openai_errors as words
from agent_core.models.openai_request import build_request, encode, provider_data, select_images
from agent_core.models.openai_stream import Assembly, ErrorInStream, EventReader, EventTooLarge
from agent_core.models.providers import Endpoint
from agent_core.models.retries import Retries, Timeouts
from tools.base import Tool

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_ANSWER_BYTES = 64_000_000
MAX_REFUSAL_BYTES = 1_000_000
TOO_LARGE = "sent an answer that is too large"
AFTER_DONE_SECONDS = 0.1  # for the end of the body, without which the connection cannot be used again
# Mostly the first; a response that is not HTTP raises an error of the package below.
_CONNECTION_ERRORS = (httpx2.HTTPError, aiohttp.ClientError, HttpProcessingError, OSError)
NO_KEY = "none"  # the package insists on one; local servers ignore it


@dataclass(slots=True, eq=False)
class OpenAIModel:
    """A model at an endpoint. Safe for many replies at once; `aclose` closes its connections."""

    endpoint: Endpoint
    _: KW_ONLY
    stream: bool = True
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    load_media: LoadMedia | None = None
    effort: str = ""
    max_images: int = 8
    max_image_bytes: int = 5_000_000
    sleep: Callable[[float], Any] = asyncio.sleep
    _refused: set[str] = field(default_factory=set)  # fields that the server does not know
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _connection: "_Connection | None" = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.endpoint.model

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        body = build_request(
            self.endpoint,
            messages,
            tools,
            images=await self._load_images(messages),
            stream=self.stream,
            may_call=may_call,
        )
        if self.effort:
            body["reasoning_effort"] = self.effort
        for name in self._refused:
            body.pop(name, None)
        await self._connect()  # before any timeout runs
        restartable = RestartableEmit(emit)
        began = time.monotonic()
        failures = 0
        while True:
            try:
                message = await self._attempt(body, restartable)
                restartable.settle()
                return message
            except ProviderError as error:
                failures += 1
                wait = self.retries.wait_seconds(error, failures=failures, elapsed_seconds=time.monotonic() - began)
                failure = type(error).__name__
                if wait is None:
                    log.warning("model_failed", model=self.name, error=failure, attempts=failures)
                    raise
                log.info("model_asked_again", model=self.name, error=failure, attempts=failures, wait=round(wait, 1))
            restartable.restart()
            await self.sleep(wait)

    async def aclose(self) -> None:
        if self._connection:
            await self._connection.http.aclose()
            self._connection = None

    async def _attempt(self, body: dict[str, Any], emit: Emit) -> Message:
        assembly = Assembly(emit)
        try:
            async with asyncio.timeout(self.timeouts.whole_seconds):
                await self._ask(body, assembly)
        except TimeoutError as error:
            raise words.too_slow(self.endpoint) from error
        finally:
            if assembly.usage:  # also of a failed attempt: it is paid for
                emit(replace(assembly.usage, model=self.name))
        return self._check(assembly)

    async def _ask(self, body: dict[str, Any], assembly: Assembly) -> None:
        try:
            async with self._response(body) as response:
                if "text/event-stream" in response.headers.get("content-type", ""):
                    await self._read_stream(response, assembly)
                else:  # also the answer of a server without streaming to a request for a stream
                    await self._read_whole(response, assembly)
        except _Refused as error:
            if self._drop_refused(body, error):
                return await self._ask(body, assembly)
            raise words.refusal(
                self.endpoint, status=error.status, body=error.body, retry_after_seconds=error.retry_after_seconds
            ) from error
        except ErrorInStream as error:
            raise words.refusal(self.endpoint, status=error.status, body=error.body) from error
        except EventTooLarge as error:
            raise words.broken(self.endpoint, TOO_LARGE) from error
        except TimeoutError:
            raise  # one of our timeouts, which is an OSError as well
        except _CONNECTION_ERRORS as error:
            if not assembly.finish_reason:  # else the answer was complete
                raise words.cut_off(self.endpoint) from error

    @asynccontextmanager
    async def _response(self, body: dict[str, Any]) -> AsyncGenerator[httpx2.Response]:
        """Yield the response once its headers are there; close it with the block."""
        first_byte = self.timeouts.first_byte_seconds if self.stream else self.timeouts.whole_seconds
        connection = await self._connect()
        request = connection.http.build_request(
            "POST", connection.address, content=encode(body), headers=connection.headers
        )
        async with asyncio.timeout(first_byte):
            try:
                response = await connection.http.send(request, stream=True)
            except _CONNECTION_ERRORS as error:
                raise words.unreachable(self.endpoint) from error
            if response.is_error:  # reading its body is part of the wait for an answer
                try:
                    raise await _read_refusal(response)
                finally:
                    await response.aclose()
        try:
            yield response
        finally:
            await response.aclose()

    async def _read_stream(self, response: httpx2.Response, assembly: Assembly) -> None:
        reader = EventReader()
        clock = asyncio.get_running_loop().time
        first_byte = self.timeouts.first_byte_seconds
        done = False
        left = MAX_ANSWER_BYTES
        try:
            async with asyncio.timeout(first_byte) as limit:
                async for received in response.aiter_bytes():
                    left -= len(received)
                    if left < 0:
                        raise words.broken(self.endpoint, TOO_LARGE)
                    if not done:
                        done = self._take(reader.feed(received), assembly)
                        limit.reschedule(clock() + (AFTER_DONE_SECONDS if done else self.timeouts.idle_seconds))
        except TimeoutError:
            if not done and not assembly.finish_reason:
                raise
        if not (done or self._take(reader.end(), assembly) or assembly.finish_reason):
            raise words.cut_off(self.endpoint)

    def _take(self, events: Sequence[bytes], assembly: Assembly) -> bool:
        """Add the events to the reply; return True once the server says that it is complete."""
        for event in events:
            if event.startswith(b"[DONE]"):
                return True
            assembly.add(self._parse(event))
        return False

    async def _read_whole(self, response: httpx2.Response, assembly: Assembly) -> None:
        received = bytearray()
        async for piece in response.aiter_bytes():
            received += piece
            if len(received) > MAX_ANSWER_BYTES:
                raise words.broken(self.endpoint, TOO_LARGE)
        if received.lstrip()[:1] == b"<" or "html" in response.headers.get("content-type", ""):
            raise words.not_a_model_server(self.endpoint)
        assembly.add(self._parse(bytes(received)))

    def _parse(self, text: bytes) -> Mapping[str, Any]:
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise words.broken(self.endpoint, "sent an answer that cannot be parsed")
        return parsed

    def _check(self, assembly: Assembly) -> Message:
        """Return the reply; raises ProviderError for an answer that is none."""
        if assembly.finish_reason == "content_filter":
            raise words.filtered(self.endpoint)
        if assembly.finish_reason in ("error", "malformed_function_call"):
            raise words.broken(self.endpoint, "stopped in the middle of its answer")
        if assembly.is_empty and assembly.finish_reason == "length":
            raise OutOfRoom(
                f"{self.name} reached its output limit before it wrote anything. "
                "Ask for less at once, or raise the model's output limit."
            )
        if assembly.is_empty:
            raise words.broken(self.endpoint, "sent an empty answer")
        kept = provider_data(self.endpoint, assembly.reasoning_details, assembly.call_extras)
        return replace(assembly.message(), provider_data=kept)

    def _drop_refused(self, body: dict[str, Any], error: "_Refused") -> bool:
        """Leave out from now on what not every server knows and this one refuses; return whether to ask again."""
        if error.status not in (400, 422):
            return False
        named = {name for name in ("stream_options", "reasoning_effort") if name in body and name in str(error.body)}
        for name in named:
            del body[name]
        self._refused |= named
        return bool(named)

    async def _load_images(self, messages: Sequence[Message]) -> dict[str, str]:
        if not self.load_media or not self.endpoint.sees_images:
            return {}
        images: dict[str, str] = {}
        for part in select_images(messages, self.max_images):
            if part.size_bytes <= self.max_image_bytes:
                content = await asyncio.to_thread(self.load_media, part)
                if content and len(content) <= self.max_image_bytes:
                    images[part.sha256] = f"data:{part.mime};base64,{b64encode(content).decode()}"
        return images

    async def _connect(self) -> "_Connection":
        async with self._connecting:
            if self._connection is None:
                # In a thread: reading the certificates takes a tenth of a second, which would block all chats.
                self._connection = await asyncio.to_thread(self._open_connection)
            return self._connection

    def _open_connection(self) -> "_Connection":
        connect = self.timeouts.connect_seconds
        http = openai.DefaultAioHttpClient(
            # Our own timeouts bound reading; they differ from stage to stage.
            timeout=httpx2.Timeout(connect=connect, read=None, write=None, pool=None),
        )
        client = openai.AsyncOpenAI(
            api_key=self.endpoint.key or NO_KEY, base_url=self.endpoint.base_url, http_client=http
        )
        # The package takes these from the environment; only OpenAI may see them.
        client.organization = client.project = None
        given = {**client.default_headers, **client.auth_headers}
        headers = {name: value for name, value in given.items() if isinstance(value, str)}
        return _Connection(http=http, address=str(client.base_url.join("chat/completions")), headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Connection:
    """The HTTP client, and how it asks the endpoint."""

    http: httpx2.AsyncClient
    address: str
    headers: Mapping[str, str]


class _Refused(Exception):
    def __init__(self, status: int, body: object, retry_after_seconds: float | None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.retry_after_seconds = retry_after_seconds


async def _read_refusal(response: httpx2.Response) -> _Refused:
    received = bytearray()
    async for piece in response.aiter_bytes():
        received += piece
        if len(received) > MAX_REFUSAL_BYTES:
            break
    text = received.decode(errors="replace")
    try:
        body: object = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    if isinstance(body, dict):
        body = body.get("error", body)
    return _Refused(response.status_code, body, _read_retry_after(response.headers))


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds from now, from the header in any of its three forms."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(milliseconds) / 1000)
        if (stated := headers.get("retry-after")) is None:
            return None
        if stated.strip().replace(".", "", 1).isdigit():
            return float(stated)
        return max(0.0, parsedate_to_datetime(stated).timestamp() - time.time())
    except ValueError:
        return None
