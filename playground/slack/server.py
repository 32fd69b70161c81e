"""A strict Slack on loopback: bots use its Web API and Socket Mode, people are played through it.

It refuses what Slack refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import argparse
import asyncio
import hmac
from types import TracebackType

from aiohttp import web

from playground.events import EventLog
from playground.faults import Fault, Faults
from playground.slack.chat import CHAT
from playground.slack.control import SlackControl
from playground.slack.conversations import CONVERSATIONS
from playground.slack.files import FILES
from playground.slack.limits import Limits
from playground.slack.people import People
from playground.slack.request import Params, read_params, read_token
from playground.slack.rules import Refused, ratelimited
from playground.slack.scopes import USUAL, check_scope, scope_headers
from playground.slack.sockets import PUSHED_KINDS, Kind, Sockets
from playground.slack.subscriptions import Subscriptions
from playground.slack.world import World
from playground.stage import Answer, Heard, Stage, serve_until_killed
from playground.wire import Wire, to_json

METHODS = {**CHAT, **CONVERSATIONS, **FILES}
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_LOGIN = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in to Playground</body></html>"


class SlackServer(Stage):
    """Serves at `api_url` while the `with` block runs; `people` act, `world` shows, `faults` go wrong."""

    people: People
    faults: Faults[Kind]

    def __init__(
        self,
        *,
        bot_token: str = "xoxb-playground-token",  # noqa: S107 - of a bot that exists here alone
        app_token: str = "xapp-playground-token",  # noqa: S107
        bot_name: str = "playground_bot",
        limits: bool = False,
        port: int = 0,
        keep_calls: int = 20_000,
    ) -> None:
        if not bot_token.startswith("xoxb-") or not app_token.startswith("xapp-"):
            raise ValueError("a bot token begins with xoxb-, an app token with xapp-")
        events, faults = EventLog(), Faults[Kind](PUSHED_KINDS)
        self.bot_token, self.app_token = bot_token, app_token
        self.world = World(bot_name=bot_name, events=events, root=lambda: self.url)
        self.world.scopes = USUAL
        self.sockets = Sockets(events=events, faults=faults, app_id=self.world.app_id)
        self.subscriptions = Subscriptions(self.world, self.sockets)
        self.limits = Limits(on=limits)
        self.token_state = ""  # or the error that the bot's token gets
        super().__init__(
            people=People(self.world, self.sockets), events=events, faults=faults, port=port, keep_calls=keep_calls
        )

    @property
    def api_url(self) -> str:
        """The `base_url` of a client."""
        return f"{self.url}/api/"

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/api/{method}", self._serve_method)
        app.router.add_get("/link", self._serve_socket)
        app.router.add_route("*", "/upload/v1/{file_id}", self._serve_upload)
        app.router.add_get("/files-pri/{name:.+}", self._serve_download)
        app.router.add_post("/commands/{team}/{key}", self._serve_response)
        app.router.add_post("/actions/{team}/{key}", self._serve_response)
        app.router.add_get("/", _serve_login)
        SlackControl(self, self).add_routes(app)

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

    def refusal(self, fault: Fault) -> Answer:
        """`description` is the error; a status of 500 without one is a broken server."""
        status = fault.failure_status
        if fault.retry_after:
            refused = ratelimited(max(1, round(fault.retry_after)))
            return self._refused(refused)
        if fault.description:
            return self._refused(Refused(fault.description, status=200 if status == 500 else status, **fault.extra))
        return Answer(status, b"upstream connect error", f"HTTP {status}", {"Content-Type": "text/plain"})

    def show(self, channel: str, *, deleted: bool = False, thread: str = "") -> list[Wire]:
        return self.world.show(channel, deleted=deleted, thread=thread)

    def texts(self, channel: str, *, thread: str = "") -> list[str]:
        """What the bot's messages in this channel say now, those for one user alone too."""
        return [shown["text"] for shown in self.show(channel, thread=thread) if shown["by_bot"]]

    async def wait_for_text(self, channel: str, words: str, *, seconds: float = 5.0) -> Wire:
        """The bot's newest message in this channel that says so, as soon as there is one. Raises TimeoutError."""

        def newest() -> Wire | None:
            place = self.world.channels[channel]
            for post in (*reversed(place.posts.values()), *reversed(place.ephemeral)):
                if post.by_bot and not post.deleted and words in post.words:
                    return post.body
            return None

        found = await self.wait_for(newest, seconds=seconds)
        assert found is not None
        return found

    async def wait_for_socket(self, count: int = 1, *, seconds: float = 5.0) -> None:
        """Until so many sockets are open."""
        await self.wait_for(lambda: len(self.sockets.open) >= count, seconds=seconds)

    async def _serve_method(self, request: web.Request) -> web.StreamResponse:
        if self.link_dead:
            return await self.never(request)
        heard = Heard(request.match_info["method"])
        try:
            params = await read_params(request)
            heard.params = params.logged
            heard.place = params.text("channel") or params.text("channel_id")
            self._check_token(heard.method, read_token(request, params))
        except Refused as refused:
            return self.tell(heard, self._refused(refused, heard.method))

        async def work() -> Answer:
            try:
                return Answer(
                    200, to_json({"ok": True, **self._run(heard.method, params)}), "", self._headers(heard.method)
                )
            except Refused as refused:
                return self._refused(refused, heard.method)

        return await self.serve(request, heard, work)

    def _run(self, method: str, params: Params) -> Wire:
        if method == "apps.connections.open":
            self._check_limits(method, params)
            address = self.url.replace("http", "ws", 1)
            return {"url": f"{address}/link?ticket={self.sockets.new_ticket()}&app_id={self.world.app_id}"}
        function = METHODS.get(method)
        if function is None:
            raise Refused("unknown_method", req_method=method)
        check_scope(method, self.world.scopes)
        self._check_limits(method, params)
        return function(self.world, params)

    def _check_limits(self, method: str, params: Params) -> None:
        if seconds := self.limits.check(method, params.text("channel")):
            raise ratelimited(seconds)

    def _check_token(self, method: str, token: str) -> None:
        if not token:
            raise Refused("not_authed")
        is_app, is_bot = (hmac.compare_digest(token.encode(), one.encode()) for one in (self.app_token, self.bot_token))
        if not is_app and not is_bot:
            raise Refused("invalid_auth")
        if is_app != (method == "apps.connections.open"):
            raise Refused("not_allowed_token_type")
        if is_bot and self.token_state:
            raise Refused(self.token_state)

    def _headers(self, method: str) -> dict[str, str]:
        scopes = frozenset(("connections:write",)) if method == "apps.connections.open" else self.world.scopes
        return {**_JSON, **scope_headers(method, scopes)}

    def _refused(self, refused: Refused, method: str = "") -> Answer:
        headers = {**(self._headers(method) if method else _JSON), **refused.headers}
        return Answer(refused.status, to_json(refused.wire), refused.error, headers)

    async def _serve_socket(self, request: web.Request) -> web.StreamResponse:
        return await self.never(request) if self.link_dead else await self.sockets.serve(request)

    async def _serve_upload(self, request: web.Request) -> web.StreamResponse:
        if self.link_dead:
            return await self.never(request)
        stored = self.world.files.get(request.match_info["file_id"])
        content = await _uploaded(request)
        heard = Heard("upload", {"file_id": request.match_info["file_id"], "bytes": len(content)})

        async def work() -> Answer:
            plain = {"Content-Type": "text/plain"}
            if stored is None or stored.shared or stored.size != len(content):
                return Answer(400, b"no such upload, or another length", "bad upload", plain)
            stored.content = content
            return Answer(200, b"OK - %d" % len(content), "", plain)

        return await self.serve(request, heard, work)

    async def _serve_download(self, request: web.Request) -> web.StreamResponse:
        """The bytes for the bot's token; anyone else is sent to the page to sign in, as in reality."""
        if self.link_dead:
            return await self.never(request)
        name = request.match_info["name"]
        stored = self.world.files.get(name.partition("/")[0].rpartition("-")[2])
        heard = Heard("file", {"name": name})
        try:
            self._check_token("file", read_token(request, Params({})))
            check_scope("files.info", self.world.scopes)
        except Refused as refused:
            self.log(heard, 302, refused.error)
            return web.Response(status=302, headers={"Location": f"{self.url}/?redir=%2Ffiles-pri%2F{name}"})
        if stored is None or stored.content is None:
            return self.tell(heard, Answer(404, b"<html>404</html>", "no such file", {"Content-Type": "text/html"}))
        return await self.serve_file(request, heard, stored.content, stored.mime_type)

    async def _serve_response(self, request: web.Request) -> web.StreamResponse:
        if self.link_dead:
            return await self.never(request)
        params = await read_params(request)
        heard = Heard("response_url", params.logged)

        async def work() -> Answer:
            try:
                self.people.responses.use(request.match_info["key"], dict(params.values))
            except Refused as refused:
                return self._refused(refused)
            return Answer(200, b"ok", "", {"Content-Type": "text/html"})

        return await self.serve(request, heard, work)


