"""Decide which addresses we connect to on somebody's behalf, and connect: for the sandbox, and for fetching by URL.

A name says nothing about where it leads, so the address itself is checked, at the moment of connecting: a name that
leads elsewhere at the second lookup, and a redirect, gain nothing. Only public addresses pass, and the exceptions that
the owner has made.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tools.errors import ToolFailed

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 30.0
_MAX_REDIRECTS = 5
_READ_BYTES = 65_536
_USER_AGENT = "Mozilla/5.0 (compatible; HermesGateway)"
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
_REFUSED_THOUGH_GLOBAL = tuple(
    ipaddress.ip_network(network)
    for network in (
        "64:ff9b::/96",  # NAT64: an IPv4 address inside
        "64:ff9b:1::/48",
        "2002::/16",  # 6to4
        "2001::/32",  # Teredo
        "192.0.0.0/24",  # protocols, and a cloud's metadata service
        "192.88.99.0/24",  # relays of 6to4
        "fec0::/10",  # site-local
        "168.63.129.16/32",  # the metadata service of a cloud
    )
)


class AddressRefused(ToolFailed):
    """An address that we do not connect to; the text says why, and `host` which one."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"{host}: {reason}.")
        self.host, self.reason = host, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedAddress:
    """An exception of the owner: a name or a network, at all ports or at one."""

    name: str = ""
    network: IPNetwork | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "AllowedAddress":
        """Read `nas.local:5000`, `192.168.1.7`, `10.0.0.0/8` or `[fd00::7]:80`. Raises ValueError."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or (":" in host and not host.endswith("]")):
            host, port = text.strip(), ""
        number = int(port) if port else None
        try:
            return cls(network=ipaddress.ip_network(host.strip("[]"), strict=False), port=number)
        except ValueError:
            if not host or "/" in host:
                raise
            return cls(name=host.lower().rstrip("."), port=number)

    def allows(self, host: str, address: IPAddress, port: int) -> bool:
        if self.port not in (None, port):
            return False
        if self.network is not None:
            return address.version == self.network.version and address in self.network
        return host.lower().rstrip(".") == self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlGuard:
    allowed: tuple[AllowedAddress, ...] = ()

    @classmethod
    def of(cls, exceptions: Sequence[str]) -> "UrlGuard":
        return cls(allowed=tuple(map(AllowedAddress.parse, exceptions)))

    def allowing(self, url: str) -> "UrlGuard":
        """Return a guard that also allows the server of a URL from the settings: the owner has chosen it."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or {"http": 80}.get(parts.scheme, 443)
        chosen = AllowedAddress.parse(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return replace(self, allowed=(*self.allowed, chosen))

    def check(self, host: str, address: str, port: int) -> None:
        """Raise AddressRefused for an address that a name has led to, unless we may connect to it."""
        found = _read_address(address)
        if not self._is_excepted(host, found, port) and (reason := _find_reason(found)):
            raise AddressRefused(host, reason)

    async def connect(self, host: str, port: int, lookups: Executor | None = None) -> socket.socket:
        """Return a connection; `lookups` are threads for names. Raises AddressRefused, OSError when nobody answers."""
        with contextlib.suppress(ValueError):  # a name
            self.check(host, str(ipaddress.ip_address(host)), port)
        loop = asyncio.get_running_loop()
        refused: AddressRefused | None = None
        failed: OSError = OSError(f"{host} has no address")
        async with asyncio.timeout(CONNECT_SECONDS):
            find = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            for family, _, _, _, address in await loop.run_in_executor(lookups, find):
                try:
                    self.check(host, str(address[0]), port)
                    return await self._connect_to(host, family, str(address[0]), port)
                except AddressRefused as error:
                    refused = error
                except OSError as error:
                    failed = error
        raise refused or failed

    def check_is_elsewhere(self, host: str, family: int, address: str, port: int) -> None:
        """Raise AddressRefused for a public address of this machine itself. Sends nothing."""
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((address, port))
            except OSError:
                return  # nothing leads there: connecting will say so
            is_ours = probe.getsockname()[0] == probe.getpeername()[0]
        if is_ours and not self._is_excepted(host, _read_address(address), port):
            raise AddressRefused(host, "it is an address of this machine")

    async def _connect_to(self, host: str, family: int, address: str, port: int) -> socket.socket:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connection, (address, port))
            is_ours = connection.getsockname()[0] == connection.getpeername()[0]
            if is_ours and not self._is_excepted(host, _read_address(address), port):
                raise AddressRefused(host, "it is an address of this machine")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_excepted(self, host: str, address: IPAddress, port: int) -> bool:
        return any(one.allows(host, address, port) for one in self.allowed)


