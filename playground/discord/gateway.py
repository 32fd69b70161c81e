"""The gateway: connections over WebSocket, sessions that outlive them, and the events each session receives."""

import asyncio
import contextlib
import hmac
import importlib
import json
import secrets
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from playground.discord import intents
from playground.discord.world import DiscordWorld, guild_create_wire
from playground.faults import Fault, Faults
from playground.wire import Wire, to_json

MAX_PAYLOAD_BYTES = 4096
KEPT_EVENTS = 5000
UNKNOWN_OP, DECODE_ERROR, BAD_TOKEN, AGAIN = 4001, 4002, 4004, 4005
BAD_SEQ, TIMED_OUT, BAD_INTENTS, DISALLOWED = 4007, 4009, 4013, 4014
_INVALID_SESSION = b'{"op":9,"d":false,"s":null,"t":null}'

Compressor = Callable[[bytes], bytes]


@dataclass(slots=True, kw_only=True)
class GatewaySession:
    """The identity of a bot on the gateway. It keeps events to send them again after a resume."""

    id: str
    intents: int
    line: "GatewayConnection | None"
    seq: int = 0
    kept: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))

    def push(self, event: str, data: bytes, fault: Fault | None = None) -> None:
        self.seq += 1
        frame = b'{"t":"%b","s":%d,"op":0,"d":%b}' % (event.encode(), self.seq, data)
        self.kept.append((self.seq, frame))
        if self.line is not None and fault and fault.kind == "cut_gateway":
            self.line.cut()
        elif self.line is not None:
            self.line.put(frame)

    def events_after(self, seq: int) -> list[bytes] | None:
        """Return the events after this number; None when some of them are no longer kept."""
        if seq < self.seq and (not self.kept or self.kept[0][0] > seq + 1):
            return None
        return [frame for number, frame in self.kept if number > seq]


