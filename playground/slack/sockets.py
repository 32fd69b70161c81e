"""Socket Mode: tickets, open sockets, and envelopes that come again until they are acked."""

import asyncio
import itertools
import json
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from aiohttp import web

from playground.events import EventLog
from playground.faults import CallKind, Fault, Faults
from playground.slack.link import Socket
from playground.wire import Wire

PushedKind = Literal[
    "duplicate",  # an envelope comes twice with one envelope_id
    "duplicate_new_id",  # an event comes twice with two envelope_ids, one event_id
    "late",  # an envelope comes `seconds` later, or right behind the next one
    "missed",  # an envelope is never sent; it may come again as a retry
    "cut_socket",  # the socket breaks instead
    "cut_socket_after",  # the socket breaks right behind the envelope
]
Kind = CallKind | PushedKind
PUSHED_KINDS: tuple[str, ...] = get_args(PushedKind)
EnvelopeType = Literal["events_api", "slash_commands", "interactive"]
_HOST = "applink-playground-1"


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """Something for the bot, on its way. `name` and `place` are what faults know it by."""

    type: EnvelopeType
    payload: Wire
    name: str
    place: str = ""
    on_ack: Callable[[Wire], None] | None = None
    attempt: int = 0
    acked: bool = False
    lost: bool = False
    answer: Wire = field(default_factory=dict)  # the payload of the ack
    envelope_ids: list[str] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None

    def envelope(self, envelope_id: str) -> str:
        wire: Wire = {"envelope_id": envelope_id, "payload": self.payload, "type": self.type}
        wire["accepts_response_payload"] = self.type != "events_api"
        if self.type == "events_api":
            wire |= {"retry_attempt": self.attempt, "retry_reason": "timeout" if self.attempt else ""}
        return json.dumps(wire, separators=(",", ":"))


