"""Listening to Slack: events of a channel are accepted in order, in one transaction, and then acknowledged."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import structlog

from gateway.clock import now_ms
from gateway.errors import GatewayStopping, StoreUnavailable
from gateway.messages import InboundMessage
from gateway.platforms.base import Inlet
from gateway.platforms.slack.channels import Arrival, Directory, SlackChannel, SlackChannels
from gateway.platforms.slack.parsing import (
    EventContext,
    SlackIdentity,
    add_opening,
    find_channel,
    find_people,
    is_our_own,
    is_ts,
    parse_command,
    parse_event,
    parse_press,
)
from gateway.platforms.slack.web_api import Wire

log = structlog.get_logger()

_NOT_HERE = (
    "I am not in this conversation, so I cannot answer here. If it is a channel, /invite me, or send me a direct "
    "message."
)
_PATIENCE_SECONDS = 2.0  # Slack waits three seconds for the acknowledgement
_SPOKEN = ("message", "app_mention")
_READ = (*_SPOKEN, "reaction_added", "reaction_removed")


@dataclass(slots=True, kw_only=True)
class SlackListener:
    """Receives events for one connection. Each handler returns False if Slack must send the event again."""

    me: SlackIdentity
    inlet: Inlet
    channels: SlackChannels
    directory: Directory
    umbrella: str
    commands: Collection[str]
    fell_behind: Callable[[], None]

    async def handle_event(self, body: Wire) -> bool:
        event = _as_object(body.get("event"))
        channel = find_channel(event)
        if event.get("type") not in _READ:
            await self._handle_membership(event, channel)
            return True
        if not channel or is_our_own(_find_subject(event), self.me):
            return True
        ts = str(event.get("event_ts") or event.get("ts") or "")
        arrival = Arrival(event, ts, is_message=event["type"] in _SPOKEN and "hidden" not in event)
        room = self.channels.get(channel)
        if not room.is_current:
            self.fell_behind()
        room.arrivals.append(arrival)
        if not await room.wait_until_current(_PATIENCE_SECONDS) and self._is_read_later(event, room):
            room.arrivals.remove(arrival)
            room.mark_doubtful()  # the history may have been read before this was posted
            return False
        await asyncio.sleep(0)  # include events that the other socket brings at the same moment
        async with room.lock:
            if arrival.taken is None:
                await self._accept_arrivals(room, arrival)
        return bool(arrival.taken)

    async def handle_press(self, body: Wire) -> bool:
        if body.get("type") != "block_actions":
            return True
        channel = _as_object(body.get("channel")).get("id") or _as_object(body.get("container")).get("channel_id")
        who = _as_object(body.get("user")).get("id")
        return await self._accept_single("press", channel, who, lambda known: parse_press(body, self.me, known))

    async def handle_command(self, body: Wire) -> bool | str:
        """Handle a slash command. People can type it anywhere, also where we cannot answer."""

        def read(known: EventContext) -> InboundMessage | None:
            return parse_command(body, self.me, known, umbrella=self.umbrella, commands=self.commands, at_ms=now_ms())

        channel = body.get("channel_id")
        if isinstance(channel, str) and not await self.directory.can_speak_in(channel):
            return _NOT_HERE
        return await self._accept_single("command", channel, body.get("user_id"), read)

    async def parse(self, event: Wire, room: SlackChannel) -> InboundMessage | None:
        """Parse an event; None if it is no message or cannot be parsed."""
        try:
            place = await self.directory.fetch_place(room.id, event.get("channel_type"))
            names = await self.directory.fetch_names(find_people(_find_subject(event)))
            ts = str(_as_object(event.get("item")).get("ts") or "")
            thread = self.channels.find_thread(room.id, ts)
            known = EventContext(place=place, names=names, our_threads=room.threads, thread=thread)
            message = parse_event(event, self.me, known)
            if message is not None and self._is_new_here(message, event, room):
                opening = await self.directory.fetch_opening(room.id, message.key.thread)
                message = add_opening(message, opening, await self.directory.fetch_names(find_people(opening)))
        # Contained: one event that fails must neither stop the others nor come for ever. No traceback: it may quote
        # what people wrote.
        except Exception as error:  # noqa: BLE001
            self._log_skipped(event.get("type"), error)
            return None
        if message is not None and message.kind == "message":
            self.channels.record_thread(room.id, message.message_id, message.key.thread)
            if message.addressed and message.key.thread:
                room.join_thread(message.key.thread, message.message_id)
        return message

    def _is_new_here(self, message: InboundMessage, event: Wire, room: SlackChannel) -> bool:
        """Return whether we are called into an unknown thread, or one begins below a message of ours."""
        thread, is_below_ours = message.key.thread, event.get("parent_user_id") == self.me.user
        if message.kind != "message" or not message.addressed or thread in ("", message.message_id):
            return False
        return thread not in room.threads or (is_below_ours and room.threads[thread] == thread)

    def drop_known(self, read: Iterable[InboundMessage | None]) -> list[InboundMessage]:
        """Drop duplicates: they would count twice against their sender's rate limit before the inbox sees them."""
        found: dict[tuple[str, str, int], InboundMessage] = {}
        for message in read:
            if message is not None:
                key = message.message_id, message.kind, message.edited_ms
                # The first copy has the thread's opening; for the second the thread is known.
                if key not in found or message.addressed > found[key].addressed:
                    found[key] = message
        return [message for message in found.values() if not self.channels.is_known(message)]

    async def accept(self, room: SlackChannel, messages: Sequence[InboundMessage]) -> None:
        """Call under the channel's lock. Raises StoreUnavailable or GatewayStopping if nothing was accepted."""
        said = [one.message_id for one in messages if one.kind == "message" and is_ts(one.message_id)]
        newest = max((room.newest, *said))
        seen = max(room.seen, newest) if room.is_current else ""
        await self.inlet.accept(messages, room.cursor(seen) if seen and said else None)
        room.newest, room.seen = newest, seen or room.seen
        self.channels.record_accepted(messages)

    async def _accept_arrivals(self, room: SlackChannel, one: Arrival) -> None:
        """Accept all waiting events at once: a burst is one commit, and events of two sockets get into order."""
        batch = sorted(room.arrivals, key=lambda arrival: arrival.ts) if room.is_current else [one]
        read = [await self.parse(arrival.event, room) for arrival in batch]
        messages = self.drop_known(read)
        taken = True
        try:
            if messages:
                await self.accept(room, messages)
        except (StoreUnavailable, GatewayStopping) as error:
            taken = False
            log.warning("messages not accepted", account=self.me.account, problem=str(error))
            missed = [arrival.ts for arrival in batch if arrival.is_message]
            if missed:
                room.mark_missed(min(missed))
                self.fell_behind()
        for arrival in batch:
            arrival.taken = taken
        room.arrivals = [arrival for arrival in room.arrivals if arrival.taken is None]

    def _is_read_later(self, event: Wire, room: SlackChannel) -> bool:
        """Return whether the channel's history will contain it: unknown threads are not read."""
        if self.channels.history_fails or event["type"] not in _SPOKEN or "hidden" in event:
            return False
        return room.id.startswith("D") or event.get("thread_ts") in (None, event.get("ts"), *room.threads)

    async def _accept_single(
        self, what: str, channel: object, who: object, read: Callable[[EventContext], InboundMessage | None]
    ) -> bool:
        if not isinstance(channel, str) or not isinstance(who, str):
            return True  # for instance a button in a modal window
        place, names = await asyncio.gather(self.directory.fetch_place(channel), self.directory.fetch_names([who]))
        try:
            message = read(EventContext(place=place, names=names))
        except Exception as error:  # noqa: BLE001 - contained, as above
            self._log_skipped(what, error)
            return True
        try:
            if message is not None:
                await self.inlet.accept([message], None)
        except (StoreUnavailable, GatewayStopping) as error:
            log.warning("messages not accepted", account=self.me.account, problem=str(error))
            return False
        return True

    async def _handle_membership(self, event: Wire, channel: str) -> None:
        kind, is_us = event.get("type"), event.get("user") == self.me.user
        if kind == "member_left_channel" and is_us:
            log.info("the bot was removed from a channel", account=self.me.account, chat=channel)
        elif channel and (
            kind in ("channel_unarchive", "group_unarchive") or (kind == "member_joined_channel" and is_us)
        ):
            log.info("the bot can write in a channel", account=self.me.account, chat=channel)
            await self.inlet.chat_reachable(channel)

    def _log_skipped(self, what: object, error: Exception) -> None:
        log.error("event skipped", account=self.me.account, kind=str(what)[:40], problem=type(error).__name__)


def _find_subject(event: Wire) -> Wire:
    """Return the message that an event is about, if the event contains it."""
    now = _as_object(event.get("message"))
    match event.get("subtype"):
        case "message_changed" if now.get("subtype") != "tombstone":
            return now
        case "message_changed" | "message_deleted":
            return _as_object(event.get("previous_message"))
        case _:
            return event


def _as_object(value: object) -> Wire:
    return value if isinstance(value, dict) else {}
