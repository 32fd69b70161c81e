"""Socket Mode: two connections at once, so that one may end while the other listens.

The connections are not those of the SDK's client: it hides a refused token in its log and retries for ever, closes a
socket before it opens the next, answers on whichever socket is newest, and owns none of the tasks it starts.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import structlog
from aiohttp import ClientWebSocketResponse, WSMsgType

from gateway.errors import GatewayError, PlatformAuthFailed, PlatformUnavailable
from gateway.platforms.slack.errors import translate_listening_error
from gateway.platforms.slack.web_api import SlackProblem, SlackWebApi, Wire
from gateway.platforms.transport import first_error
from gateway.policies.backoff import backoff_seconds

log = structlog.get_logger()

_AT_ONCE = 2
_PING_SECONDS = 10.0
_DEAD_SECONDS = 25.0  # without a frame, though Slack was pinged twice
_HELLO_SECONDS = 10.0
_LEAVING_SECONDS = 30.0  # Slack closes a socket about ten seconds after it announced it
_SHORT_LIFE_SECONDS = 10.0
_TOO_MANY_SECONDS = 30.0

Take = Callable[[Wire], Awaitable[Wire | None]]
"""Return the payload of the acknowledgement, or None to send none: then Slack sends the envelope again."""

_TROUBLE = ("link_disabled", "too_many_websockets")


@dataclass(slots=True, eq=False)
class SocketPool:
    """The open sockets of an account."""

    api: SlackWebApi
    account: str
    variable: str
    take: Take
    alive: Callable[[], None]
    on_gap: Callable[[], None]  # called when events may be lost: a socket broke, or one opened after there was none
    _open: set["SlackSocket"] = field(default_factory=set)
    _has_opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Run until cancelled. Raises PlatformUnavailable (none is left), PlatformAuthFailed, or what `take` raises."""
        with first_error():
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_slot(group), name="slack socket 1")
                # Alone: until it is open, the failure of another would look like the end of all.
                await self._has_opened.wait()
                for number in range(2, _AT_ONCE + 1):
                    group.create_task(self._run_slot(group), name=f"slack socket {number}")

    async def _run_slot(self, group: asyncio.TaskGroup) -> None:
        """Open another socket whenever one ends, or before that if Slack announces it."""
        failures = 0
        while True:
            began = time.monotonic()
            problem = await self._run_socket(group)
            if problem is not None and (not self._open or isinstance(problem, PlatformAuthFailed)):
                raise problem
            failures = failures + 1 if problem is not None or time.monotonic() - began < _SHORT_LIFE_SECONDS else 0
            wish = problem.retry_after if isinstance(problem, PlatformUnavailable) else None
            if problem is not None:
                log.warning("one of two connections is missing", account=self.account, problem=str(problem))
            if failures:
                await asyncio.sleep(wish if wish is not None else backoff_seconds(failures))

    async def _run_socket(self, group: asyncio.TaskGroup) -> GatewayError | None:
        """Run a socket until it must be replaced; return the reason unless Slack planned it."""
        try:
            link = await self.api.open_socket()
        except SlackProblem as error:
            return translate_listening_error(error, self.variable)
        socket = SlackSocket(link, take=self.take, alive=self.alive)
        if await socket.wait_for_hello():
            was_disconnected = not self._open
            self._open.add(socket)
            self.alive()
            self._has_opened.set()
            if was_disconnected:
                self.on_gap()
            group.create_task(socket.read(), name="read a slack socket")
            await socket.leaving.wait()
            self._open.discard(socket)
            if not socket.broke and socket.goodbye not in _TROUBLE:
                return None
            self.on_gap()
        else:
            await link.close()
        return _explain_goodbye(socket.goodbye)


@dataclass(slots=True, eq=False)
class SlackSocket:
    """One connection in Socket Mode."""

    link: ClientWebSocketResponse
    take: Take
    alive: Callable[[], None]
    leaving: asyncio.Event = field(default_factory=asyncio.Event)  # set when it ends soon, or has ended
    broke: bool = False  # ended unannounced
    goodbye: str = ""  # Slack's reason
    _until: float = float("inf")

    async def wait_for_hello(self) -> bool:
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                while True:
                    message = await self._receive()
                    if message is None or message.get("type") == "disconnect":
                        return False
                    if message.get("type") == "hello":
                        return True
        except (TimeoutError, aiohttp.ClientError, OSError):
            return False

    async def read(self) -> None:
        """Read until it ends. Running handlers go on; only their acknowledgement is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                pinging = group.create_task(self._ping(), name="ping slack")
                await self._read(group)
                pinging.cancel()
                self.broke = not self.leaving.is_set()
                self.leaving.set()  # at once: another is needed, however long the handlers take
        finally:
            await self.link.close()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        while time.monotonic() < self._until:
            try:
                async with asyncio.timeout(_DEAD_SECONDS):
                    message = await self._receive()
            except (TimeoutError, aiohttp.ClientError, OSError):
                return
            if message is None:
                return
            self.alive()
            if message.get("type") == "disconnect":
                self._until = time.monotonic() + _LEAVING_SECONDS
                self.leaving.set()
            elif message.get("envelope_id"):
                group.create_task(self._handle_envelope(message), name="take a slack envelope")

    async def _receive(self) -> Wire | None:
        """Return the next message, empty for pings and the like; None at the end."""
        frame = await self.link.receive()
        match frame.type:
            case WSMsgType.TEXT:
                return self._parse_frame(frame.data)
            case WSMsgType.PING:
                await self.link.pong(frame.data)
                return {}
            case WSMsgType.PONG | WSMsgType.BINARY:
                return {}
            case _:
                return None

    def _parse_frame(self, data: str) -> Wire:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(message, dict):
            return {}
        if message.get("type") == "disconnect":
            self.goodbye = str(message.get("reason") or "")
        return message

    async def _handle_envelope(self, envelope: Wire) -> None:
        said = await self.take(envelope)
        if said is None:
            return
        answer = {"envelope_id": envelope["envelope_id"], **({"payload": said} if said else {})}
        try:
            await self.link.send_str(json.dumps(answer))
        except (aiohttp.ClientError, OSError):
            return  # it comes again and is recognised

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            try:
                await self.link.ping()
            except (aiohttp.ClientError, OSError):
                return  # the reader will notice


def _explain_goodbye(goodbye: str) -> GatewayError:
    if goodbye == "link_disabled":
        return PlatformAuthFailed(
            "Socket Mode is off. Switch it on at api.slack.com/apps, under Socket Mode, and restart Hermes"
        )
    if goodbye == "too_many_websockets":
        return PlatformUnavailable(
            "ten connections are open with this app token already; another program uses it",
            retry_after=_TOO_MANY_SECONDS,
        )
    return PlatformUnavailable("the connection to Slack broke")
