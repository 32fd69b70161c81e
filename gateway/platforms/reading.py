"""The body of an answer, as far as it is wanted."""

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
