"""Listening to Discord: events from discord.py become events of channels, and are accepted in order."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import discord
import structlog
from discord.http import Route

from gateway.clock import now_ms
from gateway.errors import PlatformUnavailable
from gateway.messages import Cursor, InboundMessage, Sender, SessionKey
from gateway.platforms.base import Inlet
from gateway.platforms.discord.channels import ChannelGone, Channels, Event, HistoryPage
from gateway.platforms.discord.errors import (
    NETWORK_ERRORS,
    describe_failure,
    is_access_denied,
    is_gone,
    translate_history_error,
)
from gateway.platforms.discord.parsing import (
    DiscordIdentity,
    Interaction,
    build_deletion,
    choose_thread_name,
    move_to_thread,
    parse_edit,
    parse_interaction,
    parse_message,
    parse_reaction,
)
from gateway.platforms.discord.transport import PAGE, DiscordTransport, GuildReadable, Handler, Readable

log = structlog.get_logger()

Acknowledge = Callable[[Interaction], Awaitable[None]]

_MAX_UNANSWERED = 100
_ANSWER_SECONDS = 5.0
_REMEMBERED_MESSAGES = 2_000  # author and session, for later edits, deletions and reactions
_FEW_SESSIONS = 50  # with fewer session starts left today, we wait for the next day
_LONG_WAIT_SECONDS = 3_600.0
_THREAD_TRIES = 3
_THREAD_ARCHIVED_AFTER_MINUTES: Literal[1440] = 1440
_THREAD_EXISTS = 160004
_EPHEMERAL = 1 << 6
_MESSAGE, _NOTHING_NEW = 4, 6  # kinds of answers to an interaction
_IDENTIFIES_CHANNEL = "identifies"
_FREELY = 200  # identifies a day without a wait
_THEN_EVERY_SECONDS = 300.0  # at most 288 more


class DiscordListener:
    """Receives events for one connection and hands them to the channels."""

    def __init__(
        self,
        transport: DiscordTransport,
        me: DiscordIdentity,
        inlet: Inlet,
        background: asyncio.TaskGroup,
        *,
        own_threads: bool,
    ) -> None:
        self._transport = transport
        self._me = me
        self._inlet = inlet
        self._background = background
        self._own_threads = own_threads
        self._channels = Channels(inlet, background, account=me.account, read=self._read, open_thread=self._open_thread)
        self._is_begun = False
        self._newest = 0  # message seen before this connection
        self._fetched: dict[int, Readable] = {}
        self._first_heard: dict[int, int] = {}  # new direct channels to read, with their first live message
        self._known: OrderedDict[int, tuple[SessionKey, Sender]] = OrderedDict()
        self._answers: set[asyncio.Task[None]] = set()
        handlers: dict[str, Handler] = {
            "frame": self._on_frame,
            "connect": self._on_connect,
            "resumed": self._on_resumed,
            "ready": self._on_ready,
            "guild_available": self._on_guild,
            "guild_join": self._on_guild,
            "message": self._on_message,
            "raw_message_edit": self._on_edit,
            "raw_message_delete": self._on_delete,
            "raw_bulk_message_delete": self._on_bulk_delete,
            "raw_reaction_add": self._on_reaction,
            "raw_reaction_remove": self._on_reaction,
            "interaction": self._on_interaction,
        }
        transport.handlers = handlers

    async def listen(self) -> None:
        """Run until cancelled. Raises PlatformUnavailable, StoreUnavailable, or what discord.py raises."""
        await self._channels.load()
        # Even before a session of the last run is resumed: its last events may not have been accepted.
        self._expect_gaps()
        gateway, limit = await self._transport.find_gateway()
        left, reset_ms = limit.get("remaining"), limit.get("reset_after")
        if isinstance(left, int) and left < _FEW_SESSIONS and not self._transport.can_resume:
            wait = reset_ms / 1000 if isinstance(reset_ms, int) else _LONG_WAIT_SECONDS
            raise PlatformUnavailable(
                f"Discord allows only {left} more connections today; waiting, so that the token is not reset",
                retry_after=min(wait, _LONG_WAIT_SECONDS),
            )
        await self._transport.listen(gateway, self._before_identify)

    async def _before_identify(self) -> None:
        counted = Identifies.parse(await self._inlet.cursor(_IDENTIFIES_CHANNEL))
        if wait := counted.wait_seconds(now_ms()):
            raise PlatformUnavailable(
                f"connected {counted.count} times today; waiting, because Discord resets the token at 1,000",
                retry_after=wait,
            )
        await self._inlet.accept([], counted.add_one(now_ms()).cursor)

    # Connection events.

    def _on_frame(self, _: object) -> None:
        self._inlet.alive()

    def _on_connect(self) -> None:
        self._inlet.alive()
        self._is_begun = True
        self._expect_gaps()

    def _on_resumed(self) -> None:
        """Discord repeats what was missed; a new run must read the history too."""
        self._inlet.alive()
        if not self._is_begun:
            self._is_begun = True
            for guild in self._transport.guilds:
                self._on_guild(guild)
            self._on_ready()

    def _expect_gaps(self) -> None:
        self._newest = max(self._channels.seen.values(), default=0)
        self._fetched.clear()
        self._channels.mark_behind(list(self._channels.seen))

    def _on_guild(self, guild: discord.Guild) -> None:
        for channel in (*guild.channels, *guild.threads):
            if isinstance(channel, GuildReadable) and _may_see(channel, guild.get_member(self._me.id)):
                self._check_channel(channel)

    def _check_channel(self, channel: GuildReadable) -> None:
        last, seen = channel.last_message_id or channel.id, self._channels.seen.get(channel.id)
        if seen is not None:
            if last > seen:
                self._channels.catch_up(channel.id)
            else:
                self._channels.mark_current(channel.id)
        elif self._newest and channel.id >= self._newest:  # created while we were away: all of it is new
            self._channels.catch_up(channel.id, after=channel.id)
        else:
            self._channels.put(channel.id, Event(mark=last))

    def _on_ready(self) -> None:
        """Read the channels that belong to no guild: direct messages and archived threads."""
        for channel in list(self._channels.seen):
            if self._transport.get_channel(channel) is None:
                self._channels.catch_up(channel)

    # Channel events.

    def _on_message(self, message: discord.Message) -> None:
        event = self._event(message)
        if not event.messages:
            return
        channel = message.channel.id
        if event.messages[0].key.kind == "dm" and channel not in self._channels.seen:
            # Discord does not list direct channels: there may be messages from while we were away.
            self._first_heard[channel] = message.id
            self._channels.catch_up(channel, after=0)
        self._channels.put(channel, event)

    def _event(self, message: discord.Message) -> Event:
        words = parse_message(message, self._me)
        if words is None:
            return Event(mark=message.id)
        name = choose_thread_name(message, self._me) if self._own_threads else ""
        self._remember(message.id, words)
        return Event(messages=(words,), mark=message.id, opens_thread=name)

    def _on_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        words = parse_edit(event.message, self._me)
        if words is not None:
            key, _ = self._known.get(event.message_id, (words.key, None))
            self._channels.put(event.channel_id, Event(messages=(replace(words, key=key),)))

    def _on_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self._report_deletion(event.channel_id, event.message_id)

    def _on_bulk_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        for message_id in sorted(event.message_ids):
            self._report_deletion(event.channel_id, message_id)

    def _report_deletion(self, channel: int, message_id: int) -> None:
        if known := self._known.pop(message_id, None):
            self._channels.put(channel, Event(messages=(build_deletion(message_id, *known, at_ms=now_ms()),)))

    def _on_reaction(self, event: discord.RawReactionActionEvent) -> None:
        key, _ = self._known.get(event.message_id, (None, None))
        channel = self._transport.get_channel(event.channel_id)
        words = parse_reaction(event, self._me, channel, key=key, at_ms=now_ms())
        if words is not None:
            self._channels.put(event.channel_id, Event(messages=(words,)))

    def _on_interaction(self, interaction: Interaction) -> None:
        words = parse_interaction(interaction, self._me)
        if words is not None and interaction.channel_id is not None:
            answer = self._acknowledge_press if words.kind == "button" else self._acknowledge_command
            event = Event(messages=(words,), then=lambda: self._start_answer(answer, interaction))
            self._channels.put(interaction.channel_id, event, urgent=True)

    def _remember(self, message_id: int, message: InboundMessage) -> None:
        self._known[message_id] = message.key, message.sender
        while len(self._known) > _REMEMBERED_MESSAGES:
            self._known.popitem(last=False)

    # History.

    async def _read(self, channel_id: int, after: int) -> HistoryPage | None:
        first = self._first_heard.get(channel_id)
        try:
            if first is None:
                found = await self._transport.fetch_history(channel_id, after)
            else:
                found = await self._transport.fetch_unanswered(channel_id, self._me.id, after=after, before=first)
            # Fetched second: most direct channels have nothing new.
            channel = await self._channel(channel_id) if found else None
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            if is_access_denied(error):
                self._first_heard.pop(channel_id, None)
                return None
            if is_gone(error) and not any(guild.unavailable for guild in self._transport.guilds):
                self._first_heard.pop(channel_id, None)
                raise ChannelGone from error
            raise translate_history_error(error) from error
        events: list[Event] = []
        if channel is not None:
            messages = (self._transport.build_message(channel, raw) for raw in found)
            events = [Event(mark=one) if isinstance(one, int) else self._event(one) for one in messages]
        if first is not None:
            del self._first_heard[channel_id]
            self._fetched.pop(channel_id, None)
            return HistoryPage(events=(*events, Event(mark=first - 1)), has_more=False)  # the rest arrives live
        has_more = len(events) == PAGE
        if not has_more:
            self._fetched.pop(channel_id, None)
        return HistoryPage(events=events, has_more=has_more)

    async def _channel(self, channel_id: int) -> Readable | None:
        channel = self._fetched.get(channel_id) or await self._transport.find_channel(channel_id)
        if channel is not None and self._transport.get_channel(channel_id) is None:
            self._fetched[channel_id] = channel  # until its last page
        return channel

    # A thread for each conversation.

    async def _open_thread(self, event: Event) -> Event:
        if not event.opens_thread:
            return event
        [message] = event.messages
        if not await self._inlet.serves(message):
            return replace(event, opens_thread="")
        if not await self._create_thread(int(message.key.chat), event.mark, event.opens_thread):
            return replace(event, opens_thread="")
        moved = move_to_thread(message, event.opens_thread)
        self._remember(event.mark, moved)
        self._channels.put(event.mark, Event(mark=event.mark))  # so that its history is read after an absence
        return replace(event, messages=(moved,), opens_thread="")

    async def _create_thread(self, channel: int, message: int, name: str) -> bool:
        for _ in range(_THREAD_TRIES):
            try:
                await self._transport.http.start_thread_with_message(
                    channel, message, name=name, auto_archive_duration=_THREAD_ARCHIVED_AFTER_MINUTES
                )
                return True
            except discord.HTTPException as error:
                if error.code == _THREAD_EXISTS:
                    return True
                log.info("no thread opened", account=self._me.account, channel=channel, problem=error.code)
                return False
            except (discord.DiscordException, *NETWORK_ERRORS) as error:
                log.info("no thread opened", account=self._me.account, channel=channel, problem=describe_failure(error))
        return False

    # Acknowledging interactions.

    def _start_answer(self, say: Acknowledge, interaction: Interaction) -> None:
        """Acknowledge in the background."""
        if len(self._answers) < _MAX_UNANSWERED:
            task = self._background.create_task(self._run_answer(say, interaction), name="answer an interaction")
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    async def _run_answer(self, say: Acknowledge, interaction: Interaction) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await say(interaction)
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            log.debug("interaction left unanswered", account=self._me.account, problem=describe_failure(error))

    async def _acknowledge_press(self, interaction: Interaction) -> None:
        await self._call_back(interaction, {"type": _NOTHING_NEW})

    async def _acknowledge_command(self, interaction: Interaction) -> None:
        """Post an ephemeral reply and delete it: the answer comes as an ordinary message."""
        await self._call_back(interaction, {"type": _MESSAGE, "data": {"content": "…", "flags": _EPHEMERAL}})
        await self._transport.http.request(
            Route(
                "DELETE",
                "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
                webhook_id=interaction.application_id,
                webhook_token=interaction.token,
            )
        )

    async def _call_back(self, interaction: Interaction, answer: dict[str, Any]) -> None:
        route = Route(
            "POST",
            "/interactions/{webhook_id}/{webhook_token}/callback",
            webhook_id=interaction.id,
            webhook_token=interaction.token,
        )
        await self._transport.http.request(route, json=answer)


def _may_see(channel: GuildReadable, member: discord.Member | None) -> bool:
    try:
        return member is None or channel.permissions_for(member).read_messages
    except discord.ClientException:  # a thread of a hidden channel
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifies:
    """The number of identifies today: Discord resets the token of a bot after a thousand in one day."""

    day: str = ""
    count: int = 0
    last_ms: int = 0

    @property
    def cursor(self) -> Cursor:
        return Cursor(channel=_IDENTIFIES_CHANNEL, value=f"{self.day} {self.count} {self.last_ms}")

    @classmethod
    def parse(cls, value: str) -> "Identifies":
        try:
            day, count, last_ms = value.split()
            return cls(day=day, count=int(count), last_ms=int(last_ms))
        except ValueError:
            return cls()

    def wait_seconds(self, at_ms: int) -> float:
        """Return how long the next one must wait; 0 if it may be now."""
        if self.day != _day(at_ms) or self.count < _FREELY:
            return 0.0
        return max(0.0, self.last_ms / 1000 + _THEN_EVERY_SECONDS - at_ms / 1000)

    def add_one(self, at_ms: int) -> "Identifies":
        count = self.count if self.day == _day(at_ms) else 0
        return Identifies(day=_day(at_ms), count=count + 1, last_ms=at_ms)


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
