"""Forms, however their bytes arrive."""

import asyncio
from collections.abc import AsyncIterator
from itertools import cycle

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from playground.params import Upload, read_form

CONTENT = bytes(range(256)) * 200 + b"\r\n--no boundary\r\n"


@pytest.mark.parametrize("sizes", [(1_000_000,), (7_000, 30), (10, 9_000), (400, 10, 9_000), (450, 20_000)])
async def test_a_form_is_read_whole_in_whatever_pieces_it_comes(sizes: tuple[int, ...]) -> None:
    read: list[tuple[dict[str, str], dict[str, Upload]]] = []

    async def take(request: web.BaseRequest) -> web.Response:
        read.append(await read_form(request))
        return web.Response()

    form = aiohttp.FormData({"payload": '{"größe": 1}', "empty": ""}, quote_fields=False)
    form.add_field("files[0]", CONTENT, filename="größe 1.md", content_type="text/markdown")
    writer = form()
    body = await writer.as_bytes()

    async def trickle() -> AsyncIterator[bytes]:
        rest = body
        for size in cycle(sizes):
            yield rest[:size]
            await asyncio.sleep(0.002)  # so that each piece comes by itself
            if not (rest := rest[size:]):
                return

    headers = {"Content-Type": writer.headers["Content-Type"], "Content-Length": str(len(body))}
    async with RawTestServer(take, host="127.0.0.1") as server, aiohttp.ClientSession() as client:
        answer = await client.post(server.make_url("/"), data=trickle(), headers=headers)
        assert answer.status == 200
    upload = Upload(name="größe 1.md", mime_type="text/markdown", content=CONTENT)
    assert read == [({"payload": '{"größe": 1}', "empty": ""}, {"files[0]": upload})]
