"""Reads what was said while nobody listened: after every connect, after a broken line, and after a full disk."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from gateway.backoff import backoff_seconds
from gateway.clock import now_ms
from gateway.errors import GatewayStopping, StoreUnavailable
from gateway.platforms.slack.api import Api, Refused, SlackProblem, TooFast, Wire
from gateway.platforms.slack.listener import Listener
from gateway.platforms.slack.rooms import Room, Rooms, just_before

log = structlog.get_logger()

DAY_SECONDS = 24 * 3600
_OVERLAP_SECONDS = 60  # an envelope may be late, and a later one of its channel already taken
_PAGE = 200
_MAX_PAGES = 5
_TAKEN_AT_ONCE = 100
_GONE = ("channel_not_found", "not_in_channel")

Ask = Callable[..., Awaitable[Wire]]


class CatchingUp:
    def __init__(self, api: Api, rooms: Rooms, listener: Listener, account: str) -> None:
        self._api = api
        self._rooms = rooms
        self._listener = listener
        self._account = account
        self._wanted = asyncio.Event()

    def begin(self) -> None:
        """Some room is behind, and we are connected."""
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        failures = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                for room in self._rooms.behind():
                    await self._catch_up(room)
                failures = 0
            except GatewayStopping:
                return
            except (SlackProblem, StoreUnavailable) as error:
                failures += 1
                log.warning("catching up is put off", account=self._account, problem=str(error))
                await asyncio.sleep(backoff_seconds(failures))
                self._wanted.set()

    async def _catch_up(self, room: Room) -> None:
        doubts = room.doubts
        try:
            count = await self._read(room)
        except Refused as error:
            log.warning("a channel's history stays unread", account=self._account, chat=room.id, problem=str(error))
            count = 0
            if error.error in _GONE:
                await self._forget(room)
                return
        async with room.lock:
            if room.doubts != doubts:
                self._wanted.set()
                return
            seen = max(room.seen, room.newest)
            if seen != room.seen:
                await self._listener.inlet.accept([], room.cursor(seen))
            room.seen, room.caught_up = seen, True
        if count:
            log.info("caught up", account=self._account, chat=room.id, messages=count)

    async def _forget(self, room: Room) -> None:
        """We are no longer in there: should we come back, it is as if for the first time."""
        async with room.lock:
            await self._listener.inlet.accept([], room.cursor(""))
            room.seen, room.caught_up = "", True

    async def _read(self, room: Room) -> int:
        day_ago = seconds_ago(DAY_SECONDS)
        since = max(just_before(room.seen, _OVERLAP_SECONDS), day_ago)
        is_dm = room.id.startswith("D")
        # Between two people any message may have become a thread meanwhile; it tells so itself.
        shown = await shown_since(self._ask, room.id, "", day_ago if is_dm else since)
        count = await self._take(room, [one for one in shown if str(one["ts"]) > since])
        # After that: what was just read may have begun threads that are ours.
        alive = just_before(room.seen, DAY_SECONDS)
        threads = {thread for thread, last in room.threads.items() if last > alive}
        if is_dm:
            threads |= {str(one["ts"]) for one in shown if str(one.get("latest_reply") or "") > since}
        for thread in sorted(threads):
            try:
                answers = await shown_since(self._ask, room.id, thread, since)
            except Refused:  # its first message was deleted
                continue
            count += await self._take(room, [one for one in answers if since < str(one["ts"]) != thread])
        return count

    async def _take(self, room: Room, shown: list[Wire]) -> int:
        ordered = sorted(shown, key=lambda one: str(one["ts"]))
        count = 0
        for start in range(0, len(ordered), _TAKEN_AT_ONCE):
            async with room.lock:
                page = ordered[start : start + _TAKEN_AT_ONCE]
                events = [{**one, "type": "message", "channel": room.id} for one in page]
                messages = self._listener.fresh([await self._listener.read(event, room) for event in events])
                if messages:
                    await self._listener.accept(room, messages)
                count += len(messages)
        return count

    async def _ask(self, method: str, **arguments: Any) -> Wire:
        while True:
            try:
                return await self._api.call(method, **arguments)
            except TooFast as error:
                await asyncio.sleep(error.seconds)


async def shown_since(ask: Ask, channel: str, thread: str, oldest: str, **arguments: Any) -> list[Wire]:
    """What a channel or a thread shows after that moment, the first of the thread included; in no special order."""
    method = "conversations.replies" if thread else "conversations.history"
    found: list[Wire] = []
    cursor = None
    for _ in range(_MAX_PAGES):
        answer = await ask(
            method, channel=channel, ts=thread or None, oldest=oldest, limit=_PAGE, cursor=cursor, **arguments
        )
        found += [one for one in answer.get("messages") or () if isinstance(one, dict) and one.get("ts")]
        cursor = (answer.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return found
    log.warning("not all of a channel was read", chat=channel, messages=len(found))
    return found


def seconds_ago(seconds: int) -> str:
    return just_before(f"{now_ms() // 1000}.000000", seconds)
