"""Socket Mode: tickets, sockets, the subscriptions of the app, and envelopes that come again until they are acked."""

import asyncio
import itertools
import json
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from aiohttp import WSMsgType, web

from playground.faults import CallKind, Fault, Faults
from playground.slack.world import SlackWorld
from playground.wire import Wire

EnvelopeFault = Literal[
    "duplicate",  # send an envelope twice with one envelope_id
    "duplicate_new_id",  # send an event twice with two envelope_ids, one event_id
    "late",  # send an envelope right behind the next one
    "missed",  # never send an envelope; it may come again as a retry
    "cut_socket",  # break the socket instead
    "cut_socket_after",  # break the socket right behind the envelope
]
SlackFault = CallKind | EnvelopeFault
ENVELOPE_FAULTS: tuple[str, ...] = get_args(EnvelopeFault)
EnvelopeType = Literal["events_api", "slash_commands", "interactive"]
_EVENTS = (
    "message.channels message.groups message.im message.mpim app_mention app_home_opened reaction_added "
    "reaction_removed member_joined_channel member_left_channel channel_archive channel_unarchive group_archive "
    "group_unarchive"
)
EVERYTHING = frozenset(_EVENTS.split())
_HOST = "applink-playground-1"


@dataclass(slots=True, kw_only=True, eq=False)
class Envelope:
    """Something for the bot. Faults know it by `name` and `place`."""

    type: EnvelopeType
    payload: Wire
    name: str
    place: str = ""
    on_ack: Callable[[Wire], None] | None = None
    attempt: int = 0
    acked: bool = False
    lost: bool = False
    answer: Wire = field(default_factory=dict)  # the payload of the ack
    ids: list[str] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None

    def wire(self, envelope_id: str) -> str:
        wire: Wire = {"envelope_id": envelope_id, "payload": self.payload, "type": self.type}
        wire["accepts_response_payload"] = self.type != "events_api"
        if self.type == "events_api":
            wire |= {"retry_attempt": self.attempt, "retry_reason": "timeout" if self.attempt else ""}
        return json.dumps(wire, separators=(",", ":"))


