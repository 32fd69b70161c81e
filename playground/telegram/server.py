"""A strict Telegram Bot API server on loopback: bots talk to it over HTTP, people are played through it.

It refuses what Telegram refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import argparse
import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable

from aiohttp import web

from playground.faults import Fault, Faults
from playground.stage import JSON, Answer, Heard, Stage, serve_until_killed
from playground.stage import Call as Call
from playground.telegram.control import TelegramControl
from playground.telegram.faults import UPDATE_KINDS, Kind, refused
from playground.telegram.limits import Limits
from playground.telegram.methods import LIMITED, METHODS
from playground.telegram.people import People
from playground.telegram.request import Params, read_params
from playground.telegram.rules import Refused, Wire, to_json, too_many_requests
from playground.telegram.world import User, World

_TOKEN = re.compile(r"[1-9]\d{0,15}:[\w-]{3,}", re.ASCII)


class TelegramServer(Stage):
    """Serves at `url` while the `with` block runs; `people` act, `world` shows, `faults` go wrong.

    The base URL of a bot is `url` and `/bot`.
    """

    people: People
    faults: Faults[Kind]

    def __init__(
        self,
        *,
        token: str = "42:playground-token",  # noqa: S107 - of a bot that exists here alone
        username: str = "playground_bot",
        first_name: str = "Playground",
        privacy: bool = True,
        limits: bool = False,
        port: int = 0,
        keep_calls: int = 20_000,
    ) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError("a bot token looks like 123:abc")
        self.token = token
        bot = User(id=int(token.split(":")[0]), first_name=first_name, username=username, is_bot=True)
        self.world = World(bot=bot, reads_all=not privacy)
        self.limits = Limits(on=limits)
        faults = Faults[Kind](UPDATE_KINDS)
        super().__init__(
            people=People(self.world), events=self.world.events, faults=faults, port=port, keep_calls=keep_calls
        )
        self.world.updates.duplicate_as = self._duplicate_as
        self.world.updates.real_pacing = limits

    def _duplicate_as(self, update_kind: str) -> str:
        fault = self.faults.take_pushed(update_kind)
        return fault.kind if fault else ""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/bot{token:[^/]+}/{method:[^/]*}", self._serve_method)
        app.router.add_get("/file/bot{token:[^/]+}/{path:.+}", self._serve_file)
        TelegramControl(self, self).add_routes(app)

    def refusal(self, fault: Fault) -> Answer:
        return _refusal(refused(fault))

    async def wait_for_text(self, chat_id: int, words: str, *, seconds: float = 5.0) -> Wire:
        """The bot's newest message in this chat that says so, as soon as there is one. Raises TimeoutError."""

        def newest() -> Wire | None:
            for post in reversed(self.world.chats[chat_id].posts.values()):
                if post.by_bot and not post.deleted and words in post.words:
                    return post.body
            return None

        found = await self.wait_for(newest, seconds=seconds)
        assert found is not None
        return found

    def show(self, chat_id: int, *, deleted: bool = False) -> list[Wire]:
        return self.world.show(chat_id, deleted=deleted)

    def texts(self, chat_id: int) -> list[str]:
        """What the bot's messages in this chat say now."""
        return [shown["text"] for shown in self.show(chat_id) if shown["by_bot"]]

    async def _serve_method(self, request: web.Request) -> web.StreamResponse:
        if self.link_dead:
            return await self.never(request)
        heard = Heard(request.match_info["method"])
        try:
            self._check_token(request)
            params = await read_params(request)
        except Refused as refusal:
            return self.tell(heard, _refusal(refusal))
        heard.params, heard.place = params.logged, params.text("chat_id")
        return await self.serve(request, heard, self._work(heard.method.lower(), params))

    def _work(self, method: str, params: Params) -> Callable[[], Awaitable[Answer]]:
        async def work() -> Answer:
            try:
                return Answer(200, await self._run(method, params))
            except Refused as refusal:
                return _refusal(refusal)

        return work

    def _check_token(self, request: web.Request) -> None:
        token = request.match_info["token"]
        if not _TOKEN.fullmatch(token):
            raise Refused(404, "Not Found")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Refused(401, "Unauthorized")

    async def _run(self, method: str, params: Params) -> bytes:
        if method == "getupdates":
            page = await self.world.updates.get(
                offset=params.integer("offset"),
                limit=params.integer("limit", 100),
                timeout=params.integer("timeout"),
                allowed=_allowed(params),
            )
            return b'{"ok":true,"result":[%b]}' % b",".join(page)
        function = METHODS.get(method)
        if function is None:
            raise Refused(404, "Not Found: method not found")
        if self.limits.on and method in LIMITED:
            self._check_limits(params)
        return b'{"ok":true,"result":%b}' % to_json(function(self.world, params))

    def _check_limits(self, params: Params) -> None:
        chat = self.world.find_chat(params.text("chat_id"))
        if seconds := self.limits.check(chat.id, is_group=chat.kind != "private"):
            raise too_many_requests(seconds)

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        if self.link_dead:
            return await self.never(request)
        path = request.match_info["path"]
        heard = Heard("file", {"path": path})
        try:
            self._check_token(request)
            stored = self.world.paths.get(path)
            if stored is None:
                raise Refused(404, "Not Found")
        except Refused as refusal:
            return self.tell(heard, _refusal(refusal))
        return await self.serve_file(request, heard, stored.content or bytes(stored.size), "application/octet-stream")


def _refusal(refusal: Refused) -> Answer:
    seconds = refusal.parameters.get("retry_after")
    headers = {**JSON, "Retry-After": str(seconds)} if seconds else JSON
    return Answer(refusal.code, refusal.wire, refusal.description, headers)


def _allowed(params: Params) -> list[str] | None:
    """What is no list of kinds of updates changes nothing, as on the real server."""
    try:
        given = params.data("allowed_updates")
    except Refused:
        return None
    return given if isinstance(given, list) and all(isinstance(kind, str) for kind in given) else None


def main(argv: list[str] | None = None) -> None:
    """Run as a process of its own, so that its memory outlives a bot that is killed."""
    parser = argparse.ArgumentParser(prog="python -m playground.telegram.server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="42:playground-token")
    parser.add_argument("--username", default="playground_bot")
    parser.add_argument("--no-privacy", action="store_true", help="the bot reads everything in groups")
    arguments = parser.parse_args(argv)
    try:
        asyncio.run(_serve(arguments))
    except KeyboardInterrupt:
        return


async def _serve(arguments: argparse.Namespace) -> None:
    server = TelegramServer(
        token=arguments.token, username=arguments.username, privacy=not arguments.no_privacy, port=arguments.port
    )
    await serve_until_killed(server, lambda: {"url": server.url, "token": server.token})


if __name__ == "__main__":
    main()
