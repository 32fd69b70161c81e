"""The base of a platform server on loopback: a port, a connection that can fail, and a log of calls.

A platform derives from `PlatformServer` and gives it its `world`, the `people` that tests play, and `Faults`. It adds
its routes in `add_routes` and says in `refuse` and `fail` how it words a refusal. A handler is:

    call = ApiCall("sendMessage", params, place=channel_id)
    return await self.serve(request, call, work)  # `work` is awaited for an `ApiAnswer` unless a fault comes first

`serve` takes the fault for (method, place), applies it, and logs the call.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

from playground.faults import Fault, Faults
from playground.wire import ApiRefusal, Wire
from playground.world import World

T = TypeVar("T")

JSON: Mapping[str, str] = {"Content-Type": "application/json"}
_HTML: Mapping[str, str] = {"Content-Type": "text/html"}
_CALLS_KEPT = 20_000


@dataclass(slots=True)
class ApiCall:
    """One call; `status` 0 means that no answer was given. `place` is the chat or channel, for faults of that alone."""

    method: str
    params: Wire = field(default_factory=dict)
    place: str = ""
    at: float = field(default_factory=time.time)
    status: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    status: int
    body: bytes
    description: str = ""  # the error, for the log
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


class PlatformServer(ABC):
    """Serves at `url` while the `with` block runs."""

    def __init__(self, *, world: World, people: object, faults: Faults[Any]) -> None:
        self.world = world
        self.people = people
        self.events = world.events
        self.faults = faults
        self.calls: deque[ApiCall] = deque(maxlen=_CALLS_KEPT)
        self.link_dead = False
        self.closing = asyncio.Event()
        self.port = 0  # known once it listens
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    @abstractmethod
    def add_routes(self, app: web.Application) -> None: ...

    @abstractmethod
    def refuse(self, refusal: Any, call: ApiCall) -> ApiAnswer:
        """Return a refusal in the words of the platform."""

    @abstractmethod
    def fail(self, fault: Fault) -> ApiAnswer:
        """Return the failure that a fault asks for, in the words of the platform."""

    @property
    def url(self) -> str:
        """Root of the server."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[self._ignore_when_dead])
        self.add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.resume()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        if self._runner:
            await self._runner.cleanup()

    async def pause(self) -> None:
        """Go down: stop listening and cut every connection."""
        if self._site:
            await self._site.stop()
            self._site = None
        assert self._runner
        assert self._runner.server
        for connection in self._runner.server.connections:
            if connection.transport:
                connection.transport.abort()
        self.events.note("server", state="down")

    async def resume(self) -> None:
        """Come up again on the same port; also repairs a half-open link."""
        self.link_dead = False
        if self._site is None and not self.closing.is_set():
            assert self._runner
            self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
            await self._site.start()
            self.port = self._runner.addresses[0][1]
        self.events.note("server", state="up")

    def half_open(self) -> None:
        """Accept connections, but read no request and answer none that is under way, until `resume`."""
        self.link_dead = True
        self.events.note("server", state="half_open")

    async def wait_for(self, condition: Callable[[], T], *, seconds: float = 5.0) -> T:
        """Check the condition after every event and return its value once that is true. Raises TimeoutError."""
        return await self.events.wait_for(condition, seconds=seconds)

    def called(self, method: str) -> list[ApiCall]:
        """Return the calls of one method, in order."""
        return [call for call in self.calls if call.method.lower() == method.lower()]

    def show(self, place: int | str, *, deleted: bool = False, thread: str = "") -> list[Wire]:
        """Return a chat as its people see it; with `thread`, which only Slack has, that thread alone."""
        shown = self.world.show(place, deleted=deleted)
        return [one for one in shown if not thread or thread in (one.get("ts"), one.get("thread"))]

    def texts(self, place: int | str, *, thread: str = "") -> list[str]:
        """Return the current texts of the bot's messages in this chat."""
        return [shown["text"] for shown in self.show(place, thread=thread) if shown["by_bot"]]

    async def wait_for_text(self, place: int | str, words: str, *, seconds: float = 5.0) -> Wire:
        """Wait for a message of the bot's with these words and return the newest. Raises TimeoutError."""

        def find_newest() -> Wire | None:
            for post in reversed(list(self.world.posts_in(place))):
                if post.by_bot and not post.deleted and words in post.words:
                    return post.body
            return None

        newest = await self.wait_for(find_newest, seconds=seconds)
        assert newest is not None
        return newest

    async def serve(
        self, request: web.Request, call: ApiCall, work: Callable[[], Awaitable[ApiAnswer]]
    ) -> web.StreamResponse:
        """Do the work and answer, unless a fault prevents it."""
        fault = self.faults.take(call.method.lower(), call.place)
        if (stopped := await self.hinder(request, call, fault)) is not None:
            return stopped
        try:
            answer = await work()
        except ApiRefusal as refusal:
            answer = self.refuse(refusal, call)
        if fault and fault.kind in ("hang_after", "cut_after"):
            return await self._lose(request, call, fault.kind)
        if self.link_dead:
            return await self._lose(request, call, "half_open")
        if fault and fault.kind == "garbage":
            answer = ApiAnswer(fault.status, fault.body.encode(), "garbage", _HTML)
        return self.tell(call, answer)

    async def hinder(self, request: web.Request, call: ApiCall, fault: Fault | None) -> web.StreamResponse | None:
        """Apply a fault that comes before the work: end the call, delay it, or do nothing."""
        if fault and fault.kind == "fail":
            return self.tell(call, self.fail(fault))
        if fault and fault.kind in ("hang", "cut"):
            return await self._lose(request, call, fault.kind)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        return None

    def tell(self, call: ApiCall, answer: ApiAnswer) -> web.Response:
        """Log the call and answer it."""
        self.log(call, answer.status, answer.description)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def _lose(self, request: web.Request, call: ApiCall, how: str) -> web.StreamResponse:
        """End the call so that the client never learns its result."""
        self.log(call, 0, how)
        return cut(request) if how.startswith("cut") else await self._never(request)

    async def _never(self, request: web.Request) -> web.StreamResponse:
        """Give no answer until the server closes; then cut the connection."""
        if request.transport and self.link_dead and isinstance(request.transport, asyncio.Transport):
            request.transport.pause_reading()
        self.events.note("silence", path=request.path.rpartition("/")[2])
        await self.closing.wait()
        return cut(request)

    @web.middleware
    async def _ignore_when_dead(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        return await self._never(request) if self.link_dead else await handler(request)

    def log(self, call: ApiCall, status: int, description: str = "") -> None:
        call.status, call.description = status, description
        self.calls.append(call)
        self.events.note("call", method=call.method, status=status, description=description)

    async def serve_file(
        self, request: web.Request, call: ApiCall, content: bytes, mime_type: str
    ) -> web.StreamResponse:
        """Serve a download; faults of calls apply to it, and `cut_after` breaks it in the middle."""
        fault = self.faults.take(call.method.lower(), call.place)
        if (stopped := await self.hinder(request, call, fault)) is not None:
            return stopped
        if fault and fault.kind == "hang_after":
            return await self._lose(request, call, fault.kind)
        self.log(call, 200)
        if not fault or fault.kind != "cut_after":
            return web.Response(body=content, content_type=mime_type)
        response = web.StreamResponse()
        response.content_length = len(content)
        await response.prepare(request)
        await response.write(content[: len(content) // 2])
        if request.transport:
            request.transport.close()
        return response


def cut(request: web.Request) -> web.Response:
    """Close the connection; the response that this returns reaches nobody."""
    if request.transport:
        request.transport.abort()
    return web.Response(status=503)
