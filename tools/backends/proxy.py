"""The only way from a sandbox to the network: an HTTP and SOCKS5 proxy on a Unix socket, under the URL guard.

It reads no more than where a connection should lead. What goes through stays encrypted and unseen.
"""

import asyncio
import contextlib
import ipaddress
import struct
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import structlog

from tools.backends.base import BackendFailed
from tools.backends.box import bind
from tools.backends.hints import REFUSED_BY_PROXY
from tools.backends.supervisor_child import connect
from tools.url_guard import AddressRefused, UrlGuard

log = structlog.get_logger()

MayConnect = Callable[[str], Awaitable[bool]]
"""Returns whether a sandbox may reach a host, perhaps after asking somebody."""

PROXY_NAME = "proxy"
_MAX_HEAD_BYTES = 65_536
_HEAD_SECONDS = 30.0
MAX_CONNECTIONS = 128  # of one sandbox: each takes two descriptors of ours
_MAX_LOGGED = 100
_LOOKUPS = ThreadPoolExecutor(8, thread_name_prefix="lookup")  # a sandbox may ask for names that nobody answers
_CHUNK_BYTES = 65_536
_NOT_PASSED_ON = (b"connection:", b"keep-alive:", b"proxy-")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class BadRequest(Exception):
    """A client that speaks neither HTTP nor SOCKS as we understand them."""


class Proxy:
    def __init__(self, guard: UrlGuard, may_connect: MayConnect | None = None) -> None:
        self._guard = guard
        self._may_connect = may_connect
        self._logged: set[str] = set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def ensure(self, address: Path) -> None:
        """Serve a sandbox at this address, unless we or another process of ours do so already. Raises BackendFailed."""
        if self._server is not None and self._server.is_serving():
            return
        with contextlib.suppress(OSError):
            connect(str(address)).close()
            return
        try:
            listening = bind(address)
        except OSError as error:
            raise BackendFailed(f"The sandbox cannot be prepared ({error.strerror}).") from error
        weakref.finalize(self, listening.close)  # a conversation may be forgotten without being closed
        self._server = await asyncio.start_unix_server(self._handle, sock=listening, limit=_MAX_HEAD_BYTES)

    async def open_port(self) -> int:
        """Serve programs of ours that connect by themselves, such as git; return the port on this machine."""
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.transport.abort()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:  # waiting ones would hold descriptors, too
            writer.close()
            return
        self._connections.add(writer)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                first = await reader.readexactly(1)
                if first == b"\x05":
                    answer: Answer = _answer_socks
                    (host, port), head = await _read_socks(reader, writer), b""
                else:
                    host, port, head = await _read_http(first, reader)
                    answer = partial(_answer_http, is_tunnel=not head)
            await self._connect(host, port, head, (reader, writer), answer)
        except (BadRequest, OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("proxy request dropped", problem=type(error).__name__)  # the client left, or made no sense
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _connect(self, host: str, port: int, head: bytes, client: Streams, answer: "Answer") -> None:
        reader, writer = client
        try:
            if self._may_connect is not None and not await self._may_connect(host):
                raise AddressRefused(host, "the owner has not allowed it")
            connection = await self._guard.connect(host, port, _LOOKUPS)
        except AddressRefused as error:
            if host not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add(host)
                log.info("sandbox connection refused", host=host, reason=error.reason)
            writer.write(answer("refused", f"{REFUSED_BY_PROXY} {host}: {error.reason}."))
            await writer.drain()
            return
        except (OSError, UnicodeError) as error:  # UnicodeError: a name with an empty part
            writer.write(answer("unreachable", f"{host} cannot be reached: {error}."))
            await writer.drain()
            return
        server = await asyncio.open_connection(sock=connection)
        self._connections.add(server[1])
        try:
            writer.write(answer("connected", ""))
            server[1].write(head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, server[1]))
                both.create_task(_copy(server[0], writer))
        finally:
            server[1].close()
            self._connections.discard(server[1])


Outcome = Literal["connected", "refused", "unreachable"]
Answer = Callable[[Outcome, str], bytes]
"""Returns how a client is told of an outcome, in its protocol."""


def _answer_http(outcome: Outcome, text: str, *, is_tunnel: bool) -> bytes:
    if outcome == "connected":
        return b"HTTP/1.1 200 Connection established\r\n\r\n" if is_tunnel else b""
    status = "403 Forbidden by the sandbox" if outcome == "refused" else "502 Bad Gateway"
    content = f"{text}\n".encode(errors="replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + content


def _answer_socks(outcome: Outcome | Literal["unknown"], text: str = "") -> bytes:
    code = {"connected": 0, "refused": 2, "unreachable": 4, "unknown": 7}[outcome]
    return bytes((5, code, 0, 1)) + bytes(6)


async def _read_http(first: bytes, reader: asyncio.StreamReader) -> tuple[str, int, bytes]:
    """Return host, port and what to pass on of a request; nothing for a tunnel. Raises BadRequest."""
    head = first + await reader.readuntil(b"\r\n\r\n")
    request, *headers = head.split(b"\r\n")
    try:
        method, target, version = request.decode("ascii").split(" ")
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = url.hostname or "", url.port or 80
    except ValueError as error:
        raise BadRequest from error
    if not host or (method != "CONNECT" and url.scheme != "http"):
        raise BadRequest
    if method == "CONNECT":
        return host, url.port or 443, b""
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [line for line in headers if line and not line.lower().startswith(_NOT_PASSED_ON)]
    lines = [f"{method} {path} {version}".encode(), *kept, b"Connection: close", b"", b""]
    return host, port, b"\r\n".join(lines)


async def _read_socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """Return host and port of a SOCKS request whose first byte was read. Raises BadRequest."""
    await reader.readexactly((await reader.readexactly(1))[0])
    writer.write(b"\x05\x00")  # no password
    _, command, _, kind = await reader.readexactly(4)
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii", "replace")
    elif kind in (1, 4):
        host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
    else:
        raise BadRequest
    (port,) = struct.unpack(">H", await reader.readexactly(2))
    if command != 1:  # only connections, no listening and no datagrams
        writer.write(_answer_socks("unknown"))
        await writer.drain()
        raise BadRequest
    return host, port


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK_BYTES):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