class DiscordGateway:
    def __init__(self, world: DiscordWorld, faults: Faults[Any], *, token: str, heartbeat_seconds: float) -> None:
        self.world = world
        self.faults = faults
        self.token = token
        self.heartbeat_seconds = heartbeat_seconds
        self.heartbeats = 0
        self.identify_total = 1000
        self.identifies = 0
        self.resumes = 0
        self.sessions: dict[str, GatewaySession] = {}
        self.lines: list[GatewayConnection] = []  # every open connection, identified or not
        self.token_reset = False

    @property
    def connected(self) -> bool:
        """Tell whether a bot is connected and identified."""
        return any(session.line for session in self.sessions.values())

    @property
    def start_limit(self) -> Wire:
        left = max(0, self.identify_total - self.identifies)
        return {"total": self.identify_total, "remaining": left, "reset_after": 86_400_000, "max_concurrency": 1}

    def dispatch(self, event: str, data: Wire, *, intents: int = 0) -> None:
        """Send an event to every session that asked for it."""
        sessions = [one for one in self.sessions.values() if not intents or one.intents & intents]
        if not sessions:
            return
        fault = self.faults.take(event.lower(), str(data.get("channel_id", "")), pushed=True)
        if fault and fault.kind == "drop":
            self.world.events.note("dropped", event=event)
            return
        body = to_json(data)
        for session in sessions:
            session.push(event, body, fault)
            if fault and fault.kind == "duplicate":
                session.push(event, body)

    def begin(self, line: "GatewayConnection", wanted: int, resume_url: str) -> GatewaySession:
        """Begin a session: READY with guilds that are unavailable, and then each of them."""
        session = GatewaySession(id=secrets.token_hex(16), intents=wanted, line=line)
        self.sessions[session.id] = session
        world = self.world
        flags = intents.application_flags(world.privileged)
        ready: Wire = {"v": 10, "user": world.bot.wire, "session_id": session.id, "session_type": "normal"}
        ready |= {"guilds": [{"id": str(one), "unavailable": True} for one in world.guilds], "private_channels": []}
        ready |= {"resume_gateway_url": resume_url, "application": {"id": str(world.bot.id), "flags": flags}}
        ready |= {"shard": [0, 1], "relationships": [], "presences": [], "geo_ordered_rtc_regions": [], "_trace": []}
        session.push("READY", to_json(ready))
        everyone = bool(wanted & intents.MEMBERS and wanted & intents.PRESENCES)
        for guild in world.guilds.values() if wanted & intents.GUILDS else ():
            session.push("GUILD_CREATE", to_json(guild_create_wire(world, guild, all_members=everyone)))
        world.events.note("ready", session_id=session.id)
        return session

    def resume(self, line: "GatewayConnection", session_id: str, seq: int) -> GatewaySession | None:
        """Send the missed events again, then RESUMED; return None if the session must begin anew."""
        session = self.sessions.get(session_id)
        missed = session.events_after(seq) if session else None
        if session is None or missed is None:
            self.world.events.note("not_resumed", session_id=session_id)
            return None
        if session.line:
            session.line.cut()
        session.line = line
        for frame in missed:
            line.put(frame)
        session.push("RESUMED", b'{"_trace":[]}')
        self.resumes += 1
        self.world.events.note("resumed", session_id=session.id, replayed=len(missed))
        return session

    def end(self, session: GatewaySession, line: "GatewayConnection", *, for_good: bool) -> None:
        """Note the end of a connection, and of its session if the bot said goodbye."""
        if session.line is line:
            session.line = None
            if for_good:
                self.sessions.pop(session.id, None)
        self.world.events.note("disconnected", session_id=session.id)

    # Disturbances for those who are connected.

    def cut(self) -> None:
        """Abort every connection."""
        for line in [*self.lines]:
            line.cut()

    def close(self, code: int = 1001) -> None:
        for line in [*self.lines]:
            line.close(code)

    def freeze(self) -> None:
        """Leave connections half-open: read and send nothing on them; new ones are served."""
        for line in [*self.lines]:
            line.freeze()

    def ask_reconnect(self) -> None:
        """Ask clients to connect again (op 7)."""
        self._tell_all(b'{"op":7,"d":null,"s":null,"t":null}')

    def invalidate(self, *, resumable: bool = False) -> None:
        """Tell all that their session is invalid (op 9), and forget sessions that are not resumable."""
        if not resumable:
            self.sessions.clear()
        self._tell_all(_INVALID_SESSION if not resumable else _INVALID_SESSION.replace(b"false", b"true"))

    def forget_sessions(self) -> None:
        """Forget sessions without a connection, as after a long absence."""
        self.sessions = {key: session for key, session in self.sessions.items() if session.line}

    def beat(self) -> None:
        """Ask for a heartbeat at once (op 1)."""
        self._tell_all(b'{"op":1,"d":null,"s":null,"t":null}')

    def _tell_all(self, frame: bytes) -> None:
        for line in self.lines:
            line.put(frame)


