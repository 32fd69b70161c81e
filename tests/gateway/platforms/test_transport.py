"""Connections: who gets one and when, how much of an answer is read, and which variable holds the token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from gateway.errors import MediaUnavailable, PlatformUnavailable
from gateway.platforms import transport
from gateway.platforms.transport import LiveConnection, read_at_most, token_variable
from hermes_config.secrets import SECRETS
from hermes_config.types import Secret
from tests.gateway.scene import soon


def test_whoever_wants_a_line_that_is_not_there_is_told_at_once() -> None:
    made = LiveConnection[str]("Discord")
    with pytest.raises(PlatformUnavailable, match="not connected to Discord"):
        _ = made.transport
    made.open("a line")
    assert made.transport == "a line"
    made.close()
    with pytest.raises(PlatformUnavailable, match="not connected to Discord"):
        _ = made.transport


async def test_whoever_can_wait_gets_the_line_when_it_is_there() -> None:
    made = LiveConnection[str]("Discord")
    waiting = asyncio.create_task(made.wait_for_transport())
    await asyncio.sleep(0)
    made.open("the first")
    made.close()  # before whoever waits had their turn: they are not given a line that is gone
    await asyncio.sleep(0)
    assert not waiting.done()
    made.open("the second")
    assert await soon(waiting) == "the second"


async def test_a_line_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_PATIENCE_SECONDS", 0.01)
    with pytest.raises(MediaUnavailable, match="Discord could not be reached"):
        await LiveConnection[str]("Discord").wait_for_transport()


ENDLESS = b""


@asynccontextmanager
async def answering(head: bytes, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
    """A server that writes what the test says, and an endless body where it says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        with suppress(ConnectionError):
            while body is ENDLESS:
                chunk = b"x" * 10_000
                writer.write(b"2710\r\n" + chunk + b"\r\n" if b"chunked" in head else chunk)
                await writer.drain()
            writer.write(body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = f"http://127.0.0.1:{port}/"
    async with server, aiohttp.ClientSession() as session, asyncio.timeout(20), session.get(address) as response:
        yield response


@pytest.mark.parametrize(
    ("head", "body", "got"),
    [
        (b"Content-Length: 5\r\n", b"hello", b"hello"),
        (b"Connection: close\r\n", b"hello", b"hello"),
        (b"Content-Length: 100000000000\r\n", b"hello", None),
        (b"Transfer-Encoding: chunked\r\n", ENDLESS, None),
        (b"Connection: close\r\n", ENDLESS, None),
        (b"Connection: close\r\n", b"x" * 1001, None),
        (b"Connection: close\r\n", b"x" * 1000, b"x" * 1000),
    ],
    ids=["right", "absent", "absurd", "endless chunks", "endless", "one too many", "just so many"],
)
async def test_what_is_read_is_bounded(head: bytes, body: bytes, got: bytes | None) -> None:
    async with answering(head, body) as response:
        assert await read_at_most(response, 1000) == got


async def test_a_body_longer_than_it_says_is_cut_or_refused() -> None:
    try:
        async with answering(b"Content-Length: 2\r\n", b"hello") as response:
            got = await read_at_most(response, 1000)
    except aiohttp.ClientError:
        got = b"he"  # as soon as the rest is seen to be no answer
    assert got == b"he"


async def test_a_body_shorter_than_it_says_is_no_answer() -> None:
    async with answering(b"Content-Length: 900\r\n", b"hello") as response:
        with pytest.raises(aiohttp.ClientError):
            await read_at_most(response, 1000)


@pytest.mark.parametrize("secret", [one for one in SECRETS if one.per_account], ids=lambda one: one.env)
def test_a_wrong_token_is_told_by_the_variable_that_settings_read(secret: Secret) -> None:
    (platform,) = secret.enables
    assert token_variable(platform, secret.env) == secret.env
    assert token_variable(f"{platform}@work", secret.env) == secret.env_of("work")
