"""Accept events channel by channel, in order, and read from the history what happened while we were away.

Discord has no acknowledgements: our own cursor says how far a channel was accepted. While something may be missing
between the cursor and the live events, the cursor does not move, so a crash skips nothing; duplicates are recognised.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from gateway.clock import now_ms
from gateway.errors import PlatformUnavailable, StoreUnavailable
from gateway.messages import Cursor, InboundMessage
from gateway.platforms.base import Inlet
from gateway.platforms.discord.parsing import ms_to_snowflake
from gateway.policies.backoff import backoff_seconds

log = structlog.get_logger()

_SEEN = "seen:"
_GONE = "gone"
_MAX_WAITING = 1_000  # in one channel; more are read from the history later
_STORE_PATIENCE_SECONDS = 10.0
_READERS = 4
_PATIENT_TRIES, _PATIENCE_SECONDS = 2, 3.0  # then live messages go first
_OLDEST_MS = 24 * 3600 * 1000  # older messages are not answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event in a channel."""

    messages: tuple[InboundMessage, ...] = ()
    mark: int = 0  # a message's id: once accepted, the channel is seen up to it
    opens_thread: str = ""  # the thread's name, if the message starts a conversation in a thread of its own
    then: Callable[[], None] | None = None  # called once accepted; must not wait


