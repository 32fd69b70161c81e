"""What a platform server on loopback is made of: a port, a line that can fail, a log of calls.

A new platform derives from `Stage` and gives it its `people` (every public method becomes an action of the control
API), an `EventLog` and `Faults`; class annotations (`people: People`, `faults: Faults[Kind]`) narrow the types. It adds
its routes in `add_routes`, with `Control(self).add_routes(app)` or a subclass that has more routes, and says in
`refusal` how it words a failure made by a fault. A handler is four steps:

    if self.link_dead:
        return await self.never(request)  # before anything is read
    heard = Heard("sendMessage", params, place=channel_id)
    # what is refused before faults count, such as a wrong token: return self.tell(heard, Answer(401, …))
    return await self.serve(request, heard, work)  # `work` is awaited for an `Answer` unless a fault comes before it

`serve` takes the fault for (method, place), does what it says, and logs the call.
"""

import asyncio
import json
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

from playground.events import EventLog
from playground.faults import Fault, Faults
from playground.wire import Wire

T = TypeVar("T")

JSON: Mapping[str, str] = {"Content-Type": "application/json"}
_HTML: Mapping[str, str] = {"Content-Type": "text/html"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One method call as it was answered; `status` 0 means that no answer was given."""

    method: str
    params: Wire
    at: float
    status: int
    description: str = ""


@dataclass(slots=True)
class Heard:
    """A call that is being served; `place` is the chat or channel, for faults of that alone."""

    method: str
    params: Wire = field(default_factory=dict)
    place: str = ""
    at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    description: str = ""  # for the log: what went wrong
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


class Stage(ABC):
    """Serves at `url` while the `with` block runs."""

    def __init__(
        self, *, people: object, events: EventLog, faults: Faults[Any], port: int = 0, keep_calls: int = 20_000
    ) -> None:
        self.people = people
        self.events = events
        self.faults = faults
        self.calls: deque[Call] = deque(maxlen=keep_calls)
        self.link_dead = False
        self.closing = asyncio.Event()
        self._port = port
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None

    @abstractmethod
    def add_routes(self, app: web.Application) -> None: ...

    @abstractmethod
    def refusal(self, fault: Fault) -> Answer:
        """A failure that a fault asks for, in the words of the platform."""

    @property
    def url(self) -> str:
        """Root of the server."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
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
        """The server is down: nobody listens, and every connection is cut."""
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
        """Up again, on the same port; also mends a half-open link."""
        self.link_dead = False
        if self._site is None and not self.closing.is_set():
            assert self._runner
            self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
            await self._site.start()
            self._port = self._runner.addresses[0][1]
        self.events.note("server", state="up")

    def half_open(self) -> None:
        """Bots can connect, but nothing they ask is read, nor what is under way answered, until `resume`."""
        self.link_dead = True
        self.events.note("server", state="half_open")

    async def wait_for(self, condition: Callable[[], T], *, seconds: float = 5.0) -> T:
        """What the condition gives once it is true; it is looked at after every event. Raises TimeoutError."""
        return await self.events.wait_for(condition, seconds=seconds)

    def called(self, method: str) -> list[Call]:
        """The calls of one method, in order."""
        return [call for call in self.calls if call.method.lower() == method.lower()]

    async def serve(
        self, request: web.Request, heard: Heard, work: Callable[[], Awaitable[Answer]]
    ) -> web.StreamResponse:
        """Do the work and answer, unless a fault wants otherwise."""
        fault = self.faults.take(heard.method.lower(), heard.place)
        if (stopped := await self.hinder(request, heard, fault)) is not None:
            return stopped
        answer = await work()
        if fault and fault.kind in ("hang_after", "cut_after"):
            return await self.lose(request, heard, fault.kind)
        if self.link_dead:
            return await self.lose(request, heard, "half_open")
        if fault and fault.kind == "garbage":
            answer = Answer(fault.status, fault.body.encode(), "garbage", _HTML)
        return self.tell(heard, answer)

    async def hinder(self, request: web.Request, heard: Heard, fault: Fault | None) -> web.StreamResponse | None:
        """What a fault does before any work is done: the end of the call, a delay, or nothing."""
        if fault and fault.kind == "fail":
            return self.tell(heard, self.refusal(fault))
        if fault and fault.kind in ("hang", "cut"):
            return await self.lose(request, heard, fault.kind)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        return None

    def tell(self, heard: Heard, answer: Answer) -> web.Response:
        """Log the call and answer it."""
        self.log(heard, answer.status, answer.description)
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    async def lose(self, request: web.Request, heard: Heard, how: str) -> web.StreamResponse:
        """The client never learns what became of its call."""
        self.log(heard, 0, how)
        return cut(request) if how.startswith("cut") else await self.never(request)

    async def never(self, request: web.Request) -> web.StreamResponse:
        """No answer until the server closes; then the connection is cut."""
        if request.transport and self.link_dead and isinstance(request.transport, asyncio.Transport):
            request.transport.pause_reading()
        self.events.note("silence", path=request.path.rpartition("/")[2])
        await self.closing.wait()
        return cut(request)

    def log(self, heard: Heard, status: int, description: str = "") -> None:
        call = Call(method=heard.method, params=heard.params, at=heard.at, status=status, description=description)
        self.calls.append(call)
        self.events.note("call", method=heard.method, status=status, description=description)

    async def serve_file(
        self, request: web.Request, heard: Heard, content: bytes, mime_type: str
    ) -> web.StreamResponse:
        """A download; the faults of calls work on it, and `cut_after` breaks it in the middle."""
        fault = self.faults.take(heard.method.lower(), heard.place)
        if (stopped := await self.hinder(request, heard, fault)) is not None:
            return stopped
        if fault and fault.kind == "hang_after":
            return await self.lose(request, heard, fault.kind)
        self.log(heard, 200)
        if fault and fault.kind == "cut_after":
            return await _half(request, content)
        return web.Response(body=content, content_type=mime_type)


def cut(request: web.Request) -> web.Response:
    """The connection is gone; what is returned reaches nobody."""
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


async def serve_until_killed(server: Stage, describe: Callable[[], Wire]) -> None:
    """Run as a process of its own, so that its memory outlives a bot that is killed; one line of JSON says where."""
    async with server:
        sys.stdout.write(json.dumps(describe()) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()
