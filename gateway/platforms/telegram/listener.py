"""Listening to Telegram: a page of updates is accepted first; only then does the next poll confirm it."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog
from telegram import Update
from telegram.error import Conflict, TelegramError

from gateway.clock import now_ms
from gateway.errors import PlatformUnavailable, StoreUnavailable
from gateway.messages import Cursor, InboundMessage
from gateway.platforms.base import Inlet
from gateway.platforms.telegram.parsing import KINDS_WE_READ, ParsedUpdate, TelegramIdentity, parse_update
from gateway.platforms.telegram.transport import ListeningBot
from gateway.platforms.transport import BackgroundCalls
from gateway.policies.backoff import backoff_seconds

log = structlog.get_logger()

_CHANNEL = "updates"
_DEAD_AFTER_SECONDS = 10.0  # beyond the poll's own wait
_STORE_PATIENCE_SECONDS = 10.0  # longer would look like a dead connection
_ANSWER_SECONDS = 5.0
_MOVED = "replace the old id in access.allowed_chats and gateway.free_response_chats, if it is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a bot's updates were accepted. Ids start anew at random after a week of silence, and differ between
    bots: an offset that is too high would make Telegram drop messages that nobody has read."""

    bot: int
    offset: int
    set_ms: int
    first_bot: int  # of this account, ever

    good_for_ms = 48 * 3600 * 1000

    @property
    def cursor(self) -> Cursor:
        return Cursor(channel=_CHANNEL, value=f"{self.bot} {self.offset} {self.set_ms} {self.first_bot}")

    @classmethod
    def parse(cls, value: str) -> "Position | None":
        try:
            bot, offset, set_ms, *first = map(int, value.split())
        except ValueError:
            return None
        return cls(bot=bot, offset=offset, set_ms=set_ms, first_bot=first[0] if first else bot)

    def offset_for(self, bot: int, at_ms: int) -> int | None:
        return self.offset if bot == self.bot and at_ms - self.set_ms <= self.good_for_ms else None


@dataclass(slots=True, kw_only=True)
class TelegramListener:
    """Polls updates for one connection."""

    bot: ListeningBot
    me: TelegramIdentity
    inlet: Inlet
    commands: Collection[str]
    poll_seconds: int
    answers: BackgroundCalls
    _first_bot: int = 0  # of this account, ever
    _webhook_removed: bool = False  # and no page received since

    async def listen(self) -> None:
        """Run until cancelled. Raises PlatformUnavailable, or TelegramError for the caller to translate."""
        position = Position.parse(await self.inlet.cursor(_CHANNEL))
        self._first_bot = position.first_bot if position is not None else self.me.id
        self.me = replace(self.me, mark=0 if self._first_bot == self.me.id else self.me.id)
        wait_seconds = 0  # the first returns at once and shows that we are connected
        failures = 0
        while True:
            page = await self._poll(position, wait_seconds)
            if page is None:
                continue
            self.inlet.alive()
            wait_seconds = self.poll_seconds
            if not page:
                continue
            try:
                position = await self._accept_page(page)
                failures = 0
            except StoreUnavailable as error:
                failures += 1
                log.warning("messages not accepted", account=self.me.account, problem=str(error))
                await asyncio.sleep(min(backoff_seconds(failures), _STORE_PATIENCE_SECONDS))

    async def _poll(self, position: Position | None, wait_seconds: int) -> list[dict[str, Any]] | None:
        """Return a page; None to poll again at once."""
        offset = position.offset_for(self.me.id, now_ms()) if position is not None else None
        try:
            async with asyncio.timeout(wait_seconds + _DEAD_AFTER_SECONDS):
                page = await self.bot.fetch_updates(offset, KINDS_WE_READ, wait_seconds=wait_seconds)
        except TimeoutError:
            raise PlatformUnavailable("Telegram did not answer a poll: the connection is dead") from None
        except Conflict as error:
            if "webhook" not in error.message.lower() or self._webhook_removed:
                raise
            self._webhook_removed = True
            await self.bot.delete_webhook(drop_pending_updates=False)
            log.warning("webhook removed: it received the messages instead of us", account=self.me.account)
            return None
        self._webhook_removed = False
        if not isinstance(page, list) or not all(
            isinstance(update, dict) and isinstance(update.get("update_id"), int) for update in page
        ):
            raise PlatformUnavailable("Telegram answered a poll with something other than updates")
        return list({update["update_id"]: update for update in page}.values())

    async def _accept_page(self, page: list[dict[str, Any]]) -> Position:
        parsed = list(self._parse_page(page))
        moves = dict(update.moved for update in parsed if update.moved is not None)
        for old, new in moves.items():  # first: messages in the new chat belong to the old one's session
            await self.inlet.chat_moved(old, new)
            log.warning("a group has a new id", account=self.me.account, old=old, new=new, meaning=_MOVED)
        messages = [_move_message(message, moves) for update in parsed for message in update.messages]
        offset = max(update["update_id"] for update in page) + 1
        position = Position(bot=self.me.id, offset=offset, set_ms=now_ms(), first_bot=self._first_bot)
        await self.inlet.accept(messages, position.cursor)
        for update in parsed:
            if update.note:
                log.info(update.note, account=self.me.account, chat=update.chat)
            if update.reachable:
                await self.inlet.chat_reachable(update.chat)
            if update.pressed:
                self.answers.start(self._answer_press(update.pressed))
        return position

    def _parse_page(self, page: list[dict[str, Any]]) -> Iterator[ParsedUpdate]:
        at_ms = now_ms()
        for raw in page:
            try:
                yield parse_update(Update.de_json(raw, self.bot), self.me, self.commands, at_ms=at_ms)
            # Contained: one update that fails must neither stop the others nor come for ever. No traceback: it may
            # quote what people wrote.
            except Exception as error:  # noqa: BLE001
                problem = type(error).__name__
                log.error("update skipped", account=self.me.account, update=raw["update_id"], problem=problem)

    async def _answer_press(self, press: str) -> None:
        """Stop the spinner on the button."""
        try:
            await self.bot.answer_callback_query(press, read_timeout=_ANSWER_SECONDS, connect_timeout=_ANSWER_SECONDS)
        except TelegramError as error:
            log.debug("button left unanswered", account=self.me.account, problem=error.message)


def _move_message(message: InboundMessage, moves: Mapping[str, str]) -> InboundMessage:
    """Move a message sent just before its group got a new id: permissions and session are there."""
    old = message.key.chat
    if old not in moves:
        return message
    # Message ids start anew there: a mark keeps these from being mistaken for others.
    mark = int(old) if message.kind == "message" else message.edited_ms
    return replace(message, key=replace(message.key, chat=moves[old]), edited_ms=mark)
