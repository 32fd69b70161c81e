"""Read the body of a request, no more than allowed and not for ever."""

import asyncio

from aiohttp import web
from aiohttp.client_exceptions import ClientPayloadError

_SECONDS = 30.0
_CHUNK_BYTES = 65_536


class BodyProblem(Exception):
    """A body that was not read; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def read_body(request: web.Request, max_bytes: int) -> bytes:
    """Return the raw body. Raises BodyProblem when it is too large, too slow or damaged."""
    if (request.content_length or 0) > max_bytes:
        raise BodyProblem(413, f"The request is larger than {max_bytes:,} bytes.")
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for chunk in request.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                if len(body) > max_bytes:
                    raise BodyProblem(413, f"The request is larger than {max_bytes:,} bytes.")
    except TimeoutError:
        raise BodyProblem(408, "The request took too long to arrive.") from None
    except (ClientPayloadError, web.RequestPayloadError, ValueError):
        raise BodyProblem(400, "The body of the request is damaged.") from None
    return bytes(body)
