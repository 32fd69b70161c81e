"""Read missed messages from the history: after a connect, a broken connection or a full disk."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from gateway.clock import now_ms
from gateway.errors import GatewayStopping, StoreUnavailable
from gateway.messages import Cursor
from gateway.platforms.slack.channels import SINCE, SlackChannel, SlackChannels, just_before
from gateway.platforms.slack.listener import SlackListener
from gateway.platforms.slack.web_api import SlackProblem, SlackRefused, SlackTooFast, SlackWebApi, Wire
from gateway.policies.backoff import backoff_seconds

log = structlog.get_logger()

DAY_SECONDS = 24 * 3600
_OVERLAP_SECONDS = 60  # an envelope may be late, and a later one already accepted
_PAGE = 200
_MAX_PAGES = 5
_TAKEN_AT_ONCE = 100
_GONE = ("channel_not_found", "not_in_channel")
_MAX_UNHEARD = 100  # of each kind
_SLACKBOT = "USLACKBOT"
_JOINED = ("channel_join", "group_join")

Ask = Callable[..., Awaitable[Wire]]


@dataclass(slots=True, eq=False)
class Backfill:
    """Reads the history of channels that are behind."""

    api: SlackWebApi
    channels: SlackChannels
    listener: SlackListener
    account: str
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _unlisted: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Read the channels that are behind."""
        self._wanted.set()

    def restart(self) -> None:
        """Read all channels, also those that we do not know yet."""
        self.channels.mark_all_doubtful()
        self._unlisted.set()
        self._wanted.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_when(self._wanted, self._catch_up_all), name="read what slack has kept")
            # Separate: known channels must not wait for it.
            group.create_task(self._run_when(self._unlisted, self._find_new_channels), name="list slack conversations")

    async def _run_when(self, wanted: asyncio.Event, work: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                await work()
                failures = 0
            except GatewayStopping:
                return
            except (SlackProblem, StoreUnavailable) as error:
                failures += 1
                log.warning("history not read yet", account=self.account, problem=str(error))
                await asyncio.sleep(backoff_seconds(failures))
                wanted.set()

    async def _catch_up_all(self) -> None:
        """Read channel after channel, the most urgent first; the order is decided anew each time."""
        try:
            while behind := self.channels.list_behind():
                await self._catch_up(behind[0])
        except (SlackProblem, StoreUnavailable):
            self.channels.history_fails = True
            raise

    async def _find_new_channels(self) -> None:
        """Find channels without a cursor: somebody may have written there for the first time."""
        if not self.channels.since:
            since = ts_seconds_ago(0)
            await self.listener.inlet.accept([], Cursor(channel=SINCE, value=since))
            self.channels.since, self.channels.are_listed = since, True
            return
        listed = [*await self._list_channels("im"), *await self._list_channels("mpim")]
        listed += [*await self._list_channels("private_channel"), *await self._list_channels("public_channel")]
        for channel in listed:
            self.channels.get(channel)
        self.channels.are_listed = not self._unlisted.is_set()  # else there was another gap meanwhile
        self._wanted.set()

    async def _list_channels(self, kind: str) -> list[str]:
        """Return the conversations that we are in, the newest first."""
        try:
            found = await _fetch_pages(self._ask, "users.conversations", "channels", types=kind, exclude_archived=True)
        except SlackRefused as error:
            log.warning("new conversations not listed", account=self.account, kind=kind, problem=str(error))
            return []
        young = sorted(found, key=lambda one: str(one.get("created") or ""), reverse=True)[:_MAX_UNHEARD]
        return [str(one["id"]) for one in young if one.get("id") and one.get("user") != _SLACKBOT]

    async def _catch_up(self, room: SlackChannel) -> None:
        doubts = room.doubts
        try:
            count = await self._read_history(room)
        except SlackRefused as error:
            log.warning("a channel's history cannot be read", account=self.account, chat=room.id, problem=str(error))
            count = 0
            if error.error in _GONE:  # coming back is like the first time
                async with room.lock:
                    await self.listener.inlet.accept([], room.cursor(""))
                    room.seen = ""
                    room.current.set()
                return
        async with room.lock:
            if room.doubts != doubts:
                return
            seen = max(room.seen, room.newest)
            if seen != room.seen:
                await self.listener.inlet.accept([], room.cursor(seen))
            room.seen = seen
            room.current.set()
            self.channels.history_fails = False
        if count:
            log.info("caught up", account=self.account, chat=room.id, messages=count)

    async def _read_history(self, room: SlackChannel) -> int:
        day_ago = ts_seconds_ago(DAY_SECONDS)
        since = max(just_before(room.seen, _OVERLAP_SECONDS), day_ago, self.channels.history_since)
        is_dm = room.id.startswith("D")
        # In a direct message any message may have become a thread meanwhile; its `latest_reply` tells.
        shown = await fetch_since(self._ask, room.id, "", day_ago if is_dm else since)
        # What was said before we joined was not addressed to us, even if it mentions us.
        us = self.listener.me.user
        joins = [str(one["ts"]) for one in shown if one.get("subtype") in _JOINED and one.get("user") == us]
        since = max(since, *joins, "")
        count = await self._accept(room, [one for one in shown if str(one["ts"]) > since])
        # After that: the messages just read may have started threads of ours.
        alive = just_before(room.seen, DAY_SECONDS)
        threads = {thread for thread, last in room.threads.items() if last > alive}
        if is_dm:
            threads |= {str(one["ts"]) for one in shown if str(one.get("latest_reply") or "") > since}
        for thread in sorted(threads):
            try:
                answers = await fetch_since(self._ask, room.id, thread, since)
            except SlackRefused:  # the thread was deleted
                continue
            count += await self._accept(room, [one for one in answers if since < str(one["ts"]) != thread])
        return count

    async def _accept(self, room: SlackChannel, shown: list[Wire]) -> int:
        ordered = sorted(shown, key=lambda one: str(one["ts"]))
        count = 0
        for start in range(0, len(ordered), _TAKEN_AT_ONCE):
            async with room.lock:
                page = ordered[start : start + _TAKEN_AT_ONCE]
                events = [{**one, "type": "message", "channel": room.id} for one in page]
                messages = self.listener.drop_known([await self.listener.parse(event, room) for event in events])
                if messages:
                    await self.listener.accept(room, messages)
                count += len(messages)
        return count

    async def _ask(self, method: str, **arguments: Any) -> Wire:
        while True:
            try:
                return await self.api.call(method, **arguments)
            except SlackTooFast as error:
                await asyncio.sleep(error.seconds)


async def fetch_since(ask: Ask, channel: str, thread: str, oldest: str, **arguments: Any) -> list[Wire]:
    """Return the messages of a channel or thread after that time, with the thread's first one, in no order."""
    method = "conversations.replies" if thread else "conversations.history"
    given = {"channel": channel, "ts": thread or None, "oldest": oldest, **arguments}
    return [one for one in await _fetch_pages(ask, method, "messages", **given) if one.get("ts")]


async def _fetch_pages(ask: Ask, method: str, name: str, **arguments: Any) -> list[Wire]:
    """Return the list with that name from the first pages of an answer."""
    found: list[Wire] = []
    cursor = None
    for _ in range(_MAX_PAGES):
        answer = await ask(method, limit=_PAGE, cursor=cursor, **arguments)
        found += [one for one in answer.get(name) or () if isinstance(one, dict)]
        cursor = (answer.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return found
    log.warning("not all pages were read", method=method, chat=arguments.get("channel", ""), entries=len(found))
    return found


def ts_seconds_ago(seconds: int) -> str:
    return just_before(f"{now_ms() // 1000}.000000", seconds)
