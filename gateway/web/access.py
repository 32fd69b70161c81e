"""Decide who may use the page; runs on every request and socket before anything else.

Three checks, in this order: the Host header names this server (against DNS rebinding), the Origin header names our own
page, and a cookie or token that we issued comes with it. Monitors on this machine may read `/health`, `/ready`
and `/metrics` without one; paths for programs have keys and signatures of their own.
"""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import hdrs, web

from gateway.errors import StoreUnavailable
from gateway.store import web_chats
from gateway.store.db.database import Database
from gateway.web.refusals import LOOPBACK_PEERS, Refusals

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MONITORING = ("/health", "/ready", "/metrics")
_FOR_PROGRAMS = ("/v1/", "/hooks/")  # these check a key or a signature themselves; a cookie means nothing there
_LARGE_BYTES = 65_536
_REFUSED = (401, 403, 408, 413, 421)
_LOGIN_HELP = "Run `hermes web` on the machine that runs Hermes and open the link it prints."
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "font-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(slots=True, kw_only=True)
class PageAccess:
    """The access rules of one server, as a middleware."""

    db: Database
    host: str  # the server listens on it
    allowed_hosts: tuple[str, ...] = ()  # names of a proxy in front of the server
    token: str = ""  # HERMES_WEB_TOKEN, for scripts and other machines
    port: int = 0  # known once the server listens
    refusals: Refusals = field(default_factory=Refusals)

    @property
    def cookie_name(self) -> str:
        return f"hermes_{self.port}"  # browsers share cookies between the ports of a host

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._check(request, handler)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            self._count(request, error)
            raise
        except StoreUnavailable as error:
            response = web.json_response({"problem": str(error)}, status=503)
        self._count(request, response)
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    def _count(self, request: web.Request, response: web.StreamResponse) -> None:
        if response.status in _REFUSED:
            self.refusals.count(request)
            response.force_close()  # the next one needs a connection of its own, and those are taken at a pace

    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.host.lower() not in self._hosts():
            raise web.HTTPMisdirectedRequest(
                text="Hermes is not served under this address. Add a proxy's name to platforms.web.allowed_hosts."
            )
        if not self._is_own_origin(request):
            raise web.HTTPForbidden(text="This request did not come from the Hermes page.")
        link = request.query.get("token", "")
        if request.path == "/" and link:
            return await self._log_in(request, link)
        if request.path.startswith(_FOR_PROGRAMS):
            return self._refuse_unread(request) if self.refusals.is_spent(request) else await handler(request)
        if not self._is_local_check(request) and not await self.is_known(request):
            raise _refuse(request, f"This page needs a login link. {_LOGIN_HELP}")
        return await handler(request)

    def _refuse_unread(self, request: web.Request) -> web.Response:
        self.refusals.count(request)
        if request.body_exists and not 0 <= (request.content_length or -1) < _LARGE_BYTES:
            request.protocol.force_close()  # without an answer: aiohttp would read all of the body first
        text = "Too many requests from this address had a wrong key or signature. Wait a minute."
        error = {"message": text, "type": "invalid_request_error", "code": "rate_limit_exceeded"}
        response = web.json_response({"accepted": False, "error": error}, status=429, headers={"Retry-After": "60"})
        response.force_close()
        return response

    def _is_local_check(self, request: web.Request) -> bool:
        """Return whether a monitor on this machine asks. Through a proxy, anybody could."""
        name = request.host.lower().removesuffix(f":{self.port}")
        is_forwarded = any(header in request.headers for header in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host"))
        return (
            request.path in _MONITORING and name in _LOOPBACK and request.remote in LOOPBACK_PEERS and not is_forwarded
        )

    async def _log_in(self, request: web.Request, link: str) -> web.StreamResponse:
        if self._is_own_token(link):
            cookie: str | None = await self.db.write(web_chats.new_cookie)
        else:
            cookie = await self.db.write(lambda tx: web_chats.exchange(tx, link))
        if cookie is None and not await self.is_known(request):
            raise _refuse(request, f"This link was used already or has expired. {_LOGIN_HELP}")
        response = web.Response(status=303, headers={hdrs.LOCATION: "/"})
        if cookie is not None:
            response.set_cookie(
                self.cookie_name,
                cookie,
                max_age=web_chats.COOKIE_LIFE_MS // 1000,
                httponly=True,
                samesite="Strict",
                secure=request.headers.get("X-Forwarded-Proto") == "https",
                path="/",
            )
        return response

    async def is_known(self, request: web.Request) -> bool:
        """Return whether the request brings a valid cookie or the operator's token."""
        scheme, _, bearer = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "bearer":
            return self._is_own_token(bearer.strip())
        cookie = request.cookies.get(self.cookie_name, "")
        return bool(cookie) and await self.db.read(lambda tx: web_chats.is_valid(tx, cookie))

    def _is_own_token(self, given: str) -> bool:
        # Headers may hold bytes that are not UTF-8: a wrong token, not a server error.
        return bool(self.token) and hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def _hosts(self) -> set[str]:
        names = {*_LOOPBACK, f"[{self.host}]" if ":" in self.host else self.host}
        own = names if self.port == 80 else {f"{name}:{self.port}" for name in names}  # browsers leave out :80
        return own | {host.lower() for host in self.allowed_hosts}

    def _is_own_origin(self, request: web.Request) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            return origin.lower() in {f"{scheme}://{request.host.lower()}" for scheme in ("http", "https")}
        if request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate":
            return True  # a link on another page: SameSite keeps our cookie out of it, so it grants nothing
        # Browsers send an Origin with every write and every socket; scripts send none.
        return request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")


def _refuse(request: web.Request, text: str) -> web.HTTPUnauthorized:
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        return web.HTTPUnauthorized(text=text)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Hermes</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<h1>Hermes</h1><p>{text.replace('`hermes web`', '<code>hermes web</code>')}</p></html>"
    )
    return web.HTTPUnauthorized(text=page, content_type="text/html")
