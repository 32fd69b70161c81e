"""The gateway's side of all sessions: who hears what, what is sent again after a resume, and how it fails."""

import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from playground.discord.faults import Kind
from playground.discord.intents import CONTENT, GUILDS, MEMBERS, PRESENCES, application_flags
from playground.discord.wires import guild_create_wire
from playground.discord.world import World
from playground.faults import Fault, Faults
from playground.wire import Wire, to_json

KEPT_EVENTS = 5000
KEPT_SESSIONS = 4  # without a connection
IDENTIFY_SECONDS = 5.0


class Line(Protocol):
    """The connection of a session."""

    def put(self, frame: bytes, *, seconds: float = 0.0) -> None: ...

    def cut(self) -> None: ...

    def close(self, code: int) -> None: ...

    def freeze(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class Session:
    """What a bot identified for. Outlives its connection; events are kept to be sent again."""

    id: str
    intents: int
    line: Line | None
    seq: int = 0
    kept: deque[tuple[int, bytes]] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))

    def push(self, event: str, data: bytes, fault: Fault | None = None) -> None:
        self.seq += 1
        frame = b'{"t":"%b","s":%d,"op":0,"d":%b}' % (event.encode(), self.seq, data)
        self.kept.append((self.seq, frame))
        if self.line is None:
            return
        if fault and fault.kind == "cut_gateway":
            self.line.cut()
        elif fault and fault.kind == "close_gateway":
            self.line.close(fault.status)
        else:
            self.line.put(frame, seconds=fault.seconds if fault and fault.kind == "delay" else 0.0)

    def missed(self, seq: int) -> list[bytes] | None:
        """What came after this number; None when that is no longer known."""
        if seq < self.seq and (not self.kept or self.kept[0][0] > seq + 1):
            return None
        return [frame for number, frame in self.kept if number > seq]


class Gateway:
    """`acks` off: heartbeats are read and not answered."""

    def __init__(
        self, world: World, faults: Faults[Kind], *, heartbeat_seconds: float, limits_on: Callable[[], bool]
    ) -> None:
        self.world = world
        self.faults = faults
        self.heartbeat_seconds = heartbeat_seconds
        self.limits_on = limits_on
        self.acks = True
        self.heartbeats = 0
        self.identify_total = 1000
        self.identifies = 0
        self.resumes = 0
        self.sessions: dict[str, Session] = {}
        self.lines: list[Line] = []  # every open connection, identified or not
        self.token_reset = False
        self._last_identify = -IDENTIFY_SECONDS

    @property
    def connected(self) -> bool:
        """Whether a bot is on the line and identified."""
        return any(session.line for session in self.sessions.values())

    @property
    def start_limit(self) -> Wire:
        left = max(0, self.identify_total - self.identifies)
        return {"total": self.identify_total, "remaining": left, "reset_after": 86_400_000, "max_concurrency": 1}

    def dispatch(self, event: str, data: Wire, *, intents: int = 0, redacted: Wire | None = None) -> None:
        """To every session that asked for it; one without the content intent gets what is redacted."""
        hearing = [one for one in self.sessions.values() if not intents or one.intents & intents]
        if not hearing:
            return
        fault = self.faults.take_pushed(event.lower(), str(data.get("channel_id", "")))
        if fault and fault.kind == "drop":
            self.world.events.note("dropped", event=event)
            return
        whole = b""
        for session in hearing:
            if redacted is not None and redacted is not data and not session.intents & CONTENT:
                body = to_json(redacted)
            else:
                body = whole = whole or to_json(data)
            session.push(event, body, fault)
            if fault and fault.kind == "duplicate":
                session.push(event, body)

    def may_identify(self) -> bool:
        """Counts. Beyond the daily number the token is void; with real limits one in five seconds is let in."""
        self.identifies += 1
        if self.identifies > self.identify_total:
            self.token_reset = True
            self.close(4004)
        now, last = time.monotonic(), self._last_identify
        self._last_identify = now
        return not self.limits_on() or now - last >= IDENTIFY_SECONDS

    def begin(self, line: Line, wanted: int, resume_url: str) -> Session:
        """A session of its own: READY with guilds that are unavailable, and then each of them."""
        self._forget_old()
        session = Session(id=secrets.token_hex(16), intents=wanted, line=line)
        self.sessions[session.id] = session
        world = self.world
        guilds = [guild for guild in world.guilds.values() if guild.bot_in]
        flags = application_flags(world.privileged)
        ready: Wire = {"v": 10, "user": world.bot.wire, "session_id": session.id, "session_type": "normal"}
        ready |= {"guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds], "private_channels": []}
        ready |= {"resume_gateway_url": resume_url, "application": {"id": str(world.bot.id), "flags": flags}}
        ready |= {"shard": [0, 1], "relationships": [], "presences": [], "geo_ordered_rtc_regions": [], "_trace": []}
        session.push("READY", to_json(ready))
        if wanted & GUILDS:
            for guild in guilds:
                everyone = bool(wanted & MEMBERS and wanted & PRESENCES)
                if not guild.unavailable:
                    session.push("GUILD_CREATE", to_json(guild_create_wire(world, guild, all_members=everyone)))
        world.events.note("ready", session_id=session.id)
        return session

    def _forget_old(self) -> None:
        idle = [session for session in self.sessions.values() if session.line is None]
        for session in idle[: max(0, len(idle) - KEPT_SESSIONS + 1)]:
            del self.sessions[session.id]

    def resume(self, line: Line, session_id: str, seq: int) -> Session | None:
        """The session, with what was missed sent again and RESUMED after it; None if it must begin anew."""
        session = self.sessions.get(session_id)
        missed = session.missed(seq) if session else None
        if session is None or missed is None:
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

    def end(self, session: Session, line: Line, *, for_good: bool) -> None:
        """The connection is over; the session too if the bot took its leave."""
        if session.line is line:
            session.line = None
            if for_good:
                self.sessions.pop(session.id, None)
        self.world.events.note("disconnected", session_id=session.id)

    # What can be done to those who are connected.

    def cut(self) -> None:
        """Every connection is gone without a word."""
        for line in [*self.lines]:
            line.cut()

    def close(self, code: int = 1001) -> None:
        for line in [*self.lines]:
            line.close(code)

    def freeze(self) -> None:
        """Half-open: nothing is read, nothing is sent, and the connections stay; new ones are served."""
        for line in [*self.lines]:
            line.freeze()

    def ask_reconnect(self) -> None:
        """Discord asks its clients to connect again (op 7)."""
        for line in [*self.lines]:
            line.put(b'{"op":7,"d":null,"s":null,"t":null}')

    def invalidate(self, *, resumable: bool = False) -> None:
        """Tell all that their session is invalid (op 9); one that is not resumable is forgotten."""
        if not resumable:
            self.sessions.clear()
        for line in [*self.lines]:
            line.put(b'{"op":9,"d":%b,"s":null,"t":null}' % (b"true" if resumable else b"false"))

    def forget_sessions(self) -> None:
        """A resume will not find its session: it has been away too long."""
        for session in [one for one in self.sessions.values() if one.line is None]:
            del self.sessions[session.id]

    def beat(self) -> None:
        """Ask for a heartbeat at once (op 1)."""
        for line in [*self.lines]:
            line.put(b'{"op":1,"d":null,"s":null,"t":null}')
