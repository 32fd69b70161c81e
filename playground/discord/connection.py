"""One WebSocket connection of a bot, from HELLO to its end: it checks what the bot says and closes as Discord does."""

import asyncio
import contextlib
import hmac
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from aiohttp import WSMsgType, web

from playground.discord import intents
from playground.discord.gateway import Gateway, Session
from playground.discord.squeeze import Squeeze
from playground.discord.wires import member_wire
from playground.wire import Wire, to_json

MAX_PAYLOAD_BYTES = 4096
SENT_PER_MINUTE = 120
UNKNOWN_OP, DECODE, NOT_AUTHENTICATED, BAD_TOKEN, AGAIN = 4001, 4002, 4003, 4004, 4005
BAD_SEQ, RATE_LIMITED, TIMED_OUT, BAD_INTENTS, DISALLOWED = 4007, 4008, 4009, 4013, 4014


class Closed(Exception):
    """The server ends the connection with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Connection:
    """Frames are queued and written by one task, in order."""

    def __init__(
        self, gateway: Gateway, request: web.Request, socket: web.WebSocketResponse, squeeze: Squeeze | None
    ) -> None:
        self.gateway = gateway
        self.session: Session | None = None
        self.resume_url: Callable[[], str] = lambda: ""
        self.token = ""
        self._request = request
        self._socket = socket
        self._squeeze = squeeze
        self._frames: asyncio.Queue[tuple[float, bytes | int]] = asyncio.Queue()
        self._frozen = False
        self._left = False
        self._said: deque[float] = deque(maxlen=SENT_PER_MINUTE)

    def put(self, frame: bytes, *, seconds: float = 0.0) -> None:
        self._frames.put_nowait((seconds, frame))

    def close(self, code: int) -> None:
        self._frames.put_nowait((0.0, code))

    def cut(self) -> None:
        self._frozen = True  # nothing that is still queued gets out
        if self._request.transport:
            self._request.transport.abort()

    def freeze(self) -> None:
        self._frozen = True
        if isinstance(self._request.transport, asyncio.Transport):
            self._request.transport.pause_reading()

    async def run(self) -> None:
        """Until either side ends it."""
        self.gateway.lines.append(self)
        interval = int(self.gateway.heartbeat_seconds * 1000)
        self.put(to_json({"op": 10, "d": {"heartbeat_interval": interval, "_trace": []}, "s": None, "t": None}))
        writer = asyncio.create_task(self._write())
        try:
            await self._read()
        except Closed as end:
            self._frozen = True  # queued frames would follow the close
            await self._socket.close(code=end.code)
        finally:
            writer.cancel()
            self.gateway.lines.remove(self)
            if self.session:
                self.gateway.end(self.session, self, for_good=self._left)

    async def _write(self) -> None:
        while True:
            seconds, frame = await self._frames.get()
            if seconds:
                await asyncio.sleep(seconds)
            if self._frozen:
                continue
            if isinstance(frame, int):
                self._frozen = True
                await self._socket.close(code=frame)
                return
            with contextlib.suppress(ConnectionError):  # the reader notices too
                if self._squeeze:
                    await self._socket.send_bytes(self._squeeze(frame))
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
                raise Closed(TIMED_OUT) from None  # no heartbeat
            if message.type is not WSMsgType.TEXT:
                if message.type is WSMsgType.BINARY:
                    raise Closed(DECODE)
                # Only a bot that takes its leave ends the session; closed by us, it may resume.
                self._left = message.type is WSMsgType.CLOSE and message.data in (1000, 1001)
                return
            self._count()
            await self._hear(_decoded(message.data))

    def _count(self) -> None:
        now = time.monotonic()
        if len(self._said) == SENT_PER_MINUTE and now - self._said[0] < 60.0 and self.gateway.limits_on():
            raise Closed(RATE_LIMITED)
        self._said.append(now)

    async def _hear(self, message: Wire) -> None:
        data = message.get("d")
        match message["op"]:
            case 1:
                self.gateway.heartbeats += 1
                self.gateway.world.events.note("heartbeat", last=data)
                if self.gateway.acks:
                    self.put(b'{"op":11,"d":null,"s":null,"t":null}')
            case 2:
                self._identify(data if isinstance(data, dict) else {})
            case 6:
                self._resume(data if isinstance(data, dict) else {})
            case 3 | 4 | 8 | 31 if self.session is None:
                raise Closed(NOT_AUTHENTICATED)
            case 8:
                self._send_members(data if isinstance(data, dict) else {})
            case 3 | 4 | 31:
                self.gateway.world.events.note("said", op=message["op"])
            case _:
                raise Closed(UNKNOWN_OP)

    def _check_token(self, data: Wire) -> None:
        given = str(data.get("token")).removeprefix("Bot ")
        if self.gateway.token_reset or not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Closed(BAD_TOKEN)

    def _identify(self, data: Wire) -> None:
        if self.session:
            raise Closed(AGAIN)
        let_in = self.gateway.may_identify()
        self.gateway.world.events.note("identify", count=self.gateway.identifies)
        self._check_token(data)
        wanted = data.get("intents")
        if not isinstance(wanted, int) or wanted & ~intents.KNOWN:
            raise Closed(BAD_INTENTS)
        if wanted & intents.PRIVILEGED & ~self.gateway.world.privileged:
            raise Closed(DISALLOWED)
        if not isinstance(data.get("properties"), dict):
            raise Closed(DECODE)
        if let_in:
            self.session = self.gateway.begin(self, wanted, self.resume_url())
        else:
            self.put(b'{"op":9,"d":false,"s":null,"t":null}')

    def _resume(self, data: Wire) -> None:
        if self.session:
            raise Closed(AGAIN)
        self._check_token(data)
        number, seq = str(data.get("session_id")), data.get("seq")
        known = self.gateway.sessions.get(number)
        if known and (not isinstance(seq, int) or seq > known.seq):
            raise Closed(BAD_SEQ)
        self.session = self.gateway.resume(self, number, seq if isinstance(seq, int) else 0)
        if self.session is None:
            self.gateway.world.events.note("not_resumed", session_id=number)
            self.put(b'{"op":9,"d":false,"s":null,"t":null}')

    def _send_members(self, data: Wire) -> None:
        assert self.session
        world = self.gateway.world
        guild = world.guilds.get(int(data.get("guild_id", 0)))
        if guild is None:
            return
        wanted = [int(one) for one in data.get("user_ids") or guild.members]
        start = str(data.get("query") or "").lower()
        users = [world.users[one] for one in wanted if one in guild.members]
        members = [member_wire(guild, user) for user in users if user.username.lower().startswith(start)]
        chunk: Wire = {"guild_id": str(guild.id), "members": members, "chunk_index": 0, "chunk_count": 1}
        if "nonce" in data:
            chunk["nonce"] = data["nonce"]
        self.session.push("GUILD_MEMBERS_CHUNK", to_json(chunk))


def _decoded(text: str) -> dict[str, Any]:
    if len(text.encode()) > MAX_PAYLOAD_BYTES:
        raise Closed(DECODE)
    try:
        message = json.loads(text)
    except ValueError:
        raise Closed(DECODE) from None
    if not isinstance(message, dict) or not isinstance(message.get("op"), int):
        raise Closed(DECODE)
    return message
