"""discord.py adapted: any server, a timeout for every wait, no caches, and one gateway connection that we own.

This is the only file that uses internals of discord.py (2.7).
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import discord
import structlog
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from discord.http import HTTPClient, Route
from discord.state import ConnectionState
from yarl import URL

from gateway.errors import PlatformUnavailable
from gateway.platforms.discord.errors import NETWORK_ERRORS, check_response
from gateway.platforms.transport import SharedTransport, read_at_most

log = structlog.get_logger()

Wire = dict[str, Any]
Handler = Callable[..., None]
GuildReadable = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread
Readable = GuildReadable | discord.DMChannel
PAGE = 100  # messages that Discord returns at once
_MAX_UNANSWERED = 50  # messages read from a new direct channel
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 20.0
_IDLE_SECONDS = 15.0  # shorter than any server's: a request on a connection just closed would be in doubt
_LONGEST_RATE_WAIT_SECONDS = 30.0  # discord.py's minimum; a longer wait is raised
# Heartbeats are answered every 41 seconds. A connection that is silent for longer is resumed, and given up if that
# fails too, all within the minute in which a dead connection must be noticed.
_SILENT_SECONDS, _RESUME_SECONDS = 47.0, 9.0
_OPEN_SECONDS = 20.0
_CLOSE_SECONDS = 2.0
_GUILDS_QUIET_SECONDS = 0.5  # then all guilds are considered loaded
_MANY_REOPENINGS, _IN_SECONDS = 5, 60.0
_GOODBYE, _BACK_SOON = 1000, 4000  # with the first, Discord drops the session
_RESUMABLE_SECONDS = 600.0  # longer than Discord keeps a session
_NEW_SESSION_SECONDS = (1.0, 5.0)  # as Discord asks, after it ended a session
_FEW_SESSIONS = 50  # with fewer session starts left today, we wait: after the last Discord resets the token
_LONG_WAIT_SECONDS = 3_600.0
_INTENTS = discord.Intents(
    guilds=True,
    guild_messages=True,
    dm_messages=True,
    message_content=True,
    guild_reactions=True,
    dm_reactions=True,
)


class DiscordRequests(HTTPClient):
    def __init__(self, api_url: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, max_ratelimit_timeout=_LONGEST_RATE_WAIT_SECONDS)
        self._api_url = api_url.rstrip("/")

    async def request(self, route: Route, **options: Any) -> Any:
        route.url = self._api_url + route.url.removeprefix(Route.BASE)
        timeout = aiohttp.ClientTimeout(
            total=_CONNECT_SECONDS + _READ_SECONDS, connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS
        )
        try:
            with check_response():
                return await super().request(route, **{"timeout": timeout, **options})
        except asyncio.CancelledError:
            # A request cancelled while it waits for a global rate limit would block all others for ever.
            self._global_over.set()
            raise

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        # Replaces the inherited one, which waits half a minute for a dead connection to close.
        return await self.session.ws_connect(
            url,
            max_msg_size=0,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
            autoclose=False,
            headers={"User-Agent": self.user_agent},
            compress=compress,
        )

    @property
    def session(self) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = self._HTTPClient__session  # type: ignore[attr-defined]
        return session


class DiscordSocket(DiscordWebSocket):
    async def received_message(self, msg: Any, /) -> None:
        self._dispatch("frame", self)
        await super().received_message(msg)


class DiscordTransport(SharedTransport["DiscordTransport"], discord.Client):
    """The client of one run. Events go to `handlers` at once, in order and without tasks."""

    http: DiscordRequests

    def __init__(self, api_url: str) -> None:
        # It logs voice warnings and rate limits that we log ourselves; at lower levels also messages and tokens.
        logging.getLogger("discord").setLevel(logging.ERROR)
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False
        self.handlers: Mapping[str, Handler] = {}
        self._api_url = api_url
        self._socket: DiscordSocket | None = None
        self._is_established = False
        self._reopened: deque[float] = deque(maxlen=_MANY_REOPENINGS)
        self._lost: DiscordSocket | None = None  # its session may be resumed
        self._lost_at = 0.0
        super().__init__(
            intents=_INTENTS,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            heartbeat_timeout=_SILENT_SECONDS,
            guild_ready_timeout=_GUILDS_QUIET_SECONDS,
        )
        state = self._connection
        state.parsers = {event: _contain_errors(event, parser) for event, parser in state.parsers.items()}

    def _get_state(self, **options: Any) -> ConnectionState[Any]:
        self.http = DiscordRequests(self._api_url, self.loop)
        return super()._get_state(**options)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        if event == "frame":
            self._socket = args[0]
            if not self._is_established:
                return  # a greeting does not mean that the token is valid
        elif event in ("connect", "resumed"):
            self._is_established, self._lost = True, None
        handler = self.handlers.get(event)
        if handler is not None:
            _contain_errors(event, handler)(*args, **kwargs)

    async def open_client(self) -> "DiscordTransport":
        return self

    async def close_client(self) -> None:
        await self.close()

    @property
    def can_resume(self) -> bool:
        return self._lost is not None and time.monotonic() - self._lost_at < _RESUMABLE_SECONDS

    async def sign_in(self, token: str) -> None:
        """Sign in, also again after a close: the guilds and the session are still known."""
        if self.user is not None and not self.is_closed():
            return  # a send of the last run keeps it open
        if self._closing_task is not None:
            await self._closing_task
            self._closing_task = None
        self.http.connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS)
        await self._async_setup_hook()
        with check_response():
            await self.login(token)

    async def listen(self) -> None:
        """Run until cancelled. Resumes sessions where Discord allows it, also in the next call; raises other errors."""
        old = self._lost if self.can_resume else None
        try:
            while True:
                socket = None
                try:
                    with check_response():
                        socket = await self._open(old)
                        old = None
                        while True:
                            await socket.poll_event()
                except ReconnectWebSocket as wish:
                    if socket is None:
                        raise ConnectionResetError("closed without a greeting") from wish
                    self._reopened.append(time.monotonic())
                    if len(self._reopened) == _MANY_REOPENINGS and self._reopened[-1] - self._reopened[0] < _IN_SECONDS:
                        raise PlatformUnavailable("the connection to Discord keeps breaking") from wish
                    if wish.resume and socket.session_id is not None:
                        old = socket
                    else:
                        self._lost = None
                        await asyncio.sleep(random.uniform(*_NEW_SESSION_SECONDS))  # noqa: S311
        except NETWORK_ERRORS:
            if old is not None and old is not self._lost:
                self._lost, self._lost_at = old, time.monotonic()
            raise
        finally:
            self.handlers = {}  # discord.py's own task may outlive its cancellation
            if self._connection._ready_task is not None:
                self._connection._ready_task.cancel()
                with suppress(AttributeError):
                    del self._connection._ready_state  # else later guilds would wait in it for ever
            await self._close_socket(_GOODBYE if self._lost is None else _BACK_SOON)

    async def _find_gateway(self) -> URL:
        """Return the gateway's address. Raises PlatformUnavailable if few sessions may still be started today."""
        found = await self.http.request(Route("GET", "/gateway/bot"))
        limit = found["session_start_limit"]
        left, reset_ms = limit.get("remaining"), limit.get("reset_after")
        if isinstance(left, int) and left < _FEW_SESSIONS:
            wait = reset_ms / 1000 if isinstance(reset_ms, int) else _LONG_WAIT_SECONDS
            raise PlatformUnavailable(
                f"Discord allows only {left} more connections today; waiting, so that the token is not reset",
                retry_after=min(wait, _LONG_WAIT_SECONDS),
            )
        return URL(found["url"])

    async def _open(self, old: DiscordSocket | None) -> DiscordSocket:
        await self._close_socket(_BACK_SOON)
        if old is None:
            gateway = await self._find_gateway()
            async with asyncio.timeout(_OPEN_SECONDS):
                return await DiscordSocket.from_client(self, initial=True, gateway=gateway)
        async with asyncio.timeout(_RESUME_SECONDS):
            return await DiscordSocket.from_client(
                self, gateway=old.gateway, session=old.session_id, sequence=old.sequence, resume=True
            )

    async def _close_socket(self, code: int) -> None:
        socket, self._socket = self._socket, None
        self._is_established = False
        if socket is not None:
            with suppress(*NETWORK_ERRORS):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await socket.close(code)  # ends its thread too

    # REST.

    async def find_channel(self, channel_id: int) -> Readable | None:
        """Return a channel with messages, or None. Direct channels and archived threads are fetched."""
        channel = self.get_channel(channel_id)
        if channel is None:
            try:
                with check_response():
                    channel = await self.fetch_channel(channel_id)
            except discord.InvalidData:
                return None
        return channel if isinstance(channel, Readable) else None

    async def fetch_history(self, channel_id: int, after: int) -> list[Any]:
        """Return the next page after a message, oldest first, for `build_message`."""
        with check_response():
            return sorted(await self.http.logs_from(channel_id, PAGE, after=after), key=_read_id)

    async def fetch_unanswered(self, channel_id: int, me: int, *, after: int, before: int) -> list[Any]:
        """Return the messages between two that no message of ours follows, a few at most, oldest first."""
        with check_response():
            found = sorted(await self.http.logs_from(channel_id, _MAX_UNANSWERED, before=before), key=_read_id)
            ours = max((_read_id(raw) for raw in found if _read_id(raw["author"]) == me), default=0)
            return [raw for raw in found if _read_id(raw) > max(ours, after)]

    def build_message(self, channel: Readable, raw: Any) -> discord.Message | int:
        """Return only the id if the message cannot be parsed."""
        try:
            return discord.Message(state=self._connection, channel=channel, data=raw)
        # Contained, as below: one that discord.py cannot parse must not hold up the others.
        except Exception as error:  # noqa: BLE001
            log.error("message skipped", channel=channel.id, problem=type(error).__name__)
            return _read_id(raw)

    async def download(self, address: str, max_bytes: int) -> bytes | None:
        """Return None if it is larger than that. Raises aiohttp's errors, also for other statuses than 200."""
        timeout = aiohttp.ClientTimeout(total=3 * _READ_SECONDS, connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)
        async with self.http.session.get(
            address, timeout=timeout, allow_redirects=False, raise_for_status=True
        ) as response:
            return await read_at_most(response, max_bytes)


def _contain_errors(event: str, handle: Handler) -> Handler:
    def contained(*args: Any, **kwargs: Any) -> None:
        try:
            handle(*args, **kwargs)
        # Contained: one event that fails must neither stop the others nor come for ever. No traceback: it may quote
        # what people wrote.
        except Exception as error:  # noqa: BLE001
            log.error("event skipped", kind=event, problem=type(error).__name__)

    return contained


def _read_id(raw: Any) -> int:
    return int(raw["id"])