async def _uploaded(request: web.Request) -> bytes:
    """Raw, or the one file of a form."""
    if request.content_type != "multipart/form-data":
        return await request.read()
    for value in (await request.post()).values():
        if isinstance(value, web.FileField):
            return value.file.read()
    return b""


async def _serve_login(request: web.Request) -> web.Response:
    return web.Response(text=_LOGIN, content_type="text/html")


def main(argv: list[str] | None = None) -> None:
    """Run as a process of its own, so that its memory outlives a bot that is killed."""
    parser = argparse.ArgumentParser(prog="python -m playground.slack.server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bot-token", default="xoxb-playground-token")
    parser.add_argument("--app-token", default="xapp-playground-token")
    parser.add_argument("--bot-name", default="playground_bot")
    given = parser.parse_args(argv)
    try:
        asyncio.run(_serve(given))
    except KeyboardInterrupt:
        return


async def _serve(given: argparse.Namespace) -> None:
    server = SlackServer(bot_token=given.bot_token, app_token=given.app_token, bot_name=given.bot_name, port=given.port)
    tokens = {"bot_token": server.bot_token, "app_token": server.app_token}
    await serve_until_killed(server, lambda: {"url": server.url, "api_url": server.api_url, **tokens})


if __name__ == "__main__":
    main()
