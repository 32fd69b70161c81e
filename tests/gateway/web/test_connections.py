"""Connections that send half a request, or nothing, can neither use up the descriptors nor stay for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from gateway.web import server
from tests.gateway.web.conftest import Site


class _HalfRequest:
    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._site, self.reader, self.writer = site, reader, writer
        writer.write(b"GET /health HTTP/1.1\r\nConnection: close\r\nHost: ")

    async def is_answered(self) -> bool:
        """Send the other half; return whether there is an answer."""
        try:
            self.writer.write(f"127.0.0.1:{self._site.server.access.port}\r\n\r\n".encode())
            return b"200 OK" in await self.reader.read()
        except ConnectionError:
            return False


@asynccontextmanager
async def _open(site: Site) -> AsyncIterator[_HalfRequest]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.access.port)
    try:
        yield _HalfRequest(site, reader, writer)
    finally:
        writer.transport.abort()


@pytest.fixture
def _few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 5)


@pytest.fixture
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_IDLE_SECONDS", 0.1)


@pytest.mark.usefixtures("_few_connections")
async def test_no_more_connections_are_open_than_the_limit_and_one_that_ends_makes_room(site: Site) -> None:
    async with asyncio.timeout(20), AsyncExitStack() as stack:
        held = [await stack.enter_async_context(_open(site)) for _ in range(5)]
        for _ in range(20):
            async with _open(site) as one_more:
                assert not await one_more.is_answered()
        assert all([await request.is_answered() for request in held]), "those within the limit are served"
        is_answered = False
        while not is_answered:  # the server may not have seen the end of the old ones yet
            async with _open(site) as one_more:
                is_answered = await one_more.is_answered()


@pytest.mark.usefixtures("_little_patience")
async def test_a_request_that_is_never_finished_is_closed(site: Site) -> None:
    async with asyncio.timeout(20), _open(site) as request:
        assert await request.reader.read() == b""
