"""Connections: the transport of a platform while it is connected, bounded reads, and errors without addresses."""

import asyncio
import os
import socket
from typing import Generic, TypeVar

import aiohttp

from gateway.errors import MediaUnavailable, PlatformUnavailable

TransportT = TypeVar("TransportT")
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


def describe_size_limit(max_bytes: int) -> str:
    return f"it is larger than {max_bytes // 1_000_000} MB"


def describe_network_error(error: Exception) -> str:
    """Describe an error without its own text, which names the address of the request."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "unknown host"
    errno = getattr(cause, "errno", None)
    return os.strerror(errno) if errno else type(error).__name__


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
