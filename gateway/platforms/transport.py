"""Connections: the transport of a platform while it is connected, bounded reads, and errors without addresses."""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

import aiohttp

from gateway.errors import MediaUnavailable, PlatformUnavailable

TransportT = TypeVar("TransportT")
_MAX_BACKGROUND_CALLS = 100
_PATIENCE_SECONDS = 30.0  # for a file that is requested while we are still connecting


def token_variable(account: str, stem: str) -> str:
    """Return the variable to name when a token is wrong: TELEGRAM_BOT_TOKEN_WORK for `telegram@work`."""
    name = account.partition("@")[2]
    return f"{stem}_{name.upper()}" if name else stem


async def read_at_most(response: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    """Return the body, or None if it is longer than that, whatever size the server announced."""
    content = bytearray()
    if (response.content_length or 0) <= max_bytes:
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > max_bytes:
                break
        else:
            return bytes(content)
    response.close()  # else the rest would be read to keep the connection
    return None


def describe_network_error(error: Exception) -> str:
    """Describe an error without its own text, which names the address of the request."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "unknown host"
    errno = getattr(cause, "errno", None)
    return os.strerror(errno) if errno else type(error).__name__


@contextmanager
def network_errors(service: str, not_sent: type[Exception], maybe_sent: type[Exception]) -> Iterator[None]:
    """Raise `not_sent` where nothing left this machine, else `maybe_sent`; without the cause, which names addresses."""
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
        raise not_sent(f"cannot connect to {service} ({describe_network_error(error)})") from None
    except TimeoutError:
        raise maybe_sent(f"{service} did not answer in time") from None
    except (aiohttp.ClientError, OSError) as error:
        broke = f"the connection broke before {service} answered ({describe_network_error(error)})"
        raise maybe_sent(broke) from None


@contextmanager
def first_error() -> Iterator[None]:
    """Raise the error that ended a task group as itself."""
    try:
        yield
    except ExceptionGroup as problems:
        error: Exception = problems
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None


class SharedTransport(ABC, Generic[TransportT]):
    """Connections that the last user closes, so that a running send may outlive the listener."""

    _holders = 0

    @abstractmethod
    async def open_client(self) -> TransportT:
        """Open the connections unless they are open, and return the client that uses them."""

    @abstractmethod
    async def close_client(self) -> None: ...

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[TransportT]:
        self._holders += 1
        try:
            yield await self.open_client()
        finally:
            self._holders -= 1
            if not self._holders:
                await self.close_client()


class BackgroundCalls:
    """Calls that nobody waits for, such as the acknowledgement of a button; beyond a limit they are dropped."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, call: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= _MAX_BACKGROUND_CALLS:
            call.close()
            return
        task = self._group.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class LiveConnection(Generic[TransportT]):
    """The transport of a platform, while there is one."""

    def __init__(self, platform: str) -> None:
        """`platform` is its name as people write it."""
        self._platform = platform
        self._transport: TransportT | None = None
        self._is_open = asyncio.Event()

    def open(self, transport: TransportT) -> None:
        self._transport = transport
        self._is_open.set()

    def close(self) -> None:
        """Give the transport to nobody else; whoever has it keeps it."""
        self._transport = None
        self._is_open.clear()

    @property
    def transport(self) -> TransportT:
        """Raises PlatformUnavailable while there is none."""
        if self._transport is None:
            raise PlatformUnavailable(f"not connected to {self._platform}")
        return self._transport

    async def wait_for_transport(self) -> TransportT:
        """Raises MediaUnavailable if there is none in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._transport is None:  # it may be gone again by the time we wake up
                    await self._is_open.wait()
        except TimeoutError:
            raise MediaUnavailable(f"{self._platform} could not be reached") from None
        return self._transport
