"""Puts simcord behind the sockets of a Discord, so that a bot in another process can be driven by it.

simcord runs in its test's process, in the place of discord.py's connections. Here its world, its rules and its people
are used as they are, and what it would hand to discord.py goes over REST and a gateway on loopback instead.
A client of its own, which only watches, is what it needs to show messages by.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import discord
import simcord
from aiohttp import WSMsgType, web
from simcord.backend import Backend
from simcord.gateway import ShardRouter
from simcord.http import router

TOKEN = "simulated.bot.token"
_HEARTBEAT_MS = 41_250
_DISPATCH, _INVALID, _HELLO, _HEARD = 0, 9, 10, 11


class Gaps(Exception):
    """The bot asked for what simcord does not know."""


class SimulatedDiscord:
    def __init__(self, env: simcord.Env) -> None:
        self.env = env
        self.url = ""
        self.gaps: list[str] = []
        self.sessions = 0
        self._connections: list[web.Request] = []
        self._stirred = asyncio.Event()
        env.backend.subscribers.append(lambda event, data: self._stir())

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/v10"

    @property
    def bot(self) -> int:
        return self.env.backend.bot_user.id

    async def wait_for(self, condition: Callable[[], Any], *, seconds: float = 30.0) -> Any:
        """What becomes of a condition; looked at after every event and every request."""
        try:
            async with asyncio.timeout(seconds):
                while not (found := condition()):
                    stirred = self._stirred
                    await stirred.wait()
                return found
        except TimeoutError:
            raise AssertionError(f"it did not come; so far:\n{self.env.transcript()[-4000:]}") from None

    async def hear(self, channel: simcord.ChannelHandle, words: str) -> discord.Message:
        """A message of the bot's with these words, written so or edited to it."""

        def found() -> discord.Message | None:
            mine = (one for one in channel.history() if one.author.id == self.bot and not one.flags.ephemeral)
            return next((one for one in mine if words in one.content), None)

        message: discord.Message = await self.wait_for(found)
        return message

    def cut(self) -> None:
        """Every connection is gone without a word."""
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.abort()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/gateway", self._gateway)
        app.router.add_get("/api/v10/gateway/bot", self._where)
        app.router.add_route("*", "/api/v10/{path:.*}", self._rest)
        return app

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    # REST.

    async def _where(self, request: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": 1000 - self.sessions, "reset_after": 86_400_000, "max_concurrency": 1}
        return _answer({"url": self._gateway_url, "shards": 1, "session_start_limit": limit})

    async def _rest(self, request: web.Request) -> web.Response:
        # An interaction is answered by its own token.
        if request.headers.get("Authorization") != f"Bot {TOKEN}" and "/callback" not in request.path:
            return _answer({"message": "401: Unauthorized", "code": 0}, status=401)
        body, files = await _read(request)
        try:
            answer = router.dispatch(
                self.env.backend,
                request.method,
                "/" + request.match_info["path"],
                json=body,
                params=dict(request.query),
                files=files,
            )
        except (simcord.RouteNotImplemented, simcord.UnsupportedField) as gap:
            self.gaps.append(str(gap))
            return _answer(gap.to_json(), status=501)
        except simcord.BackendError as refusal:
            return _answer(refusal.to_json(), status=refusal.status)
        finally:
            self._stir()
        return web.Response(status=204) if answer is None else _answer(answer)

    # The gateway.

    @property
    def _gateway_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/gateway"

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._connections.append(request)
        frames = _Frames(self._gateway_url)
        frames.put(_HELLO, {"heartbeat_interval": _HEARTBEAT_MS})
        writing = asyncio.create_task(frames.write_to(socket))
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._hear(json.loads(message.data), frames)
        finally:
            writing.cancel()
            self._connections.remove(request)
            if frames.feed in self.env.backend.subscribers:
                self.env.backend.subscribers.remove(frames.feed)
        return socket

    def _hear(self, said: dict[str, Any], frames: "_Frames") -> None:
        match said["op"]:
            case 1:  # a heartbeat
                frames.put(_HEARD, None)
            case 2:  # who it is
                assert said["d"]["token"] == TOKEN
                self.sessions += 1
                frames.begin(self.env.backend, said["d"]["intents"])
                self._stir()
            case 6:  # a session to be taken up again; simcord keeps none
                frames.put(_INVALID, False)
            case _:
                self.gaps.append(f"gateway: {said}")


class _Frames:
    """What goes to one connection. Stands where simcord expects a client's state, for its intents and its parsers."""

    guilds = ()

    def __init__(self, resume_url: str) -> None:
        self.intents = discord.Intents.none()
        self.parsers = self  # one for each event
        self.feed: Callable[..., None] = lambda event, data: None
        self._resume_url = resume_url
        self._sequence = 0
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    def begin(self, backend: Backend, intents: int) -> None:
        self.intents = discord.Intents._from_value(intents)
        shards = ShardRouter(backend, self, None, 1, (0,))
        self.feed = shards.feed
        backend.subscribers.append(self.feed)
        shards.identify(0, replay_guilds=True)

    def __getitem__(self, event: str) -> Callable[[Any], None]:
        return partial(self._dispatch, event)

    def _dispatch(self, event: str, data: Any) -> None:
        if event == "READY":
            data["resume_gateway_url"] = self._resume_url
        self._sequence += 1
        self.put(_DISPATCH, data, t=event, s=self._sequence)

    def put(self, op: int, data: Any, **more: Any) -> None:
        self._queue.put_nowait(json.dumps({"op": op, "d": data, "t": None, "s": None} | more))

    async def write_to(self, socket: web.WebSocketResponse) -> None:
        while True:
            await socket.send_str(await self._queue.get())


def _answer(content: Any, status: int = 200) -> web.Response:
    # discord.py reads only what is of exactly this type, and takes the rest for a text.
    return web.Response(body=json.dumps(content).encode(), status=status, headers={"Content-Type": "application/json"})


async def _read(request: web.Request) -> tuple[Any, list[discord.File]]:
    if request.content_type == "application/json":
        return await request.json(), []
    if not request.content_type.startswith("multipart/"):
        return None, []
    form = await request.post()
    uploads = [part for part in form.values() if isinstance(part, web.FileField)]
    files = [discord.File(io.BytesIO(part.file.read()), filename=part.filename) for part in uploads]
    return json.loads(str(form["payload_json"])), files


@asynccontextmanager
async def simulated_discord() -> AsyncIterator[SimulatedDiscord]:
    """On loopback, until the end of the block. Raises Gaps there if the bot wanted what simcord does not know."""
    watcher = discord.Client(intents=discord.Intents.all())
    async with simcord.run(watcher) as env:
        await env.advance_time((datetime.now(UTC) - env.now()).total_seconds())  # its clock stands still until told
        made = SimulatedDiscord(env)
        runner = web.AppRunner(made.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield made
        finally:
            await runner.cleanup()
    if made.gaps:
        raise Gaps(made.gaps)
