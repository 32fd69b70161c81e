"""Listening to Discord: events from discord.py become events of channels, and are accepted in order."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Literal

import discord
import structlog
from discord.http import Route

from gateway.clock import now_ms
from gateway.messages import InboundMessage, Sender, SessionKey
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
from gateway.platforms.transport import BackgroundCalls

log = structlog.get_logger()

_ANSWER_SECONDS = 5.0
_REMEMBERED_MESSAGES = 2_000  # author and session, for later edits, deletions and reactions
_THREAD_TRIES = 3
_THREAD_ARCHIVED_AFTER_MINUTES: Literal[1440] = 1440
_THREAD_EXISTS = 160004
_EPHEMERAL = 1 << 6
_MESSAGE, _NOTHING_NEW = 4, 6  # kinds of answers to an interaction


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
        self._answers = BackgroundCalls(background)
        handlers: dict[str, Handler] = {
            "frame": lambda _: inlet.alive(),
            "connect": self._on_connect,
            "resumed": self._on_resumed,
            "ready": self._on_ready,
            "guild_available": self._on_guild,
            "guild_join": self._on_guild,
            "message": self._on_message,
            "raw_message_edit": self._on_edit,
            "raw_message_delete": lambda event: self._on_delete(event.channel_id, [event.message_id]),
            "raw_bulk_message_delete": lambda event: self._on_delete(event.channel_id, event.message_ids),
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
        await self._transport.listen()

    # Connection events.

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

    def _on_delete(self, channel: int, message_ids: Collection[int]) -> None:
        for message_id in sorted(message_ids):
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
            answer = partial(self._acknowledge, interaction, is_press=words.kind == "button")
            event = Event(messages=(words,), then=lambda: self._answers.start(answer()))
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

    async def _acknowledge(self, interaction: Interaction, *, is_press: bool) -> None:
        callback = "/interactions/{webhook_id}/{webhook_token}/callback"
        original = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"
        token = interaction.token
        # After a command, an ephemeral reply is posted and deleted: the answer comes as an ordinary message.
        reply = {"type": _MESSAGE, "data": {"content": "…", "flags": _EPHEMERAL}}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                route = Route("POST", callback, webhook_id=interaction.id, webhook_token=token)
                await self._transport.http.request(route, json={"type": _NOTHING_NEW} if is_press else reply)
                if not is_press:
                    route = Route("DELETE", original, webhook_id=interaction.application_id, webhook_token=token)
                    await self._transport.http.request(route)
        except (discord.DiscordException, *NETWORK_ERRORS) as error:
            log.debug("interaction left unanswered", account=self._me.account, problem=describe_failure(error))


def _may_see(channel: GuildReadable, member: discord.Member | None) -> bool:
    try:
        return member is None or channel.permissions_for(member).read_messages
    except discord.ClientException:  # a thread of a hidden channel
        return False