class ChannelGone(Exception):
    """The channel was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    events: Sequence[Event]
    has_more: bool


Read = Callable[[int, int], Awaitable[HistoryPage | None]]
"""Return the next page after a message; None where we may not read. Raises ChannelGone or PlatformUnavailable."""

OpenThread = Callable[[Event], Awaitable[Event]]
"""Return the event with its messages moved to the thread, if one was opened."""


@dataclass(slots=True)
class _Queue:
    events: deque[Event] = field(default_factory=deque)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # Messages just read from the history may be among the events too. Accepted twice they would count twice against
    # their sender's rate limit.
    read: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_WAITING))


@dataclass(slots=True, eq=False)
class Channels:
    """The queues and cursors of all channels of an account."""

    inlet: Inlet
    background: asyncio.TaskGroup
    account: str
    read: Read
    open_thread: OpenThread
    seen: dict[int, int] = field(default_factory=dict)
    _history_since: int = 0
    _behind: dict[int, int] = field(default_factory=dict)  # channels to read from the history, and since which gap
    _new: dict[int, int] = field(default_factory=dict)  # channels never read before, and the gap in which they appeared
    _turn: int = 0
    _queues: dict[tuple[int, bool], _Queue] = field(default_factory=dict)
    _to_read: deque[int] = field(default_factory=deque)
    _reading: set[int] = field(default_factory=set)

    async def load(self) -> None:
        """Raises StoreUnavailable."""
        self._history_since = ms_to_snowflake(await self.inlet.history_since_ms())
        for name, value in (await self.inlet.cursors()).items():
            channel = name.removeprefix(_SEEN)
            if channel != name and channel.isdecimal() and value.isdecimal():
                self.seen[int(channel)] = int(value)

    def put(self, channel: int, event: Event, *, urgent: bool = False) -> None:
        """Queue an event behind earlier ones. An urgent one does not wait for the history."""
        queue = self._queue(channel, urgent=urgent)
        if len(queue.events) < _MAX_WAITING:
            queue.events.append(event)
        elif event.mark:
            self.seen.setdefault(channel, next((one.mark for one in queue.events if one.mark), event.mark) - 1)
            self.mark_behind([channel])
        queue.changed.set()

    def mark_behind(self, channels: Iterable[int]) -> None:
        """Note that messages may be missing; they are read with the next event, or by `catch_up`."""
        self._turn += 1
        for channel in channels:
            if channel in self.seen:
                self._behind[channel] = self._turn

    def catch_up(self, channel: int, *, after: int | None = None) -> None:
        """Read the history without an event, a few channels at a time; `after` is for a channel never seen before."""
        if after is not None:
            self.seen.setdefault(channel, after)
            self.mark_behind([channel])
            self._new.setdefault(channel, self._turn)
        self._to_read.append(channel)
        self._read_more()

    def mark_current(self, channel: int) -> None:
        self._behind.pop(channel, None)

    def _read_more(self) -> None:
        while self._to_read and len(self._reading) < _READERS:
            channel = self._to_read.popleft()
            # A channel with live events is being read already.
            if channel in self._behind and (channel, False) not in self._queues:
                self._reading.add(channel)
                self._queue(channel, urgent=False)

    def _queue(self, channel: int, *, urgent: bool) -> _Queue:
        queue = self._queues.get((channel, urgent))
        if queue is None:
            queue = self._queues[channel, urgent] = _Queue()
            self.background.create_task(self._process(channel, queue, urgent=urgent), name=f"take from {channel}")
        return queue

    async def _process(self, channel: int, queue: _Queue, *, urgent: bool) -> None:
        failures, wait = 0, 0.0
        while queue.events or (channel in self._behind and not urgent):
            if channel in self._behind and not urgent and not wait:
                try:
                    await self._catch_up(channel, queue)
                    failures = 0
                except PlatformUnavailable as error:
                    failures += 1
                    wait = error.retry_after or backoff_seconds(failures)
                    log.warning("history not read", account=self.account, channel=channel, problem=str(error))
                self._reading.discard(channel)
                self._read_more()
                if 0 < wait <= _PATIENCE_SECONDS and failures <= _PATIENT_TRIES:
                    await asyncio.sleep(wait)  # live messages must not overtake missed ones
                    wait = 0.0
                    continue
            while queue.events:
                event = queue.events[0]
                if not event.mark or event.mark not in queue.read:
                    await self._accept_event(channel, await self.open_thread(event))
                queue.events.popleft()
            if channel in self._behind and not urgent and wait:
                wait = await _wait_for_event(queue, wait)
        del self._queues[channel, urgent]  # no await since the check: it is empty

    async def _accept_event(self, channel: int, event: Event) -> None:
        is_newer = event.mark > self.seen.get(channel, 0) and channel not in self._behind
        if event.messages or is_newer:
            await self._accept(event.messages, self._cursor(channel, event.mark) if is_newer else None)
        if is_newer:
            self.seen[channel] = event.mark
        if event.then is not None:
            event.then()

    async def _catch_up(self, channel: int, queue: _Queue) -> None:
        """Raises PlatformUnavailable; what was read until then is accepted."""
        # A queue that overflowed since the channel was first seen left it behind once more.
        turn = self._new.get(channel, self._behind[channel])
        has_more = True
        while has_more:
            after = max(self.seen[channel], self._history_since, ms_to_snowflake(now_ms() - _OLDEST_MS))
            try:
                page = await self.read(channel, after)
            except ChannelGone:
                await self._accept((), Cursor(channel=f"{_SEEN}{channel}", value=_GONE))
                del self.seen[channel]
                self._behind.pop(channel, None)
                self._new.pop(channel, None)
                return
            if page is None:
                break
            if page.events:
                events = [await self.open_thread(event) for event in page.events]
                last = max(self.seen[channel], *(event.mark for event in events))
                await self._accept([one for event in events for one in event.messages], self._cursor(channel, last))
                self.seen[channel] = last
            queue.read.extend(event.mark for event in page.events)
            has_more = page.has_more
        self._new.pop(channel, None)
        if self._behind.get(channel) == turn:  # else there was another gap meanwhile
            del self._behind[channel]

    async def _accept(self, messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        """Retry until accepted: nothing later in the channel may be accepted before."""
        failures = 0
        while True:
            try:
                await self.inlet.accept(messages, cursor)
                return
            except StoreUnavailable as error:
                failures += 1
                log.warning("messages wait for the store", account=self.account, problem=str(error))
                await asyncio.sleep(min(backoff_seconds(failures), _STORE_PATIENCE_SECONDS))

    @staticmethod
    def _cursor(channel: int, mark: int) -> Cursor:
        return Cursor(channel=f"{_SEEN}{channel}", value=str(mark))


async def _wait_for_event(queue: _Queue, seconds: float) -> float:
    """Wait for an event or until it is time to retry; return the remaining seconds."""
    began = asyncio.get_running_loop().time()
    queue.changed.clear()
    try:
        async with asyncio.timeout(seconds):
            await queue.changed.wait()
    except TimeoutError:
        return 0.0
    return max(0.0, seconds - (asyncio.get_running_loop().time() - began))