class ConnectionClosed(Exception):
    """The server ends the connection with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class GatewayConnection:
    """One WebSocket of a bot. Frames are queued and written by one task, in order."""

    def __init__(
        self, gateway: DiscordGateway, request: web.Request, socket: web.WebSocketResponse, resume_url: str
    ) -> None:
        self.gateway = gateway
        self.session: GatewaySession | None = None
        self._request, self._socket, self._resume_url = request, socket, resume_url
        self._compress = _make_compressor(request.query.get("compress", ""))
        self._frames: asyncio.Queue[bytes | int] = asyncio.Queue()
        self._frozen = False
        self._left = False

    def put(self, frame: bytes) -> None:
        self._frames.put_nowait(frame)

    def close(self, code: int) -> None:
        self._frames.put_nowait(code)

    def cut(self) -> None:
        self._frozen = True  # nothing that is still queued gets out
        if self._request.transport:
            self._request.transport.abort()

    def freeze(self) -> None:
        self._frozen = True
        if isinstance(self._request.transport, asyncio.Transport):
            self._request.transport.pause_reading()

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        self.gateway.lines.append(self)
        interval = int(self.gateway.heartbeat_seconds * 1000)
        self.put(to_json({"op": 10, "d": {"heartbeat_interval": interval, "_trace": []}, "s": None, "t": None}))
        writer = asyncio.create_task(self._write())
        try:
            await self._read()
        except ConnectionClosed as end:
            self._frozen = True  # queued frames would follow the close
            await self._socket.close(code=end.code)
        finally:
            writer.cancel()
            self.gateway.lines.remove(self)
            if self.session:
                self.gateway.end(self.session, self, for_good=self._left)

    async def _write(self) -> None:
        while True:
            frame = await self._frames.get()
            if self._frozen:
                continue
            if isinstance(frame, int):
                self._frozen = True
                await self._socket.close(code=frame)
                return
            with contextlib.suppress(ConnectionError):  # the reader notices too
                if self._compress:
                    await self._socket.send_bytes(self._compress(frame))
                else:
                    await self._socket.send_str(frame.decode())

    async def _read(self) -> None:
        while True:
            patience = None if self._frozen else self.gateway.heartbeat_seconds * 2 + 5.0
            try:
                message = await self._socket.receive(timeout=patience)
            except TimeoutError:
                if self._frozen:
                    continue
                raise ConnectionClosed(TIMED_OUT) from None  # no heartbeat
            if message.type is not WSMsgType.TEXT:
                # Only a bot that says goodbye ends the session; closed by us, it may resume.
                self._left = message.type is WSMsgType.CLOSE and message.data in (1000, 1001)
                return
            self._handle(_decode(message.data))

    def _handle(self, message: Wire) -> None:
        gateway, data = self.gateway, message.get("d")
        match message["op"], data:
            case 1, _:
                gateway.heartbeats += 1
                gateway.world.events.note("heartbeat", last=data)
                self.put(b'{"op":11,"d":null,"s":null,"t":null}')
            case ((2 | 6), _) if self.session:
                raise ConnectionClosed(AGAIN)
            case ((2 | 6), dict()):
                given = str(data.get("token")).removeprefix("Bot ")
                if message["op"] == 2:
                    gateway.identifies += 1
                    gateway.world.events.note("identify", count=gateway.identifies)
                if gateway.token_reset or not hmac.compare_digest(given.encode(), gateway.token.encode()):
                    raise ConnectionClosed(BAD_TOKEN)
                (self._identify if message["op"] == 2 else self._resume)(data)
            case _:
                raise ConnectionClosed(UNKNOWN_OP)

    def _identify(self, data: Wire) -> None:
        wanted = data.get("intents")
        if not isinstance(wanted, int) or wanted & ~intents.KNOWN:
            raise ConnectionClosed(BAD_INTENTS)
        if wanted & intents.PRIVILEGED & ~self.gateway.world.privileged:
            raise ConnectionClosed(DISALLOWED)
        if not isinstance(data.get("properties"), dict):
            raise ConnectionClosed(DECODE_ERROR)
        self.session = self.gateway.begin(self, wanted, self._resume_url)

    def _resume(self, data: Wire) -> None:
        number, seq = str(data.get("session_id")), data.get("seq")
        known = self.gateway.sessions.get(number)
        if not isinstance(seq, int) or (known and seq > known.seq):
            raise ConnectionClosed(BAD_SEQ)
        self.session = self.gateway.resume(self, number, seq)
        if self.session is None:
            self.put(_INVALID_SESSION)


def _decode(text: str) -> dict[str, Any]:
    if len(text.encode()) > MAX_PAYLOAD_BYTES:
        raise ConnectionClosed(DECODE_ERROR)
    try:
        message = json.loads(text)
    except ValueError:
        raise ConnectionClosed(DECODE_ERROR) from None
    if not isinstance(message, dict) or not isinstance(message.get("op"), int):
        raise ConnectionClosed(DECODE_ERROR)
    return message


def _make_compressor(kind: str) -> Compressor | None:
    """Return one stream for all messages of a connection; None for plain text."""
    if kind == "zlib-stream":
        stream = zlib.compressobj()
        return lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)
    if kind == "zstd-stream":  # discord.py asks for it where Python has it, since 3.14
        zstd = importlib.import_module("compression.zstd").ZstdCompressor()
        return lambda data: bytes(zstd.compress(data, zstd.FLUSH_BLOCK))
    return None