class Sockets:
    """Each envelope goes to one of the open sockets. What nobody acks in time comes again, events only."""

    def __init__(self, *, events: EventLog, faults: Faults[Kind], app_id: str) -> None:
        self.open: list[Socket] = []
        self.retry_seconds: tuple[float, ...] = (3.0, 3.0, 3.0)  # the real ones are about 3, 60 and 300
        self.ping_seconds = 10.0
        self.ticket_seconds = 30.0
        self.grace_seconds = 10.0  # between `refresh_requested` and the end of the socket
        self.most_open = 10
        self.watch: Callable[[Delivery, str], None] = lambda delivery, what: None  # "sent", "acked", or a fault's kind
        self._events = events
        self._faults = faults
        self._app_id = app_id
        self._tickets: dict[str, float] = {}
        self._waiting: dict[str, Delivery] = {}  # by envelope id
        self._held: list[Delivery] = []
        self._turns = itertools.count()
        self._numbers = itertools.count(1)

    def new_ticket(self) -> str:
        """Good for one socket, soon."""
        now = time.monotonic()
        self._tickets = {ticket: until for ticket, until in self._tickets.items() if until > now}
        ticket = secrets.token_hex(8)
        self._tickets[ticket] = now + self.ticket_seconds
        return ticket

    @property
    def unacked(self) -> int:
        """How many things are on their way."""
        return len({id(delivery) for delivery in self._waiting.values()})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if self._tickets.pop(request.query.get("ticket", ""), 0.0) < time.monotonic():
            self._events.note("socket", state="refused")
            return web.Response(status=408, text="stale ticket")
        link = web.WebSocketResponse(autoping=False, max_msg_size=16 * 1024 * 1024)
        await link.prepare(request)
        socket = Socket(next(self._numbers), link, cast("asyncio.Transport", request.transport))
        if len(self.open) >= self.most_open:
            await link.send_str(self._disconnect_message("too_many_websockets"))
            await link.close()
            return link
        self.open.append(socket)
        socket.send(self._hello())
        self._events.note("socket", state="open", number=socket.number)
        try:
            await socket.run(self._heard, ping_seconds=lambda: self.ping_seconds)
        finally:
            self.open.remove(socket)
            self._events.note("socket", state="closed", number=socket.number, why=socket.why)
        return link

    def _hello(self) -> str:
        debug = {"host": _HOST, "build_number": 10, "approximate_connection_time": 18060}
        hello = {"type": "hello", "num_connections": len(self.open), "debug_info": debug}
        return json.dumps({**hello, "connection_info": {"app_id": self._app_id}})

    def _heard(self, data: str) -> None:
        """An ack, with or without a payload; anything else is ignored, as in reality."""
        try:
            message = json.loads(data)
        except ValueError:
            return
        if isinstance(message, dict) and (delivery := self._waiting.get(str(message.get("envelope_id")))):
            self._finish(delivery)
            delivery.acked = True
            self.watch(delivery, "acked")
            given = message.get("payload")
            delivery.answer = given if isinstance(given, dict) else {}
            self._events.note("ack", name=delivery.name, envelope_id=message["envelope_id"], answer=delivery.answer)
            if delivery.on_ack:
                delivery.on_ack(delivery.answer)

    def _finish(self, delivery: Delivery) -> None:
        if delivery.timer:
            delivery.timer.cancel()
        for envelope_id in delivery.envelope_ids:
            self._waiting.pop(envelope_id, None)

    def push(self, delivery: Delivery) -> Delivery:
        """On its way; with no socket open it waits for its retries."""
        self._arm(delivery)
        fault = self._faults.take_pushed(delivery.name, delivery.place)
        held, self._held = self._held, []
        if fault is None:
            self._send(delivery)
        else:
            self.watch(delivery, fault.kind)
            self._send_badly(delivery, fault)
        for earlier in held:
            if earlier is not delivery:
                self._send(earlier)
        return delivery

    def _arm(self, delivery: Delivery) -> None:
        """Until it is acked: again after a while, or given up after the last retry."""
        wait = self.retry_seconds[min(delivery.attempt, len(self.retry_seconds) - 1)]
        delivery.timer = asyncio.get_running_loop().call_later(wait, self._again, delivery)
        envelope_id = str(uuid.uuid4())
        delivery.envelope_ids.append(envelope_id)
        self._waiting[envelope_id] = delivery

    def _again(self, delivery: Delivery) -> None:
        if delivery.type != "events_api" or delivery.attempt >= len(self.retry_seconds):
            self._finish(delivery)
            delivery.lost = True
            self._events.note("lost", name=delivery.name, place=delivery.place, payload=delivery.payload)
            return
        delivery.attempt += 1
        self.push(delivery)

    def _send(self, delivery: Delivery, envelope_id: str = "") -> Socket | None:
        envelope_id = envelope_id or delivery.envelope_ids[-1]
        ready = [socket for socket in self.open if not socket.leaving]
        if not ready or delivery.acked:
            return None
        socket = ready[next(self._turns) % len(ready)]
        socket.send(delivery.envelope(envelope_id))
        self.watch(delivery, "sent")
        self._events.note(
            "envelope", name=delivery.name, envelope_id=envelope_id, attempt=delivery.attempt, socket=socket.number
        )
        return socket

    def _send_badly(self, delivery: Delivery, fault: Fault) -> None:
        match fault.kind:
            case "duplicate":
                self._send(delivery)
                self._send(delivery)
            case "duplicate_new_id":
                self._send(delivery)
                second = str(uuid.uuid4())
                delivery.envelope_ids.append(second)
                self._waiting[second] = delivery
                self._send(delivery, second)
            case "late" if fault.seconds:
                asyncio.get_running_loop().call_later(fault.seconds, self._send, delivery)
            case "late":
                self._held.append(delivery)
            case "cut_socket" if self.open:
                self.open[0].cut("cut_socket")
            case "cut_socket_after":
                if socket := self._send(delivery):
                    socket.cut_behind()

    def disconnect(self, reason: str = "refresh_requested", *, number: int = 0) -> None:
        """Tell one socket, or all, to go; only after a `warning` it goes on, else it is closed after the grace."""
        for socket in self._chosen(number):
            socket.send(self._disconnect_message(reason))
            if reason != "warning":
                socket.leaving = True
                asyncio.get_running_loop().call_later(self.grace_seconds, socket.cut, reason)
        self._events.note("disconnect", reason=reason)

    def _disconnect_message(self, reason: str) -> str:
        return json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": _HOST}})

    def cut(self, *, number: int = 0) -> None:
        """One socket, or all, break without a word."""
        for socket in self._chosen(number):
            socket.cut("cut")

    def freeze(self, *, number: int = 0) -> None:
        """Half open: nothing is read or written on one socket, or all, until `thaw`."""
        for socket in self._chosen(number):
            socket.freeze()

    def thaw(self) -> None:
        for socket in self.open:
            socket.thaw()

    def mute(self, *, number: int = 0) -> None:
        """No pongs any more on one socket, or all; the rest works."""
        for socket in self._chosen(number):
            socket.pongs = False

    def _chosen(self, number: int) -> list[Socket]:
        return [socket for socket in self.open if number in (0, socket.number)]

    def close(self) -> None:
        """The server goes."""
        for delivery in list(self._waiting.values()):
            self._finish(delivery)
        for socket in list(self.open):
            socket.cut("closing")
