"""Connections: the transport of a platform while it is connected, bounded reads, and errors without addresses."""

import asyncio
import os
import socket
from typing import Generic, TypeVar

import aiohttp

from gateway.errors import MediaUnavailable, PlatformUnavailable

TransportT = TypeVar("TransportT")
_PATIENCE_SECONDS = 30.0  # for a file that is wanted while we are still connecting


def token_variable(account: str, stem: str) -> str:
    """The variable to name when a token is wrong: TELEGRAM_BOT_TOKEN_WORK for `telegram@work`."""
    name = account.partition("@")[2]
    return f"{stem}_{name.upper()}" if name else stem


async def read_at_most(response: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    """None when there is more than that, whatever the other side said of its size."""
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


def describe_size_limit(max_bytes: int) -> str:
    return f"it is larger than {max_bytes // 1_000_000} MB"


def describe_network_error(error: Exception) -> str:
    """What can be told of it without its own words, which name the address of the request."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "its name is not known"
    errno = getattr(cause, "errno", None)
    return os.strerror(errno) if errno else type(error).__name__


class LiveConnection(Generic[TransportT]):
    def __init__(self, platform: str) -> None:
        """`platform` is its name as people write it."""
        self._platform = platform
        self._transport: TransportT | None = None
        self._is_open = asyncio.Event()

    def open(self, transport: TransportT) -> None:
        self._transport = transport
        self._is_open.set()

    def close(self) -> None:
        """Whoever holds the line keeps it; nobody else is given it."""
        self._transport = None
        self._is_open.clear()

    @property
    def transport(self) -> TransportT:
        """Raises PlatformUnavailable while there is none."""
        if self._transport is None:
            raise PlatformUnavailable(f"not connected to {self._platform}")
        return self._transport

    async def wait_for_transport(self) -> TransportT:
        """Waits for one; raises MediaUnavailable when none comes."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._transport is None:  # it may be gone again by the time we are told
                    await self._is_open.wait()
        except TimeoutError:
            raise MediaUnavailable(f"{self._platform} could not be reached") from None
        return self._transport
