"""The state of each Slack channel: how far it was read, the threads we take part in, and the names of people."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from gateway.messages import Cursor, InboundMessage
from gateway.platforms.slack.parsing import PlaceKind, SlackPlace, is_ts
from gateway.platforms.slack.web_api import SlackProblem, SlackRefused, SlackWebApi, Wire
from gateway.platforms.text import one_line

log = structlog.get_logger()

_PREFIX = "seen:"
SINCE = "listening since"  # the cursor with the time when we first listened
_THREADS_KEPT = 20  # per channel; in an older thread we must be mentioned again
_PLACED_KEPT = 5_000
_TAKEN_KEPT = 5_000
_PATIENCE_SECONDS = 1.5  # Slack waits three seconds for the acknowledgement
_GOOD_FOR_SECONDS = 3600.0
_FAILED_FOR_SECONDS = 60.0
_REMEMBERED = 2_000
_NOT_FOR_US = ("channel_not_found", "not_in_channel")
_KINDS: dict[str, PlaceKind] = {"im": "dm", "mpim": "group", "channel": "channel", "group": "channel"}


@dataclass(slots=True, eq=False)
class Arrival:
    """An event that waits to be accepted."""

    event: Wire
    ts: str
    is_message: bool
    taken: bool | None = None


@dataclass(slots=True, eq=False)
class SlackChannel:
    """A channel. `seen` is the newest message up to which all were accepted; ts sort as text."""

    id: str
    seen: str = ""
    threads: OrderedDict[str, str] = field(default_factory=OrderedDict)  # with the newest message in each
    newest: str = ""  # accepted, though perhaps not everything before it
    # Not set: messages may be missing, and `seen` must not move.
    current: asyncio.Event = field(default_factory=asyncio.Event)
    doubts: int = 0  # how often messages may have been missed
    waiting: int = 0  # live messages, which must not overtake those
    arrivals: list[Arrival] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.current.set()

    @property
    def is_current(self) -> bool:
        return self.current.is_set()

    async def wait_until_current(self, seconds: float) -> bool:
        """Return whether it is current within that time; a channel that is waited for goes first."""
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self.current.wait()
        except TimeoutError:
            return self.is_current  # it may have become so at the last moment
        finally:
            self.waiting -= 1
        return True

    def join_thread(self, thread: str, ts: str) -> None:
        """Note that we were addressed, or have written, in this thread."""
        self.threads[thread] = max(ts, self.threads.get(thread, ""))
        self.threads.move_to_end(thread)
        while len(self.threads) > _THREADS_KEPT:  # drop the one that has been quiet for longest
            del self.threads[min(self.threads, key=lambda one: self.threads[one])]

    def mark_missed(self, ts: str) -> None:
        """Note that a message with this ts was not accepted."""
        self.seen = self.seen or just_before(ts)
        self.mark_doubtful()

    def mark_doubtful(self) -> None:
        """Note that messages after `seen` may be missing. Does nothing in a channel where none was ever seen."""
        if self.seen:
            self.current.clear()
            self.doubts += 1

    def restore(self, seen: str, threads: str) -> None:
        """Restore the state that `cursor` wrote."""
        self.seen = self.seen or seen
        for thread, _, last in (written.partition("=") for written in threads.split()):
            if is_ts(thread) and is_ts(last) and thread not in self.threads:
                self.join_thread(thread, last)

    def cursor(self, seen: str) -> Cursor:
        threads = (f"{thread}={last}" for thread, last in self.threads.items())
        return Cursor(channel=_PREFIX + self.id, value=" ".join((seen, *threads)))


class SlackChannels:
    """All channels. They survive a lost connection, and through their cursors a restart."""

    def __init__(self) -> None:
        self.history_fails = False  # Slack does not return it at the moment
        self.history_since = ""  # earlier messages may have been answered
        self.since = ""  # when we first listened: earlier messages were not addressed to us
        self.are_listed = False  # whether Slack was asked for unknown channels since the last gap
        self._channels: dict[str, SlackChannel] = {}
        self._placed: OrderedDict[tuple[str, str], str] = OrderedDict()  # message -> its thread
        self._taken: OrderedDict[tuple[str, str], bool] = OrderedDict()  # message -> was it addressed to us

    def load(self, cursors: Mapping[str, str], *, history_since_ms: int = 0) -> None:
        """Load the cursors; all channels are behind then."""
        self.history_since = f"{history_since_ms // 1000:010d}.{history_since_ms % 1000:03d}000"
        self.since = self.since or cursors.get(SINCE, "")
        for channel, value in cursors.items():
            seen, _, threads = value.partition(" ")
            if channel.startswith(_PREFIX) and is_ts(seen):
                id_ = channel.removeprefix(_PREFIX)
                self._channels.setdefault(id_, SlackChannel(id_)).restore(seen, threads)
        self.mark_all_doubtful()

    def get(self, channel: str) -> SlackChannel:
        if channel not in self._channels:
            self._channels[channel] = SlackChannel(channel)
            if not self.are_listed:
                self._mark_doubtful(self._channels[channel])
        return self._channels[channel]

    def mark_all_doubtful(self) -> None:
        """Note that messages may be missing in any channel, also in unknown ones."""
        self.are_listed = False
        for room in self._channels.values():
            self._mark_doubtful(room)

    def _mark_doubtful(self, room: SlackChannel) -> None:
        if room.seen:
            room.mark_doubtful()
        elif self.since:  # its first message may be among the missing ones
            room.mark_missed(self.since)

    def list_behind(self) -> list[SlackChannel]:
        """Return the channels that are behind: those with live messages first, then the most recently used."""
        behind = (room for room in self._channels.values() if not room.is_current)
        return sorted(
            behind, key=lambda room: (room.waiting > 0, max((room.seen, *room.threads.values()))), reverse=True
        )

    def record_thread(self, channel: str, ts: str, thread: str) -> None:
        """Remember a message's thread: Slack does not name it when somebody reacts."""
        if thread and thread != ts:
            self._placed[channel, ts] = thread
            while len(self._placed) > _PLACED_KEPT:
                self._placed.popitem(last=False)

    def record_own_message(self, channel: str, ts: str, thread: str) -> None:
        """Note a message of ours; in a channel, replies to it are addressed to us."""
        self.record_thread(channel, ts, thread)
        opened = thread or (ts if not channel.startswith("D") else "")
        if is_ts(opened) and is_ts(ts):
            self.get(channel).join_thread(opened, ts)

    def find_thread(self, channel: str, ts: str) -> str:
        return self._placed.get((channel, ts), "")

    def record_accepted(self, messages: Iterable[InboundMessage]) -> None:
        for message in messages:
            if message.kind == "message":
                self._taken[message.key.chat, message.message_id] = message.addressed
        while len(self._taken) > _TAKEN_KEPT:
            self._taken.popitem(last=False)

    def is_known(self, message: InboundMessage) -> bool:
        """Return whether it was accepted: Slack sends mentions twice. A copy that is newly addressed to us is new."""
        before = self._taken.get((message.key.chat, message.message_id))
        return message.kind == "message" and before is not None and before >= message.addressed


