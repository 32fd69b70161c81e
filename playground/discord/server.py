"""A strict Discord on loopback: bots talk to it over REST and the gateway, tests and the page play its people.

It refuses what Discord refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import hmac
import math
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from aiohttp import web

from playground.discord.gateway import DiscordGateway, GatewayConnection
from playground.discord.intents import PRIVILEGED
from playground.discord.methods import ROUTES, RestCall, Route, read_call
from playground.discord.people import DiscordPeople
from playground.discord.rules import DiscordRefusal
from playground.discord.world import DiscordUser, DiscordWorld
from playground.faults import CallKind, Fault, Faults
from playground.limits import RateLimit, ServerLimits
from playground.server import JSON, ApiAnswer, ApiCall, PlatformServer
from playground.wire import Wire, to_json

EventKind = Literal[
    "duplicate",  # send an event twice, with two numbers
    "drop",  # never send an event, not even after a resume
    "cut_gateway",  # cut the connection in place of the event, which comes again after a resume
]
DiscordFault = CallKind | EventKind
API = "/api/v10"
TOKEN = "MTE.playground.discord-token"  # noqa: S105 - of a bot that exists here alone
# A 429 without it is taken for a ban by Cloudflare.
_VIA = {"Via": "1.1 google"}


class DiscordServer(PlatformServer):
    """Serves at `url` while the `with` block runs."""

    world: DiscordWorld
    people: DiscordPeople
    faults: Faults[DiscordFault]

    def __init__(
        self,
        *,
        token: str = TOKEN,
        username: str = "playground",
        bot_id: int = 1_100_000_000_000_000_001,
        privileged: int = PRIVILEGED,
        heartbeat_seconds: float = 41.25,
        limits: bool = False,
    ) -> None:
        """`privileged` are the privileged intents switched on for the bot; identifying with others is closed (4014)."""
        self.token = token
        self.world = DiscordWorld(bot=DiscordUser(id=bot_id, username=username, bot=True))
        self.world.privileged = privileged
        self.world.base_url = lambda: self.url
        self.limits = ServerLimits(limits)
        faults = Faults[DiscordFault](get_args(EventKind))
        super().__init__(world=self.world, people=DiscordPeople(self.world), faults=faults)
        self.gateway = DiscordGateway(self.world, faults, token=token, heartbeat_seconds=heartbeat_seconds)
        self.world.dispatch = self.gateway.dispatch

    @property
    def api_url(self) -> str:
        """Replaces `https://discord.com/api/v10`."""
        return self.url + API

    @property
    def gateway_url(self) -> str:
        """Replaces `wss://gateway.discord.gg/`."""
        return f"ws://127.0.0.1:{self.port}/gateway"

    def half_open(self) -> None:
        """Freeze the gateway's connections too."""
        super().half_open()
        self.gateway.freeze()

    def add_routes(self, app: web.Application) -> None:
        for route in (Route("GET", "/gateway/bot", "getGatewayBot", self._find_gateway), *ROUTES):
            app.router.add_route(route.verb, API + route.path, self._make_handler(route))
        unknown = Route("*", "", "unknown", _refuse_unknown, public=True)
        app.router.add_route("*", "/api/{rest:.*}", self._make_handler(unknown))
        app.router.add_get("/attachments/{path:.+}", self._serve_file)
        app.router.add_get("/gateway", self._serve_gateway)

    def _find_gateway(self, world: DiscordWorld, call: RestCall) -> Wire:
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": self.gateway.start_limit}

    def refuse(self, refusal: DiscordRefusal, call: ApiCall) -> ApiAnswer:
        headers = {**JSON, **_VIA, **refusal.headers}
        return ApiAnswer(refusal.status, to_json(refusal.body), str(refusal), headers)

    def fail(self, fault: Fault) -> ApiAnswer:
        """`extra` may hold `code`, `errors` and `global`."""
        status, extra, call = fault.failure_status, fault.extra, ApiCall(fault.method)
        if status == 429:
            return self.refuse(_rate_limited(fault.retry_after, "global" if extra.get("global") else "shared"), call)
        words = {401: "Unauthorized", 404: "Not Found", 502: "Bad Gateway", 503: "Service Unavailable"}
        message = fault.description or f"{status}: {words.get(status, 'Internal Server Error')}"
        return self.refuse(DiscordRefusal(status, extra.get("code", 0), message, extra.get("errors")), call)

    def _make_handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            incoming = ApiCall(route.name)
            try:
                if not route.public:
                    self._check_token(request)
                call = await read_call(request)
            except DiscordRefusal as refusal:
                return self.tell(incoming, self.refuse(refusal, incoming))
            incoming.params, incoming.place = call.log_entry, call.place
            return await self.serve(request, incoming, lambda: self._run(route, call))

        return handle

    def _check_token(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "")
        if self.gateway.token_reset or not hmac.compare_digest(given.encode(), f"Bot {self.token}".encode()):
            raise DiscordRefusal(401, 0, "401: Unauthorized")

    async def _run(self, route: Route, call: RestCall) -> ApiAnswer:
        limit, left, seconds = RateLimit((route.name, call.place), *route.limit), route.limit[0], 1.0
        if wait := self.limits.spend(limit, RateLimit("", 50, 1.0)):
            raise _rate_limited(wait, "user")
        if self.limits.on:
            left, seconds = self.limits.left(limit)
        # discord.py sends one request at a time until it is told of a limit.
        headers = {**_VIA, "X-RateLimit-Limit": str(limit.most), "X-RateLimit-Remaining": str(left)}
        headers |= {"X-RateLimit-Reset-After": f"{seconds:.3f}", "X-RateLimit-Bucket": route.name}
        result = route.function(self.world, call)
        if result is None:
            return ApiAnswer(204, b"", "", headers)
        return ApiAnswer(200, to_json(result), "", {**JSON, **headers})

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        call = ApiCall("file", {"path": request.match_info["path"]})
        stored = self.world.files.get(request.match_info["path"])
        if stored is None or stored.expired or request.query.get("hm") != stored.signature:
            gone = b"This content is no longer available."
            return self.tell(call, ApiAnswer(404, gone, "gone", {"Content-Type": "text/plain"}))
        kind = stored.mime_type or "application/octet-stream"
        return await self.serve_file(request, call, stored.content, kind)

    async def _serve_gateway(self, request: web.Request) -> web.StreamResponse:
        """Apply faults of calls to connecting, as those of a method `gateway`."""
        call = ApiCall("gateway", dict(request.query))
        fault = self.faults.take(call.method)
        if (stopped := await self.hinder(request, call, fault)) is not None:
            return stopped
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        self.log(call, 101)
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            await socket.close(code=4012)
            return socket
        await GatewayConnection(self.gateway, request, socket, self.gateway_url).run()
        return socket


def _rate_limited(seconds: float, scope: str) -> DiscordRefusal:
    refusal = DiscordRefusal(429, 0, "You are being rate limited.")
    everywhere = scope == "global"
    refusal.body = {"message": "You are being rate limited.", "retry_after": seconds, "global": everywhere}
    refusal.headers = {"Retry-After": str(math.ceil(seconds)), "X-RateLimit-Scope": scope}
    refusal.headers |= {"X-RateLimit-Global": "true"} if everywhere else {}
    return refusal


def _refuse_unknown(world: DiscordWorld, call: RestCall) -> None:
    raise DiscordRefusal(404, 0, "404: Not Found")
