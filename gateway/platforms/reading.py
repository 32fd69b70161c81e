"""Answers over HTTP: the body, as far as it is wanted, and why there is none, in words that name no address."""

import os
import socket

import aiohttp


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


def too_large(max_bytes: int) -> str:
    return f"it is larger than {max_bytes // 1_000_000} MB"


def why_broken(error: Exception) -> str:
    """What can be told of it without its own words, which name the address of the request."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return cause.strerror or "its name is not known"
    errno = getattr(cause, "errno", None)
    return os.strerror(errno) if errno else type(error).__name__