class SocketMode:
    """Sends each envelope to one of the open sockets; events that nobody acks in time come again."""

    def __init__(self, world: SlackWorld, faults: Faults[SlackFault]) -> None:
        self.open: list[SocketModeLink] = []
        self.retry_seconds: tuple[float, ...] = (3.0, 3.0, 3.0)  # the real ones are about 3, 60 and 300
        self.ping_seconds = 10.0
        self.grace_seconds = 10.0  # between `refresh_requested` and the end of the socket
        self.most_open = 10
        self.subscribed = EVERYTHING  # the events that the app asked for; others are never sent
        self.watch: Callable[[Envelope, str], None] = lambda envelope, what: None  # "sent", "acked", or a fault's kind
        self._world = world
        self._events = world.events
        self._faults = faults
        self._tickets: set[str] = set()
        self._waiting: dict[str, Envelope] = {}  # by envelope id
        self._held: list[Envelope] = []
        self._turns = itertools.count()
        self._numbers = itertools.count(1)
        world.emit = self.emit

    def new_ticket(self) -> str:
        """Return a ticket that is good for one socket."""
        ticket = secrets.token_hex(8)
        self._tickets.add(ticket)
        return ticket

    @property
    def unacked(self) -> int:
        """Count the envelopes that wait for an ack."""
        return len({id(envelope) for envelope in self._waiting.values()})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            self._events.note("socket", state="refused")
            return web.Response(status=408, text="stale ticket")
        self._tickets.remove(ticket)
        link = web.WebSocketResponse(autoping=False, max_msg_size=16 * 1024 * 1024)
        await link.prepare(request)
        socket = SocketModeLink(next(self._numbers), link, cast("asyncio.Transport", request.transport))
        if len(self.open) >= self.most_open:
            await link.send_str(_disconnect_message("too_many_websockets"))
            await link.close()
            return link
        self.open.append(socket)
        debug = {"host": _HOST, "build_number": 10, "approximate_connection_time": 18060}
        hello = {"type": "hello", "num_connections": len(self.open), "debug_info": debug}
        socket.send(json.dumps({**hello, "connection_info": {"app_id": self._world.app_id}}))
        self._events.note("socket", state="open", number=socket.number)
        try:
            await socket.run(self._take_ack, ping_seconds=lambda: self.ping_seconds)
        finally:
            self.open.remove(socket)
            self._events.note("socket", state="closed", number=socket.number, why=socket.why)
        return link

    def _take_ack(self, data: str) -> None:
        """Take an ack, with or without a payload; anything else is ignored, as in reality."""
        try:
            message = json.loads(data)
        except ValueError:
            return
        if isinstance(message, dict) and (envelope := self._waiting.get(str(message.get("envelope_id")))):
            self._finish(envelope)
            envelope.acked = True
            self.watch(envelope, "acked")
            given = message.get("payload")
            envelope.answer = given if isinstance(given, dict) else {}
            self._events.note("ack", name=envelope.name, envelope_id=message["envelope_id"], answer=envelope.answer)
            if envelope.on_ack:
                envelope.on_ack(envelope.answer)

    def _finish(self, envelope: Envelope) -> None:
        if envelope.timer:
            envelope.timer.cancel()
        for envelope_id in envelope.ids:
            self._waiting.pop(envelope_id, None)

    def emit(self, subscription: str, event: Wire) -> None:
        if subscription not in self.subscribed:
            return
        world = self._world
        who = {"enterprise_id": None, "team_id": world.team_id, "user_id": world.bot.id}
        payload = {
            "token": "playground-verification",
            "team_id": world.team_id,
            "api_app_id": world.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{secrets.token_hex(5).upper()}",
            "event_time": int(world.now()),
            "authorizations": [{**who, "is_bot": True, "is_enterprise_install": False}],
        }
        place = event.get("channel") or event.get("item", {}).get("channel") or ""
        self.push(Envelope(type="events_api", payload=payload, name=event["type"], place=place))

    def push(self, envelope: Envelope) -> Envelope:
        """Send an envelope, which waits for its retries while no socket is open."""
        wait = self.retry_seconds[min(envelope.attempt, len(self.retry_seconds) - 1)]
        envelope.timer = asyncio.get_running_loop().call_later(wait, self._retry, envelope)
        self._add_id(envelope)
        fault = self._faults.take(envelope.name, envelope.place, pushed=True)
        held, self._held = self._held, []
        if fault is None:
            self._send(envelope)
        else:
            self.watch(envelope, fault.kind)
            self._send_badly(envelope, fault)
        for earlier in held:
            if earlier is not envelope:
                self._send(earlier)
        return envelope

    def _add_id(self, envelope: Envelope) -> None:
        envelope.ids.append(str(uuid.uuid4()))
        self._waiting[envelope.ids[-1]] = envelope

    def _retry(self, envelope: Envelope) -> None:
        """Send it again, or give it up after the last retry."""
        if envelope.type != "events_api" or envelope.attempt >= len(self.retry_seconds):
            self._finish(envelope)
            envelope.lost = True
            self._events.note("lost", name=envelope.name, place=envelope.place, payload=envelope.payload)
            return
        envelope.attempt += 1
        self.push(envelope)

    def _send(self, envelope: Envelope) -> "SocketModeLink | None":
        """Send under the newest id; return the socket, if there is one."""
        ready = [socket for socket in self.open if not socket.leaving]
        if not ready or envelope.acked:
            return None
        socket, number = ready[next(self._turns) % len(ready)], envelope.ids[-1]
        socket.send(envelope.wire(number))
        self.watch(envelope, "sent")
        self._events.note(
            "envelope", name=envelope.name, envelope_id=number, attempt=envelope.attempt, socket=socket.number
        )
        return socket

    def _send_badly(self, envelope: Envelope, fault: Fault) -> None:
        match fault.kind:
            case "duplicate":
                self._send(envelope)
                self._send(envelope)
            case "duplicate_new_id":
                self._send(envelope)
                self._add_id(envelope)
                self._send(envelope)
            case "late":
                self._held.append(envelope)
            case "cut_socket" if self.open:
                self.open[0].cut("cut_socket")
            case "cut_socket_after":
                if socket := self._send(envelope):
                    socket.cut_behind()

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """Tell all sockets to go; after a `warning` they stay, else they are closed after the grace period."""
        for socket in self.open:
            socket.send(_disconnect_message(reason))
            if reason != "warning":
                socket.leaving = True
                asyncio.get_running_loop().call_later(self.grace_seconds, socket.cut, reason)
        self._events.note("disconnect", reason=reason)

    def cut(self, *, number: int = 0) -> None:
        """Break one socket, or all, without a word."""
        for socket in self.open:
            if number in (0, socket.number):
                socket.cut("cut")

    def freeze(self) -> None:
        """Leave all sockets half-open: read and write nothing until `thaw`."""
        for socket in self.open:
            socket.freeze()

    def thaw(self) -> None:
        for socket in self.open:
            socket.thaw()

    def close(self) -> None:
        """Drop all envelopes and sockets as the server ends."""
        for envelope in list(self._waiting.values()):
            self._finish(envelope)
        for socket in list(self.open):
            socket.cut("closing")


