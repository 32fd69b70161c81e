"""Addresses that we connect to for somebody, and those that we do not."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from tools.errors import ToolFailed
from tools.url_guard import AddressRefused, FetchLimits, UrlGuard, fetch

REFUSED = """
127.0.0.1 127.8.9.1 0.0.0.0 10.0.0.1 172.16.5.4 192.168.1.1 169.254.169.254 100.64.0.1 100.100.100.200 192.0.0.192
192.0.2.1 198.18.0.1 198.51.100.3 203.0.113.9 224.0.0.1 240.0.0.1 255.255.255.255 168.63.129.16 192.88.99.1
::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 2002:7f00:1:: 2002:a9fe:a9fe::1 2001:0:1::1 2001:db8::1 fec0::1
""".split()  # noqa: SIM905  # a table reads better
PUBLIC = "8.8.8.8 1.1.1.1 93.184.216.34 2606:4700:4700::1111 2a00:1450:4001:830::200e ::ffff:8.8.8.8".split()  # noqa: SIM905


@pytest.mark.parametrize("address", REFUSED)
def test_no_address_that_is_not_public_passes(address: str) -> None:
    with pytest.raises(AddressRefused):
        UrlGuard().check("some.example", address, 80)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    UrlGuard().check("some.example", address, 443)


@pytest.mark.parametrize(
    ("exception", "host", "address", "port", "passes"),
    [
        ("192.168.1.7", "x", "192.168.1.7", 80, True),
        ("192.168.1.7", "x", "192.168.1.8", 80, False),
        ("192.168.1.7:8123", "x", "192.168.1.7", 8123, True),
        ("192.168.1.7:8123", "x", "192.168.1.7", 22, False),
        ("10.0.0.0/8", "x", "10.9.9.9", 1, True),
        ("10.0.0.0/8", "x", "::ffff:10.9.9.9", 1, True),
        ("nas.local:5000", "NAS.local.", "192.168.1.9", 5000, True),
        ("nas.local", "evil.example", "192.168.1.9", 5000, False),
        ("[fd00::7]:80", "x", "fd00::7", 80, True),
        ("fd00::/8", "x", "fd12::1", 9, True),
    ],
)
def test_the_owner_may_make_exceptions(exception: str, host: str, address: str, port: int, passes: bool) -> None:
    guard = UrlGuard.of([exception])
    if passes:
        guard.check(host, address, port)
    else:
        with pytest.raises(AddressRefused):
            guard.check(host, address, port)


@pytest.mark.parametrize("wrong", ["", "10.0.0.0/99", "nas.local:http"])
def test_an_exception_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal|does not appear to be"):
        UrlGuard.of([wrong])


def leading_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
    """Have the next lookups of any name give these addresses, one list for each lookup."""
    waiting = list(answers)

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        found = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


async def test_a_name_that_leads_to_loopback_is_refused_at_every_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is public and nobody is there: the second, which rebinds the name, must be checked as well."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        leading_to(monkeypatch, ["127.0.0.1"])
        for host in ("rebound.example", "0x7f.1", "2130706433", "localhost"):
            with pytest.raises(AddressRefused, match="this machine itself"):
                await UrlGuard().connect(host, server.getsockname()[1])


async def test_an_exception_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (await UrlGuard.of([f"127.0.0.1:{port}"]).connect("127.0.0.1", port)).close()


async def test_nobody_there_is_an_error_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await UrlGuard.of([f"127.0.0.1:{port}"]).connect("127.0.0.1", port)


# Fetching.


@pytest.fixture
async def site() -> AsyncIterator[Callable[[str], str]]:
    async def page(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/away":
                raise web.HTTPFound("http://127.0.0.2:9/secret")
            case "/picture":
                return web.Response(body=b"x", content_type="image/png")
            case "/slow":
                await asyncio.sleep(60)
        return web.Response(text="hello " * 100)

    app = web.Application()
    app.router.add_get("/{any:.*}", page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield lambda path: f"http://127.0.0.1:{port}{path}"
    await runner.cleanup()


HERE = UrlGuard.of(["127.0.0.1"])


async def test_a_document_comes_with_its_type(site: Callable[[str], str]) -> None:
    found = await fetch(site("/page"), HERE, FetchLimits(types=("text/",)))
    assert (found.content_type, len(found.content)) == ("text/plain", 600)


@pytest.mark.parametrize(
    ("path", "limits", "told"),
    [
        ("/page", FetchLimits(max_bytes=599), "larger than 599 bytes"),
        ("/picture", FetchLimits(types=("text/",)), "of the type image/png"),
        ("/slow", FetchLimits(timeout_seconds=0.2), "could not be fetched"),
        ("/away", FetchLimits(), "this machine itself"),
    ],
)
async def test_beyond_a_limit_nothing_is_fetched(
    site: Callable[[str], str], path: str, limits: FetchLimits, told: str
) -> None:
    with pytest.raises(ToolFailed, match=told):
        await fetch(site(path), HERE, limits)


async def test_without_an_exception_this_machine_is_not_fetched_from(site: Callable[[str], str]) -> None:
    with pytest.raises(AddressRefused):
        await fetch(site("/page"), UrlGuard(), FetchLimits())
