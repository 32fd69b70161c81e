"""Socket Mode: two connections at once, so that one may end while the other listens, and the dispatch of envelopes.

The connections are not those of the SDK's client: it hides a refused token in its log and retries for ever, closes a
socket before it opens the next, answers on whichever socket is newest, and owns none of the tasks it starts.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import aiohttp
import structlog
from aiohttp import ClientWebSocketResponse, WSMsgType
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from gateway.errors import GatewayError, PlatformAuthFailed, PlatformUnavailable
from gateway.platforms.slack.errors import translate_listening_error
from gateway.platforms.slack.parsing import SlackIdentity
from gateway.platforms.slack.web_api import SlackProblem, SlackWebApi, Wire
from gateway.policies.backoff import backoff_seconds

log = structlog.get_logger()

_ANY = re.compile("")
_FAILURES = "hermes_failures"
_WORDS = "hermes_words"
_OK, _NOBODY, _NOT_TAKEN = 200, 404, 503

HandleBody = Callable[[Wire], Awaitable[bool | str]]
"""Handle the body of a request. Returns False if it must come again, or a text that only the sender will see."""

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


class SocketPool:
    """The open sockets of an account."""

    def __init__(
        self,
        api: SlackWebApi,
        *,
        account: str,
        variable: str,
        take: Take,
        alive: Callable[[], None],
        on_gap: Callable[[], None],
    ) -> None:
        """`on_gap` is called when events may be lost: a socket broke, or one opened after there was none."""
        self._api = api
        self._account = account
        self._variable = variable
        self._take = take
        self._alive = alive
        self._on_gap = on_gap
        self._open: set[SlackSocket] = set()
        self._has_opened = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Future[Exception] | None = None

    async def run(self) -> None:
        """Run until cancelled. Raises PlatformUnavailable (none is left), PlatformAuthFailed, or what `take` raises."""
        self._ending = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as group:
            self._start(group, self._run_all(group), "keep slack sockets")
            problem = await self._ending
            for task in self._tasks:
                task.cancel()
        raise problem

    def _start(self, group: asyncio.TaskGroup, work: Coroutine[object, None, None], name: str) -> None:
        task = group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_all(self, group: asyncio.TaskGroup) -> None:
        """Open the first alone: until then, the failure of another would look like the end of all."""
        self._start(group, self._run_slot(group), "slack socket 1")
        await self._has_opened.wait()
        for number in range(2, _AT_ONCE + 1):
            self._start(group, self._run_slot(group), f"slack socket {number}")

    async def _run_slot(self, group: asyncio.TaskGroup) -> None:
        """Open another socket whenever one ends, or before that if Slack announces it."""
        failures = 0
        while True:
            began = time.monotonic()
            problem = await self._run_socket(group)
            if problem is not None and (not self._open or isinstance(problem, PlatformAuthFailed)):
                self._end(problem)
                return
            failures = failures + 1 if problem is not None or time.monotonic() - began < _SHORT_LIFE_SECONDS else 0
            wish = problem.retry_after if isinstance(problem, PlatformUnavailable) else None
            if problem is not None:
                log.warning("one of two connections is missing", account=self._account, problem=str(problem))
            if failures:
                await asyncio.sleep(wish if wish is not None else backoff_seconds(failures))

    async def _run_socket(self, group: asyncio.TaskGroup) -> GatewayError | None:
        """Run a socket until it must be replaced; return the reason unless Slack planned it."""
        try:
            link = await self._api.open_socket()
        except SlackProblem as error:
            return translate_listening_error(error, self._variable)
        socket = SlackSocket(link, take=self._take, alive=self._alive, failed=self._end)
        if await socket.wait_for_hello():
            was_disconnected = not self._open
            self._open.add(socket)
            self._alive()
            self._has_opened.set()
            if was_disconnected:
                self._on_gap()
            self._start(group, socket.read(), "read a slack socket")
            await socket.leaving.wait()
            self._open.discard(socket)
            if not socket.broke and socket.goodbye not in _TROUBLE:
                return None
            self._on_gap()
        else:
            await link.close()
        return _explain_goodbye(socket.goodbye)

    def _end(self, problem: Exception) -> None:
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(problem)


class SlackSocket:
    """One connection in Socket Mode."""

    def __init__(
        self,
        link: ClientWebSocketResponse,
        *,
        take: Take,
        alive: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.leaving = asyncio.Event()  # set when it ends soon, or has ended
        self.broke = False  # ended unannounced
        self.goodbye = ""  # Slack's reason
        self._link = link
        self._take = take
        self._alive = alive
        self._failed = failed
        self._until = float("inf")

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
            await self._link.close()

    async def _read(self, group: asyncio.TaskGroup) -> None:
        while time.monotonic() < self._until:
            try:
                async with asyncio.timeout(_DEAD_SECONDS):
                    message = await self._receive()
            except (TimeoutError, aiohttp.ClientError, OSError):
                return
            if message is None:
                return
            self._alive()
            if message.get("type") == "disconnect":
                self._until = time.monotonic() + _LEAVING_SECONDS
                self.leaving.set()
            elif message.get("envelope_id"):
                group.create_task(self._handle_envelope(message), name="take a slack envelope")

    async def _receive(self) -> Wire | None:
        """Return the next message, empty for pings and the like; None at the end."""
        frame = await self._link.receive()
        match frame.type:
            case WSMsgType.TEXT:
                return self._parse_frame(frame.data)
            case WSMsgType.PING:
                await self._link.pong(frame.data)
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
        try:
            said = await self._take(envelope)
        except Exception as error:  # noqa: BLE001 - handed on: the task group would wrap it
            self._failed(error)
            return
        if said is None:
            return
        answer = {"envelope_id": envelope["envelope_id"], **({"payload": said} if said else {})}
        try:
            await self._link.send_str(json.dumps(answer))
        except (aiohttp.ClientError, OSError):
            return  # it comes again and is recognised

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(_PING_SECONDS)
            try:
                await self._link.ping()
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


class Dispatch:
    """Routes envelopes with a slack-bolt app, which answers Slack only after the handler returned."""

    def __init__(
        self, client: AsyncWebClient, me: SlackIdentity, *, event: HandleBody, press: HandleBody, command: HandleBody
    ) -> None:
        async def authorize(**_: Any) -> AuthorizeResult:
            return AuthorizeResult(enterprise_id=None, team_id=me.team, bot_id=me.bot, bot_user_id=me.user)

        quiet = logging.getLogger(f"{__name__}.bolt")
        quiet.setLevel(logging.CRITICAL)  # its log quotes what people write
        self._app = AsyncApp(
            client=client,
            authorize=authorize,  # Bolt would ask Slack again, and read the environment
            process_before_response=True,  # or it would acknowledge before anything is stored
            request_verification_enabled=False,
            ignoring_self_events_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            logger=quiet,
        )
        self._app.event(_ANY)(_build_listener(event))
        self._app.action(_ANY)(_build_listener(press))
        self._app.command(_ANY)(_build_listener(command))

    async def __call__(self, envelope: Wire) -> Wire | None:
        """Return the payload of the acknowledgement; None to send none. Raises what the handler raised."""
        failures: list[Exception] = []
        words: list[str] = []
        try:
            request = AsyncBoltRequest(mode="socket_mode", body=envelope.get("payload") or {})
            request.context[_FAILURES], request.context[_WORDS] = failures, words
            status = (await self._app.async_dispatch(request)).status
        except Exception as error:  # noqa: BLE001 - contained: Bolt fails on unexpected shapes
            log.error("envelope skipped", problem=type(error).__name__)
            return {}
        if failures:
            raise failures[0]
        if status in (_OK, _NOBODY):  # unhandled events are acknowledged too, or they would come for ever
            return {"text": words[0]} if words else {}
        if status != _NOT_TAKEN:
            log.error("envelope failed", status=status)
        return None


def _build_listener(take: HandleBody) -> Callable[..., Awaitable[BoltResponse | None]]:
    async def listener(ack: AsyncAck, body: Wire, context: AsyncBoltContext) -> BoltResponse | None:
        try:
            taken = await take(body)
        except Exception as error:  # noqa: BLE001 - raised again by `__call__`; Bolt would only log it
            context[_FAILURES].append(error)
            taken = False
        if taken is False:
            return BoltResponse(status=_NOT_TAKEN)
        if isinstance(taken, str):
            context[_WORDS].append(taken)
        await ack()
        return None

    return listener
