"""A strict Telegram Bot API server on loopback: bots talk to it over HTTP, people are played through it.

It refuses what Telegram refuses, in its words, and can fail in every way a network can. State lives in memory.
"""

import argparse
import asyncio
import hmac
import json
import re
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from aiohttp import web

from playground.telegram.control import add_control_routes
from playground.telegram.faults import Fault, Faults
from playground.telegram.limits import Limits
from playground.telegram.methods import LIMITED, METHODS
from playground.telegram.people import People
from playground.telegram.request import Params, read_params
from playground.telegram.rules import Refused, Wire, to_json, too_many_requests
from playground.telegram.world import User, World

T = TypeVar("T")

_TOKEN = re.compile(r"[1-9]\d{0,15}:[\w-]{3,}", re.ASCII)
_JSON = {"Content-Type": "application/json"}
_HTML = {"Content-Type": "text/html"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One method call as it was answered; `status` 0 means that no answer was given."""

    method: str
    params: Wire
    at: float
    status: int
    description: str = ""


@dataclass(slots=True)
class _Heard:
    """A call that is being served."""

    method: str
    params: Params = field(default_factory=lambda: Params({}))
    at: float = field(default_factory=time.time)


class TelegramServer:
    """Serves at `url` while the `with` block runs; `people` act, `world` shows, `faults` go wrong."""

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
        self.people = People(self.world)
        self.faults = Faults()
        self.limits = Limits(on=limits)
        self.calls: deque[Call] = deque(maxlen=keep_calls)
        self.world.updates.duplicate_as = self.faults.take_duplicate
        self.world.updates.real_pacing = limits
        self._port = port
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._closing = asyncio.Event()
        self._link_dead = False

    @property
    def url(self) -> str:
        """Root of the server; the base URL of a bot is this and `/bot`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/bot{token:[^/]+}/{method:[^/]*}", self._serve_method)
        app.router.add_get("/file/bot{token:[^/]+}/{path:.+}", self._serve_file)
        add_control_routes(app, self)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.resume()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._runner:
            await self._runner.cleanup()

    async def pause(self) -> None:
        """The server is down: nobody listens, and every connection is cut."""
        if self._site:
            await self._site.stop()
            self._site = None
        assert self._runner
        assert self._runner.server
        for connection in self._runner.server.connections:
            if connection.transport:
                connection.transport.abort()
        self.world.events.note("server", state="down")

    async def resume(self) -> None:
        """Up again, on the same port; also mends a half-open link."""
        self._link_dead = False
        if self._site is None and not self._closing.is_set():
            assert self._runner
            self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
            await self._site.start()
            self._port = self._runner.addresses[0][1]
        self.world.events.note("server", state="up")

    def half_open(self) -> None:
        """Bots can connect, but nothing they ask is read, nor what is under way answered, until `resume`."""
        self._link_dead = True
        self.world.events.note("server", state="half_open")

    async def wait_for(self, condition: Callable[[], T], *, seconds: float = 5.0) -> T:
        """What the condition gives once it is true; it is looked at after every event. Raises TimeoutError."""
        return await self.world.events.wait_for(condition, seconds=seconds)

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

    def called(self, method: str) -> list[Call]:
        """The calls of one method, in order."""
        return [call for call in self.calls if call.method.lower() == method.lower()]

    async def _serve_method(self, request: web.Request) -> web.StreamResponse:
        if self._link_dead:
            return await self._never(request)
        heard = _Heard(request.match_info["method"])
        fault: Fault | None = None
        try:
            self._check_token(request)
            heard.params = await read_params(request)
            fault = self.faults.take(heard.method.lower(), heard.params.text("chat_id"))
            if fault and fault.kind in ("hang", "cut"):
                return await self._lose(request, heard, fault.kind)
            await _hinder(fault)
            status, body, description = 200, await self._run(heard.method.lower(), heard.params), ""
            headers = _JSON
        except Refused as refusal:
            status, body, description = refusal.code, refusal.wire, refusal.description
            headers = _refusal_headers(refusal)
        if fault and fault.kind in ("hang_after", "cut_after"):
            return await self._lose(request, heard, fault.kind)
        if self._link_dead:
            return await self._lose(request, heard, "half_open")
        if fault and fault.kind == "garbage":
            status, body, description, headers = fault.status, fault.body.encode(), "garbage", _HTML
        self._log(heard, status, description)
        return web.Response(status=status, body=body, headers=headers)

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

    async def _lose(self, request: web.Request, heard: _Heard, how: str) -> web.StreamResponse:
        """The client never learns what became of its call."""
        self._log(heard, 0, how)
        return _cut(request) if how.startswith("cut") else await self._never(request)

    async def _never(self, request: web.Request) -> web.StreamResponse:
        """No answer until the server closes; then the connection is cut."""
        if request.transport and self._link_dead and isinstance(request.transport, asyncio.Transport):
            request.transport.pause_reading()
        self.world.events.note("silence", path=request.path.rpartition("/")[2])
        await self._closing.wait()
        return _cut(request)

    def _log(self, heard: _Heard, status: int, description: str) -> None:
        method, params = heard.method, heard.params.logged
        self.calls.append(Call(method=method, params=params, at=heard.at, status=status, description=description))
        self.world.events.note("call", method=method, status=status, description=description)

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        if self._link_dead:
            return await self._never(request)
        path = request.match_info["path"]
        heard, fault = _Heard("file", Params({"path": path})), self.faults.take("file", "")
        try:
            self._check_token(request)
            if fault and fault.kind in ("hang", "cut"):
                return await self._lose(request, heard, fault.kind)
            await _hinder(fault)
            stored = self.world.paths.get(path)
            if stored is None:
                raise Refused(404, "Not Found")
        except Refused as refusal:
            self._log(heard, refusal.code, refusal.description)
            return web.Response(status=refusal.code, body=refusal.wire, headers=_JSON)
        self._log(heard, 200, "")
        if fault and fault.kind == "cut_after":
            return await _half(request, stored.content or b"")
        return web.Response(body=stored.content or bytes(stored.size), content_type="application/octet-stream")


async def _hinder(fault: Fault | None) -> None:
    """Refuse or delay before anything is done."""
    if fault and fault.kind == "fail":
        raise fault.refusal
    if fault and fault.kind == "slow":
        await asyncio.sleep(fault.seconds)


def _refusal_headers(refusal: Refused) -> dict[str, str]:
    seconds = refusal.parameters.get("retry_after")
    return {**_JSON, "Retry-After": str(seconds)} if seconds else _JSON


def _allowed(params: Params) -> list[str] | None:
    """What is no list of kinds of updates changes nothing, as on the real server."""
    try:
        given = params.data("allowed_updates")
    except Refused:
        return None
    return given if isinstance(given, list) and all(isinstance(kind, str) for kind in given) else None


def _cut(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response(status=503)


async def _half(request: web.Request, content: bytes) -> web.StreamResponse:
    """The connection breaks in the middle of a download."""
    response = web.StreamResponse()
    response.content_length = len(content)
    await response.prepare(request)
    await response.write(content[: len(content) // 2])
    if request.transport:
        request.transport.close()
    return response


async def _serve_until_killed(arguments: argparse.Namespace) -> None:
    async with TelegramServer(
        token=arguments.token, username=arguments.username, privacy=not arguments.no_privacy, port=arguments.port
    ) as server:
        sys.stdout.write(json.dumps({"url": server.url, "token": server.token}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main(argv: list[str] | None = None) -> None:
    """Run as a process of its own, so that its memory outlives a bot that is killed."""
    parser = argparse.ArgumentParser(prog="python -m playground.telegram.server", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="42:playground-token")
    parser.add_argument("--username", default="playground_bot")
    parser.add_argument("--no-privacy", action="store_true", help="the bot reads everything in groups")
    try:
        asyncio.run(_serve_until_killed(parser.parse_args(argv)))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
