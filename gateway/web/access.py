"""Who may use the page: checked on every request and socket before anything else happens.

Three questions, in this order. Was it addressed to us (Host: a foreign name pointing at this machine is not)?
Does it come from our own page (Origin)? Does it bring a cookie or token that we gave out?
Monitors on this machine may ask for health and readiness without one.
"""

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import hdrs, web

from gateway.errors import StoreUnavailable
from gateway.store import web_chats
from gateway.store.db.database import Database

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_LOOPBACK_PEERS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
_CHECKS = ("/health", "/ready")
_NO_KEY = (
    "This page needs a login link. Run `hermes web` on the machine that runs Hermes and open the address it prints."
)
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
class Door:
    db: Database
    host: str  # what we listen on
    allowed_hosts: tuple[str, ...] = ()  # names by which a proxy in front of us is reached
    token: str = ""  # the operator's own, for scripts and for machines beyond this one
    port: int = 0  # known once the server listens

    @property
    def cookie_name(self) -> str:
        return f"hermes_{self.port}"  # browsers share cookies between the ports of a host

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._check(request, handler)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        except StoreUnavailable as error:
            response = web.json_response({"problem": str(error)}, status=503)
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.host.lower() not in self._hosts():
            raise web.HTTPMisdirectedRequest(text="This address does not belong to Hermes.")
        if not self._is_own_origin(request):
            raise web.HTTPForbidden(text="Only Hermes' own page may do this.")
        link = request.query.get("token", "")
        if request.path == "/" and link:
            return await self._let_in(request, link)
        if not self._is_local_check(request) and not await self.is_known(request):
            raise _locked(request, _NO_KEY)
        return await handler(request)

    def _is_local_check(self, request: web.Request) -> bool:
        """Whether a monitor on this machine asks how it is going; through a proxy anybody could."""
        name = request.host.lower().removesuffix(f":{self.port}")
        is_forwarded = any(header in request.headers for header in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host"))
        return request.path in _CHECKS and name in _LOOPBACK and request.remote in _LOOPBACK_PEERS and not is_forwarded

    async def _let_in(self, request: web.Request, link: str) -> web.StreamResponse:
        if self._is_own_token(link):
            cookie: str | None = await self.db.write(web_chats.new_cookie)
        else:
            cookie = await self.db.write(lambda tx: web_chats.exchange(tx, link))
        if cookie is None and not await self.is_known(request):
            raise _locked(request, f"This link was used already or has expired. {_NO_KEY}")
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
        scheme, _, bearer = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() == "bearer":
            return self._is_own_token(bearer.strip())
        cookie = request.cookies.get(self.cookie_name, "")
        return bool(cookie) and await self.db.read(lambda tx: web_chats.is_valid(tx, cookie))

    def _is_own_token(self, given: str) -> bool:
        # Headers may hold bytes that are no text; they are wrong, not an error.
        return bool(self.token) and hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def _hosts(self) -> set[str]:
        names = {*_LOOPBACK, f"[{self.host}]" if ":" in self.host else self.host}
        ours = names if self.port == 80 else {f"{name}:{self.port}" for name in names}  # browsers leave out :80
        return ours | {host.lower() for host in self.allowed_hosts}

    def _is_own_origin(self, request: web.Request) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            return origin.lower() in {f"{scheme}://{request.host.lower()}" for scheme in ("http", "https")}
        if request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate":
            return True  # a link on another page; our cookie is not sent with it, so this alone opens nothing
        # A browser sends an Origin with everything that writes and with every socket; a script sends none.
        return request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")


def _locked(request: web.Request, text: str) -> web.HTTPUnauthorized:
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        return web.HTTPUnauthorized(text=text)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Hermes</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<h1>Hermes</h1><p>{text.replace('`hermes web`', '<code>hermes web</code>')}</p></html>"
    )
    return web.HTTPUnauthorized(text=page, content_type="text/html")