def _read_address(text: str) -> IPAddress:
    found = ipaddress.ip_address(text.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _find_reason(address: IPAddress) -> str:
    """Return why an address is not public; empty when it is."""
    if address.is_loopback or address.is_unspecified:
        return "it is this machine itself"
    if address.is_link_local:
        return "it is a link-local address, such as a cloud's metadata service"
    if address.is_multicast or address.is_reserved:
        return "it is not the address of a single machine"
    if any(address.version == network.version and address in network for network in _REFUSED_THOUGH_GLOBAL):
        return "it is an address of a transition or metadata service"
    return "" if address.is_global else "it is a private address"


# Fetching a document.


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    max_bytes: int = 10_000_000
    timeout_seconds: float = 30.0
    types: Collection[str] = ()  # such as "text/html" or "image/"; empty for all


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedDocument:
    url: str  # after redirects
    content_type: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFile:
    """A file in a form."""

    name: str
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request to a service that the owner has chosen: its key must not travel along with a redirect."""

    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None  # the body; without body and form it is a GET
    form: Mapping[str, str | FormFile] = field(default_factory=dict)


async def fetch(url: str, guard: UrlGuard, limits: FetchLimits, request: ApiRequest | None = None) -> FetchedDocument:
    """Fetch a document by http or https. Raises AddressRefused, and ToolFailed beyond a limit or without an answer."""
    import aiohttp  # costs ten megabytes, so only where something is fetched

    timeout = aiohttp.ClientTimeout(total=limits.timeout_seconds)
    method = "POST" if request is not None and (request.json is not None or request.form) else "GET"
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=_open_connector(guard), trust_env=False) as session,
            session.request(method, url, **_options(request)) as answer,
        ):
            answer.raise_for_status()
            if answer.status >= 300:  # a redirect that is not followed
                raise ToolFailed(f"{url} could not be fetched: it answers with a redirect ({answer.status}).")
            kind = answer.content_type
            if limits.types and not any(kind.startswith(wanted) for wanted in limits.types):
                raise ToolFailed(f"{url} is of the type {kind}, which is not wanted here.")
            content = bytearray()
            async for piece in answer.content.iter_chunked(_READ_BYTES):
                content += piece
                if len(content) > limits.max_bytes:
                    raise ToolFailed(f"{url} is larger than {limits.max_bytes:,} bytes.")
            return FetchedDocument(url=str(answer.url), content_type=kind, content=bytes(content))
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ToolFailed(f"{url} could not be fetched: {_find_cause(error, limits)}.") from error


def _options(request: ApiRequest | None) -> dict[str, Any]:
    import aiohttp

    if request is None:
        return {"max_redirects": _MAX_REDIRECTS, "headers": {"User-Agent": _USER_AGENT}}
    options: dict[str, Any] = {"headers": dict(request.headers), "allow_redirects": False}
    if request.form:
        form = aiohttp.FormData()
        for name, value in request.form.items():
            if isinstance(value, FormFile):
                form.add_field(name, value.content, filename=value.name, content_type=value.mime)
            else:
                form.add_field(name, value)
        options["data"] = form
    elif request.json is not None:
        options["json"] = request.json
    return options


def _open_connector(guard: UrlGuard) -> "aiohttp.TCPConnector":
    """Return a connector to addresses that pass the guard: the address that was checked is the one connected to."""
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult

    names: dict[str, str] = {}  # the last host that led to an address: exceptions may be for a name

    class Resolver(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
            names.update((str(address[0]), host) for *_, address in found)
            return [
                ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=0, flags=0)
                for kind, _, _, _, address in found
            ]

        async def close(self) -> None:
            """Release nothing: each lookup stands for itself."""

    def open_socket(found: "aiohttp.AddrInfoType") -> socket.socket:
        family, kind, protocol, _, address = found
        host, port = names.get(str(address[0]), str(address[0])), int(address[1])
        guard.check(host, str(address[0]), port)
        guard.check_is_elsewhere(host, int(family), str(address[0]), port)
        return socket.socket(family, kind, protocol)

    return aiohttp.TCPConnector(resolver=Resolver(), use_dns_cache=False, socket_factory=open_socket)


STATUSES = {
    401: "it needs a login",
    403: "it refuses programs, or needs a login",
    404: "there is no such page",
    410: "the page is gone",
    429: "it asks to wait before the next request",
}


def _find_cause(error: Exception, limits: FetchLimits) -> str:
    """Return in words for the model why nothing was fetched."""
    import aiohttp

    match error:
        case aiohttp.TooManyRedirects():
            return "it redirects without end"
        case aiohttp.ClientResponseError():
            cause = STATUSES.get(error.status) or ("its server failed" if error.status >= 500 else "it was refused")
            return f"{cause} ({error.status})"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return "its certificate is not valid, so nobody knows who answers"
        case aiohttp.ClientConnectorDNSError():
            return "there is no host of that name"
        case aiohttp.ClientConnectorError():
            return "no server answers there"
        case TimeoutError():
            return f"it took longer than {limits.timeout_seconds:g} s"
        case aiohttp.InvalidURL() | aiohttp.RedirectClientError() | ValueError():
            return "it is not an address that begins with http:// or https://, or leads to none"
    return f"the connection broke ({type(error).__name__})"