class Directory:
    """The names of people and channels: cached, and left out when Slack does not answer in time."""

    def __init__(self, api: SlackWebApi, account: str) -> None:
        self._api = api
        self._account = account
        self._known: OrderedDict[str, tuple[float, Wire]] = OrderedDict()
        self._missing_scopes: set[str] = set()

    async def fetch_names(self, people: Iterable[str]) -> dict[str, str]:
        """Return names by id; unknown ones are empty."""
        ids = sorted(set(people))
        found = await asyncio.gather(*(self._fetch("users.info", "user", one) for one in ids))
        return dict(zip(ids, map(_read_name, found), strict=True))

    async def fetch_place(self, channel: str, channel_type: object = None) -> SlackPlace:
        """`channel_type` is what the event says, if anything."""
        kind = _KINDS.get(str(channel_type)) or ("dm" if channel.startswith("D") else None)
        if kind == "dm":
            return SlackPlace(id=channel, kind="dm")
        told = await self._fetch("conversations.info", "channel", channel)
        if kind is None:
            kind = "dm" if told.get("is_im") else "group" if told.get("is_mpim") else "channel"
        return SlackPlace(id=channel, kind=kind, name=one_line(told.get("name")))

    async def can_speak_in(self, channel: str) -> bool:
        """Return whether we are a member; True if Slack does not say. Not cached: people invite us right after a no."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                told = (await self._api.call("conversations.info", channel=channel)).get("channel")
        except (SlackProblem, TimeoutError) as error:
            self._log_missing_scope(error)
            return not (isinstance(error, SlackRefused) and error.error in _NOT_FOR_US)
        return not isinstance(told, dict) or told.get("is_member") is not False

    async def fetch_opening(self, channel: str, thread: str) -> Wire:
        """Return the first message of a thread; empty if it cannot be had in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                answer = await self._api.call("conversations.replies", channel=channel, ts=thread, limit=1)
        except (SlackProblem, TimeoutError) as error:
            self._log_missing_scope(error)
            return {}
        first = next(iter(answer.get("messages") or ()), None)
        return first if isinstance(first, dict) else {}

    async def _fetch(self, method: str, argument: str, id_: str) -> Wire:
        until, known = self._known.get(id_, (0.0, {}))
        if until > time.monotonic():
            self._known.move_to_end(id_)
            return known
        good_for = _FAILED_FOR_SECONDS
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                told = (await self._api.call(method, **{argument: id_})).get(argument)
            if isinstance(told, dict):
                known, good_for = told, _GOOD_FOR_SECONDS
        except (SlackProblem, TimeoutError) as error:
            self._log_missing_scope(error)
        self._known[id_] = time.monotonic() + good_for, known
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known

    def _log_missing_scope(self, error: Exception) -> None:
        if isinstance(error, SlackRefused) and error.needed and error.needed not in self._missing_scopes:
            self._missing_scopes.add(error.needed)
            log.warning("names cannot be read", account=self._account, missing_scope=error.needed)


def _read_name(user: Wire) -> str:
    profile = user.get("profile")
    shown = profile.get("display_name") or profile.get("real_name") if isinstance(profile, dict) else ""
    return one_line(shown or user.get("real_name") or user.get("name"))


def just_before(ts: str, seconds: int = 0) -> str:
    """Return a time before, in Slack's notation."""
    whole, _, fraction = ts.partition(".")
    micros = int(whole) * 1_000_000 + int(fraction.ljust(6, "0")[:6]) - seconds * 1_000_000 - 1
    return f"{micros // 1_000_000:010d}.{micros % 1_000_000:06d}"