def _disconnect_message(reason: str) -> str:
    return json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": _HOST}})


class SocketModeLink:
    """One open socket: writes in order, pings, and breaks in every way a network can."""

    def __init__(self, number: int, link: web.WebSocketResponse, transport: asyncio.Transport) -> None:
        self.number = number
        self.leaving = False  # was told to go: gets no envelopes any more
        self.why = ""  # the reason it ended, if it was not the client
        self._link = link
        self._transport = transport
        self._outgoing: asyncio.Queue[str | None] = asyncio.Queue()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._last_pong = time.monotonic()

    def send(self, message: str) -> None:
        self._outgoing.put_nowait(message)

    async def run(self, take: Callable[[str], None], *, ping_seconds: Callable[[], float]) -> None:
        """Serve the socket until either side ends it."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._write()), group.create_task(self._ping(ping_seconds))]
            try:
                await self._read(take)
            finally:
                for task in tasks:
                    task.cancel()

    async def _read(self, take: Callable[[str], None]) -> None:
        async for message in self._link:
            if not self._flowing.is_set():
                continue  # was under way when the link died
            if message.type == WSMsgType.TEXT:
                take(message.data)
            elif message.type == WSMsgType.PONG:
                self._last_pong = time.monotonic()
            elif message.type == WSMsgType.PING:
                await self._say(self._link.pong(message.data))

    async def _write(self) -> None:
        while True:
            message = await self._outgoing.get()
            await self._flowing.wait()
            if message is None:
                self.why = "cut_socket_after"
                self._transport.close()  # not abort: what was written shall arrive
                return
            await self._say(self._link.send_str(message))

    async def _ping(self, seconds: Callable[[], float]) -> None:
        """Cut a client that answers no ping until the next one is due, also when the link is half open."""
        while True:
            sent = time.monotonic()
            if self._flowing.is_set():
                await self._say(self._link.ping(b"Ping from applink-playground-1"))
            await asyncio.sleep(seconds())
            if self._last_pong < sent:
                self.cut("no pong")
                return

    async def _say(self, words: Awaitable[None]) -> None:
        try:
            await words
        except ConnectionError:
            self._outgoing = asyncio.Queue()  # the client is gone; reading will tell

    def cut(self, why: str) -> None:
        self.why = self.why or why
        self._transport.abort()

    def cut_behind(self) -> None:
        """Break once what was sent so far is written."""
        self._outgoing.put_nowait(None)

    def freeze(self) -> None:
        self._flowing.clear()
        self._transport.pause_reading()

    def thaw(self) -> None:
        if not self._flowing.is_set():
            self._flowing.set()
            self._transport.resume_reading()
