"""Access to the page: from this machine, from the page itself, for somebody who has the link.

The page can start processes and type for people, so another site open in the same browser must get nowhere.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NAMES = ("127.0.0.1", "localhost")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NO_KEY = "This page needs its link. It is in the terminal where `hermes playground` runs."


class PlaygroundAccess:
    def __init__(self) -> None:
        self.port = 0  # known once the server listens
        self.token = secrets.token_urlsafe(24)
        self._cookie = secrets.token_urlsafe(32)

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    @property
    def cookie_name(self) -> str:
        return f"hermes_playground_{self.port}"  # browsers share cookies between the ports of a host

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await self._check(request, handler)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        if not response.prepared:
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.host.lower() not in {f"{name}:{self.port}" for name in _NAMES}:
            raise web.HTTPMisdirectedRequest(text="This address does not belong to the playground.")
        if not self._is_own_origin(request):
            raise web.HTTPForbidden(text="Only the playground's own page may do this.")
        given = request.query.get("token", "")
        if request.path == "/" and given:
            return self._let_in(given)
        if not _equal(request.cookies.get(self.cookie_name, ""), self._cookie):
            raise web.HTTPUnauthorized(text=_NO_KEY)
        return await handler(request)

    def _let_in(self, given: str) -> web.Response:
        if not _equal(given, self.token):
            raise web.HTTPUnauthorized(text=_NO_KEY)
        response = web.Response(status=303, headers={hdrs.LOCATION: "/"})
        response.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="Strict", path="/")
        return response

    def _is_own_origin(self, request: web.Request) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None:
            return origin.lower() == f"http://{request.host.lower()}"
        if request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate":
            return True  # a link elsewhere; our cookie is not sent with it
        if request.method not in ("GET", "HEAD"):
            return False  # a browser names the origin of everything that changes something
        return request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())
