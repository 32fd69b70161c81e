"""A strict Discord on loopback: bots talk to it over REST and the gateway, people are played through it.

It refuses what Discord refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import argparse
import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from playground.discord.connection import Connection
from playground.discord.control import DiscordControl
from playground.discord.faults import EVENT_KINDS, Kind, refused
from playground.discord.gateway import Gateway
from playground.discord.intents import PRIVILEGED
from playground.discord.limits import Limits, refusal_headers
from playground.discord.methods import ROUTES, Route
from playground.discord.people import People
from playground.discord.places import Id
from playground.discord.request import Ask, read_ask
from playground.discord.rules import Refused, not_found, too_many_requests, unauthorized
from playground.discord.squeeze import squeezer
from playground.discord.world import User, World
from playground.events import EventLog
from playground.faults import Fault, Faults
from playground.stage import JSON, Answer, Heard, Stage, serve_until_killed
from playground.wire import Wire, to_json

API = "/api/v10"
TOKEN = "MTE.playground.discord-token"  # noqa: S105 - of a bot that exists here alone
# A 429 without it is taken for a ban by Cloudflare.
_VIA = {"Via": "1.1 google"}


class DiscordServer(Stage):
    """Serves at `url` while the `with` block runs; `people` act, `world` shows, `gateway` and `faults` go wrong."""

    people: People
    faults: Faults[Kind]

    def __init__(
        self,
        *,
        token: str = TOKEN,
        username: str = "playground",
        bot_id: int = 1_100_000_000_000_000_001,
        privileged: int = PRIVILEGED,
        heartbeat_seconds: float = 41.25,
        limits: bool = False,
        port: int = 0,
        keep_calls: int = 20_000,
    ) -> None:
        """`privileged` are the privileged intents switched on for the bot; identifying with others is closed (4014)."""
        self.token = token
        self.world = World(bot=User(id=bot_id, username=username, bot=True), events=EventLog())
        self.world.privileged = privileged
        self.world.base_url = lambda: self.url
        self.limits = Limits(on=limits)
        super().__init__(
            people=People(self.world),
            events=self.world.events,
            faults=Faults[Kind](EVENT_KINDS),
            port=port,
            keep_calls=keep_calls,
        )
        self.gateway = Gateway(
            self.world, self.faults, heartbeat_seconds=heartbeat_seconds, limits_on=lambda: self.limits.on
        )
        self.world.dispatch = self.gateway.dispatch

    @property
    def api_url(self) -> str:
        """What takes the place of `https://discord.com/api/v10`."""
        return self.url + API

    @property
    def gateway_url(self) -> str:
        """What takes the place of `wss://gateway.discord.gg/`."""
        return f"ws://127.0.0.1:{self.port}/gateway"

    def half_open(self) -> None:
        """The gateway's connections too."""
        super().half_open()
        self.gateway.freeze()

    async def wait_for_text(self, channel_id: Id, words: str, *, seconds: float = 5.0) -> Wire:
        """The bot's newest message in this channel that says so, as soon as there is one. Raises TimeoutError."""

        def newest() -> Wire | None:
            for post in reversed(self.world.channels[int(channel_id)].posts.values()):
                if post.author is self.world.bot and not post.deleted and words in post.words:
                    return post.body
            return None

        found = await self.wait_for(newest, seconds=seconds)
        assert found is not None
        return found

    def show(self, channel_id: Id, *, deleted: bool = False) -> list[Wire]:
        return self.world.show(int(channel_id), deleted=deleted)

    def texts(self, channel_id: Id) -> list[str]:
        """What the bot's messages in this channel say now."""
        return [shown["text"] for shown in self.show(channel_id) if shown["by_bot"]]

    def add_routes(self, app: web.Application) -> None:
        gateway = (
            Route("GET", "/gateway", "getGateway", lambda world, ask: {"url": self.gateway_url}, public=True),
            Route("GET", "/gateway/bot", "getGatewayBot", self._gateway_bot),
        )
        for route in (*gateway, *ROUTES):
            app.router.add_route(route.verb, API + route.path, self._handler(route))
        app.router.add_route("*", "/api/{rest:.*}", self._handler(Route("*", "", "unknown", _nothing, public=True)))
        app.router.add_get("/attachments/{path:.+}", self._serve_file)
        app.router.add_get("/gateway", self._serve_gateway)
        DiscordControl(self, self).add_routes(app)

    def _gateway_bot(self, world: World, ask: Ask) -> Wire:
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": self.gateway.start_limit}

    def refusal(self, fault: Fault) -> Answer:
        refusal = refused(fault)
        headers = {}
        if refusal.status == 429:
            headers = refusal_headers(fault.retry_after, everywhere=bool(fault.extra.get("global")))
        return _refusal(refusal, headers)

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if self.link_dead:
                return await self.never(request)
            heard = Heard(route.name)
            try:
                if not route.public:
                    self._check_token(request)
                ask = await read_ask(request)
            except Refused as refusal:
                return self.tell(heard, _refusal(refusal))
            heard.params, heard.place = ask.logged, ask.place
            return await self.serve(request, heard, self._work(route, ask))

        return handle

    def _check_token(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "")
        if self.gateway.token_reset or not hmac.compare_digest(given.encode(), f"Bot {self.token}".encode()):
            raise unauthorized()

    def _work(self, route: Route, ask: Ask) -> Callable[[], Awaitable[Answer]]:
        async def work() -> Answer:
            allowance = self.limits.spend(route.name, route.bucket, ask.place)
            try:
                if allowance.retry_after:
                    raise too_many_requests(allowance.retry_after, everywhere=allowance.everywhere)
                result = route.function(self.world, ask)
            except Refused as refusal:
                return _refusal(refusal, allowance.headers)
            headers = {**_VIA, **allowance.headers}
            return (
                Answer(204, b"", "", headers)
                if result is None
                else Answer(200, to_json(result), "", {**JSON, **headers})
            )

        return work

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        if self.link_dead:
            return await self.never(request)
        heard = Heard("file", {"path": request.match_info["path"]})
        stored = self.world.files.get(request.match_info["path"])
        if stored is None or stored.expired or request.query.get("hm") != stored.signature:
            gone = b"This content is no longer available."
            return self.tell(heard, Answer(404, gone, "gone", {"Content-Type": "text/plain"}))
        kind = stored.mime_type or "application/octet-stream"
        return await self.serve_file(request, heard, stored.content, kind)

    async def _serve_gateway(self, request: web.Request) -> web.StreamResponse:
        """Faults of calls work on the connecting, as those of a method `gateway`."""
        if self.link_dead:
            return await self.never(request)
        heard = Heard("gateway", dict(request.query))
        fault = self.faults.take(heard.method)
        if (stopped := await self.hinder(request, heard, fault)) is not None:
            return stopped
        try:
            squeeze = squeezer(request.query.get("compress", ""))
        except ValueError as error:
            return self.tell(heard, Answer(400, str(error).encode(), str(error), {"Content-Type": "text/plain"}))
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        self.log(heard, 101)
        connection = Connection(self.gateway, request, socket, squeeze)
        connection.token, connection.resume_url = self.token, lambda: self.gateway_url
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            await socket.close(code=4012)
            return socket
        await connection.run()
        return socket


def _nothing(world: World, ask: Ask) -> Wire:
    raise not_found()


def _refusal(refusal: Refused, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(refusal.status, to_json(refusal.body), str(refusal), {**JSON, **_VIA, **(headers or {})})


async def _serve(arguments: argparse.Namespace) -> None:
    server = DiscordServer(
        token=arguments.token,
        username=arguments.username,
        port=arguments.port,
        heartbeat_seconds=arguments.heartbeat_seconds,
    )
    where = ("url", "api_url", "gateway_url", "token")
    await serve_until_killed(server, lambda: {name: getattr(server, name) for name in where})


def main(argv: list[str] | None = None) -> None:
    """Run as a process of its own, so that its memory outlives a bot that is killed."""
    parser = argparse.ArgumentParser(prog="python -m playground.discord.server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default=TOKEN)
    parser.add_argument("--username", default="playground")
    parser.add_argument("--heartbeat-seconds", type=float, default=41.25)
    try:
        asyncio.run(_serve(parser.parse_args(argv)))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
