"""Two connections in Socket Mode at once, so that one may end while the other listens.

Not the SDK's client: it hides a refused token in its log and tries for ever, closes a socket before it opens the next,
answers on whichever socket is newest, and owns none of the tasks it starts.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine

import aiohttp
import structlog
from aiohttp import ClientWebSocketResponse, WSMsgType

from gateway.errors import GatewayError, PlatformAuthFailed, PlatformUnavailable
from gateway.platforms.slack.errors import hearing_problem
from gateway.platforms.slack.web_api import Api, SlackProblem, Wire
from gateway.policies.backoff import backoff_seconds

log = structlog.get_logger()

_AT_ONCE = 2
_PING_SECONDS = 10.0
_DEAD_SECONDS = 25.0  # nothing heard for so long, though Slack was asked twice
_HELLO_SECONDS = 10.0
_LEAVING_SECONDS = 30.0  # Slack closes a socket some ten seconds after it has said so
_SHORT_LIFE_SECONDS = 10.0
_TOO_MANY_SECONDS = 30.0

Take = Callable[[Wire], Awaitable[Wire | None]]
"""Gives what the acknowledgement says, or None when there must not be one: then Slack brings the envelope again."""


class Sockets:
    def __init__(
        self,
        api: Api,
        *,
        account: str,
        variable: str,
        take: Take,
        heard: Callable[[], None],
        missed: Callable[[], None],
    ) -> None:
        """`missed` is called when something may never come: a socket broke, or one opened after there was none."""
        self._api = api
        self._account = account
        self._variable = variable
        self._take = take
        self._heard = heard
        self._missed = missed
        self._open: set[SlackSocket] = set()
        self._has_opened = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Future[Exception] | None = None

    async def run(self) -> None:
        """Until cancelled. Raises PlatformUnavailable when none is left, PlatformAuthFailed, and what `take` raises."""
        self._ending = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            self._start(group, self._keep_all(group), "keep slack sockets")
            problem = await self._ending
            for task in self._tasks:
                task.cancel()
        raise problem

    def _start(self, group: asyncio.TaskGroup, work: Coroutine[object, None, None], name: str) -> None:
        task = group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_all(self, group: asyncio.TaskGroup) -> None:
        """The first alone: as long as there is none, a failure of another would look like the end of all."""
        self._start(group, self._keep_one(group), "slack socket 1")
        await self._has_opened.wait()
        for number in range(2, _AT_ONCE + 1):
            self._start(group, self._keep_one(group), f"slack socket {number}")

    async def _keep_one(self, group: asyncio.TaskGroup) -> None:
        """Opens another whenever one ends, and before it ends if Slack says so in time."""
        failures = 0
        while True:
            began = time.monotonic()
            problem = await self._one(group)
            if problem is not None and (not self._open or isinstance(problem, PlatformAuthFailed)):
                self._end(problem)
                return
            failures = failures + 1 if problem is not None or time.monotonic() - began < _SHORT_LIFE_SECONDS else 0
            wish = problem.retry_after if isinstance(problem, PlatformUnavailable) else None
            if problem is not None:
                log.warning("one of two lines is missing", account=self._account, problem=str(problem))
            if failures:
                await asyncio.sleep(wish if wish is not None else backoff_seconds(failures))

    async def _one(self, group: asyncio.TaskGroup) -> GatewayError | None:
        """From its beginning until another is needed in its place; why, if that was not Slack's plan."""
        try:
            link = await self._api.open_socket()
        except SlackProblem as error:
            return hearing_problem(error, self._variable)
        socket = SlackSocket(link, take=self._take, heard=self._heard, failed=self._end)
        if await socket.said_hello():
            was_deaf = not self._open
            self._open.add(socket)
            self._heard()
            self._has_opened.set()
            if was_deaf:
                self._missed()
            self._start(group, socket.read(), "read a slack socket")
            await socket.leaving.wait()
            self._open.discard(socket)
            if not socket.broke and socket.goodbye not in _TROUBLE:
                return None
            self._missed()
        else:
            await link.close()
        return _meaning(socket.goodbye)

    def _end(self, problem: Exception) -> None:
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(problem)


class SlackSocket:
    def __init__(
        self,
        link: ClientWebSocketResponse,
        *,
        take: Take,
        heard: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.leaving = asyncio.Event()  # it ends soon, or has ended
        self.broke = False  # ended without a word
        self.goodbye = ""  # Slack's reason
        self._link = link
        self._take = take
        self._heard = heard
        self._failed = failed
        self._until = float("inf")

    async def said_hello(self) -> bool:
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                while True:
                    message = await self._hear()
                    if message is None or message.get("type") == "disconnect":
                        return False
                    if message.get("type") == "hello":
                        return True
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False

    async def read(self) -> None:
        """Until it ends. What is being taken then goes on; only the acknowledgement is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                pinging = group.create_task(self._ping(), name="ping slack")
                await self._read(group)
                pinging.cancel()
                self.broke = not self.leaving.is_set()
                self.leaving.set()  # at once: another is needed, however long the rest takes
        finally:
            await self._link.close()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        while time.monotonic() < self._until:
            try:
                async with asyncio.timeout(_DEAD_SECONDS):
                    message = await self._hear()
            except (TimeoutError, aiohttp.ClientError, OSError):
                return
            if message is None:
                return
            self._heard()
            if message.get("type") == "disconnect":
                self._until = time.monotonic() + _LEAVING_SECONDS
                self.leaving.set()
            elif message.get("envelope_id"):
                group.create_task(self._answer(message), name="take a slack envelope")

    async def _hear(self) -> Wire | None:
        """The next message, empty for signs of life; None when there will be no more."""
        frame = await self._link.receive()
        match frame.type:
            case WSMsgType.TEXT:
                return self._parsed(frame.data)
            case WSMsgType.PING:
                await self._link.pong(frame.data)
                return {}
            case WSMsgType.PONG | WSMsgType.BINARY:
                return {}
            case _:
                return None

    def _parsed(self, data: str) -> Wire:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(message, dict):
            return {}
        if message.get("type") == "disconnect":
            self.goodbye = str(message.get("reason") or "")
        return message

    async def _answer(self, envelope: Wire) -> None:
        try:
            said = await self._take(envelope)
        except Exception as error:  # noqa: BLE001 - handed on: out of this group it would come as one
            self._failed(error)
            return
        if said is None:
            return
        answer = {"envelope_id": envelope["envelope_id"], **({"payload": said} if said else {})}
        try:
            await self._link.send_str(json.dumps(answer))
        except (aiohttp.ClientError, OSError):
            return  # it comes again, and is known then

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            try:
                await self._link.ping()
            except (aiohttp.ClientError, OSError):
                return  # reading will tell


_TROUBLE = ("link_disabled", "too_many_websockets")


def _meaning(goodbye: str) -> GatewayError:
    if goodbye == "link_disabled":
        return PlatformAuthFailed(
            "Socket Mode is switched off; switch it on at api.slack.com/apps under Socket Mode and start Hermes again"
        )
    if goodbye == "too_many_websockets":
        return PlatformUnavailable(
            "ten connections are open with this app token already; another program uses it too",
            retry_after=_TOO_MANY_SECONDS,
        )
    return PlatformUnavailable("the connection to Slack broke")
