"""A strict Slack on loopback: bots use its Web API and Socket Mode, tests and the page play its people.

It refuses what Slack refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import hmac
import math
from types import TracebackType

from aiohttp import web

from playground.faults import Fault, Faults
from playground.limits import RateLimit, ServerLimits
from playground.params import NotJson, Params, read_form, read_params
from playground.server import ApiAnswer, ApiCall, PlatformServer
from playground.slack.methods import METHODS
from playground.slack.people import SlackPeople
from playground.slack.rules import SlackRefusal, check_scope, rate_limited, scope_headers
from playground.slack.sockets import ENVELOPE_FAULTS, SlackFault, SocketMode
from playground.slack.world import SlackWorld
from playground.wire import Wire, to_json

_CONNECT = "apps.connections.open"
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_TEXT = {"Content-Type": "text/plain"}
_LOGIN = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in to Playground</body></html>"
_PER_MINUTE = {"chat.postMessage": 0, "reactions.remove": 20}  # 50 for all others


class SlackServer(PlatformServer):
    """Serves at `api_url` while the `with` block runs."""

    world: SlackWorld
    people: SlackPeople
    faults: Faults[SlackFault]

    def __init__(
        self,
        *,
        bot_token: str = "xoxb-playground-token",  # noqa: S107 - of a bot that exists here alone
        app_token: str = "xapp-playground-token",  # noqa: S107
        bot_name: str = "playground_bot",
        limits: bool = False,
    ) -> None:
        self.bot_token, self.app_token = bot_token, app_token
        self.world = SlackWorld(bot_name=bot_name, root=lambda: self.url)
        faults = Faults[SlackFault](ENVELOPE_FAULTS)
        self.sockets = SocketMode(self.world, faults)
        self.limits = ServerLimits(limits)
        self.token_state = ""  # or the error that the bot's token gets
        super().__init__(world=self.world, people=SlackPeople(self.world, self.sockets), faults=faults)

    @property
    def api_url(self) -> str:
        """The `base_url` of a client."""
        return f"{self.url}/api/"

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/api/{method}", self._serve_method)
        app.router.add_get("/link", self.sockets.serve)
        app.router.add_route("*", "/upload/v1/{file_id}", self._serve_upload)
        app.router.add_get("/files-pri/{name:.+}", self._serve_download)
        app.router.add_get("/", self._serve_login)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sockets.close()
        await super().__aexit__(kind, error, trace)

    def half_open(self) -> None:
        super().half_open()
        self.sockets.freeze()

    async def resume(self) -> None:
        self.sockets.thaw()
        await super().resume()

    def refuse(self, refusal: SlackRefusal, call: ApiCall) -> ApiAnswer:
        headers = {**self._headers(call.method), **refusal.headers}
        return ApiAnswer(refusal.status, to_json(refusal.wire), refusal.error, headers)

    def fail(self, fault: Fault) -> ApiAnswer:
        """`description` is the error; a status of 500 without one is a broken server."""
        status, call = fault.failure_status, ApiCall(fault.method)
        if fault.retry_after:
            return self.refuse(rate_limited(max(1, round(fault.retry_after))), call)
        if fault.description:
            status = 200 if status == 500 else status
            return self.refuse(SlackRefusal(fault.description, status=status, **fault.extra), call)
        return ApiAnswer(status, b"upstream connect error", f"HTTP {status}", _TEXT)

    async def wait_for_socket(self, count: int = 1, *, seconds: float = 5.0) -> None:
        """Wait until so many sockets are open."""
        await self.wait_for(lambda: len(self.sockets.open) >= count, seconds=seconds)

    async def _serve_method(self, request: web.Request) -> web.StreamResponse:
        call = ApiCall(request.match_info["method"])
        try:
            params = await read_params(request)
            call.params, call.place = params.log_entry, params.text("channel") or params.text("channel_id")
            self._check_token(call.method, request)
        except NotJson:
            return self.tell(call, self.refuse(SlackRefusal("invalid_json"), call))
        except SlackRefusal as refusal:
            return self.tell(call, self.refuse(refusal, call))

        async def work() -> ApiAnswer:
            try:
                result = {"ok": True, **self._run(call.method, params)}
            except NotJson:
                raise SlackRefusal("invalid_arguments") from None
            return ApiAnswer(200, to_json(result), "", self._headers(call.method))

        return await self.serve(request, call, work)

    def _run(self, method: str, params: Params) -> Wire:
        function = METHODS.get(method)
        if function is None and method != _CONNECT:
            raise SlackRefusal("unknown_method", req_method=method)
        check_scope(method, self.world.scopes)
        most = _PER_MINUTE.get(method, 50)
        limit = RateLimit(method, most, 60.0) if most else RateLimit((method, params.text("channel")), 3, 3.0)
        if seconds := self.limits.spend(limit):
            raise rate_limited(max(1, math.ceil(seconds)))
        if function is None:
            address = self.url.replace("http", "ws", 1)
            return {"url": f"{address}/link?ticket={self.sockets.new_ticket()}&app_id={self.world.app_id}"}
        return function(self.world, params)

    def _check_token(self, method: str, request: web.Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            raise SlackRefusal("not_authed")
        is_app, is_bot = (hmac.compare_digest(token.encode(), one.encode()) for one in (self.app_token, self.bot_token))
        if not is_app and not is_bot:
            raise SlackRefusal("invalid_auth")
        if is_app != (method == _CONNECT):
            raise SlackRefusal("not_allowed_token_type")
        if is_bot and self.token_state:
            raise SlackRefusal(self.token_state)

    def _headers(self, method: str) -> dict[str, str]:
        scopes = frozenset(("connections:write",)) if method == _CONNECT else self.world.scopes
        return {**_JSON, **scope_headers(method, scopes)}

    async def _serve_upload(self, request: web.Request) -> web.StreamResponse:
        """Take the bytes raw, or as the one file of a form."""
        stored = self.world.files.get(request.match_info["file_id"])
        if request.content_type == "multipart/form-data":
            content = next(iter((await read_form(request))[1].values())).content
        else:
            content = await request.read()
        call = ApiCall("upload", {"file_id": request.match_info["file_id"], "bytes": len(content)})

        async def work() -> ApiAnswer:
            if stored is None or stored.shared or stored.size != len(content):
                return ApiAnswer(400, b"no such upload, or another length", "bad upload", _TEXT)
            stored.content = content
            return ApiAnswer(200, b"OK - %d" % len(content), "", _TEXT)

        return await self.serve(request, call, work)

    async def _serve_download(self, request: web.Request) -> web.StreamResponse:
        """Serve the bytes for the bot's token; send anyone else to the page to sign in, as in reality."""
        name = request.match_info["name"]
        stored = self.world.files.get(name.partition("/")[0].rpartition("-")[2])
        call = ApiCall("file", {"name": name})
        try:
            self._check_token("file", request)
            check_scope("files.info", self.world.scopes)
        except SlackRefusal as refusal:
            self.log(call, 302, refusal.error)
            return web.Response(status=302, headers={"Location": f"{self.url}/?redir=%2Ffiles-pri%2F{name}"})
        if stored is None or not stored.content:
            return self.tell(call, ApiAnswer(404, b"<html>404</html>", "no such file", {"Content-Type": "text/html"}))
        return await self.serve_file(request, call, stored.content, stored.mime_type)

    async def _serve_login(self, request: web.Request) -> web.Response:
        return web.Response(text=_LOGIN, content_type="text/html")
