"""The only door out: takes what is due from the outbox, sends it, and writes down what became of it."""

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import structlog

from gateway.clock import new_id, now_ms
from gateway.errors import DeliveryInDoubt, DeliveryRejected, PlatformUnavailable, StoreUnavailable
from gateway.messages import Choice, Location, Media, OutboundMessage, Part, Quote, Receipt, Text, text_of
from gateway.platforms.base import Platform, ShowsDrafts
from gateway.policies.backoff import backoff_seconds
from gateway.store import outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.outbox import Outgoing
from hermes_config.redaction import NOTE, Redactor

log = structlog.get_logger()

_LOOK_AGAIN_SECONDS = 30.0  # for what became too old meanwhile
_NOTICE_DOUBTS = 10  # so often it may come twice; more, and sending it may be what brings us down
_REACHED_REMEMBERED = 1_000
_SLOW_UPLOAD_BYTES_PER_SECOND = 100_000
NATURAL_PAUSE_MS = (800, 2500)  # as somebody who types takes between two messages
_CUT_OFF = "cut off while it was being sent"
_WORDS: Mapping[type[Part], tuple[str, ...]] = {  # what people may read of a part
    Text: ("text",),
    Quote: ("text", "author"),
    Media: ("name", "problem", "form", "text"),
    Location: ("name",),
}

Compose = Callable[[Transaction, Outgoing], str | None]
"""The words of a message that may not be written down before it is sent; None when it is no longer wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    sends_at_once: int = 32
    send_timeout_seconds: float = 60.0
    pause_ms: tuple[int, int] = (0, 0)  # between the messages of a long answer, at least and at most


class Delivery:
    """One account's way out."""

    def __init__(
        self,
        db: Database,
        platform: Platform,
        is_connected: Callable[[], bool],
        limits: DeliveryLimits,
        *,
        redactor: Redactor,  # hides secrets in all that is sent
        compose: Mapping[str, Compose] = MappingProxyType({}),  # by topic
    ) -> None:
        self._db = db
        self._redactor = redactor
        self._platform = platform
        self._compose = compose
        self._is_connected = is_connected
        self._limits = limits
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._sending = 0
        self._reached: set[str] = set()  # chats that came back while something was being sent to them

    def wake(self) -> None:
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Sends until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                wait_seconds = await self._send_what_is_due(group)
                if not self._wake.is_set() and not self._sending and not self._waits_for_pace():
                    self._idle.set()
                try:
                    async with asyncio.timeout(wait_seconds):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def flush(self) -> None:
        """Returns when nothing is due any more."""
        self.wake()
        await self._idle.wait()

    async def reachable(self, chat: str) -> None:
        """Does not wait for a store that is unavailable: whoever speaks through the platform must be told so."""
        if len(self._reached) >= _REACHED_REMEMBERED:  # anybody can come back, as often as they like
            self._reached.clear()
        self._reached.add(chat)
        try:
            due = await self._db.write(lambda tx: outbox.make_due(tx, self._platform.account, chat))
        except StoreUnavailable:
            return  # what waits for the chat goes out at its own time
        if due:
            self.wake()

    async def _send_what_is_due(self, group: asyncio.TaskGroup) -> float:
        """Starts sending; gives the seconds until there may be more to do."""
        account, pace = self._platform.account, self._platform.pace
        free = self._limits.sends_at_once - self._sending
        if not self._is_connected() or free <= 0:
            return _LOOK_AGAIN_SECONDS  # whatever changes that also wakes us
        if pace.wait_for_all:
            return pace.wait_for_all
        resting = pace.resting()

        def take(tx: Transaction) -> tuple[list[Outgoing], int | None]:
            outbox.expire(tx, account)
            due_ms = outbox.next_due_ms(tx, account)  # first: a row that falls due between the two is in both
            claimed = outbox.claim(tx, account, min(free, pace.room_for_all), resting)
            return [self._without_secrets(tx, row) for row in claimed], due_ms

        rows, due_ms = await self._db.write_when_possible(take)
        for row in rows:
            self._sending += 1
            pace.spend(row.message.address.chat)
            group.create_task(self._deliver(row), name=f"send {row.message.key}")
        waits = [_LOOK_AGAIN_SECONDS, *resting.values()]
        if due_ms is not None:
            waits.append(max(due_ms - now_ms(), 0) / 1000)
        return min(waits) + 0.01

    def _without_secrets(self, tx: Transaction, row: Outgoing) -> Outgoing:
        """Here, and not where it is written down: this is passed by what older versions and other processes wrote.

        Kept in the row, so that a page that reads it, another try and the next piece say the same.
        """
        parts = _without_secrets(row.message.parts, self._redactor)
        choices = tuple(replace(one, label=self._redactor.clean(one.label)) for one in row.message.choices)
        if parts is row.message.parts and choices == row.message.choices:
            return row
        outbox.reword(tx, row.id, parts, choices)
        return replace(row, message=replace(row.message, parts=parts, choices=choices))

    def _waits_for_pace(self) -> bool:
        """What is due goes within the second; a chat that must wait for long is no reason to call it due."""
        return self._is_connected() and self._platform.pace.wait_for_all > 0

    async def _deliver(self, row: Outgoing) -> None:
        self._reached.discard(row.message.address.chat)
        try:
            settle = await self._try(row)
            await self._db.write_when_possible(settle)
        finally:
            self._sending -= 1
            self.wake()

    async def _try(self, row: Outgoing) -> Callable[[Transaction], None]:
        """Sends, and gives the unit that writes down what came of it."""
        unsure = row.unsure
        try:
            if unsure and not self._may_repeat(row):
                return lambda tx: self._leave_in_doubt(tx, row, _CUT_OFF)
            message = await self._words(row)
            if message is None:
                return lambda tx: outbox.give_up(tx, row, "failed", "no longer wanted")
            await self._take_away_draft(row, message)
            async with asyncio.timeout(self._limits.send_timeout_seconds + _upload_seconds(message)):
                receipt = await self._send(row, message)
        except PlatformUnavailable as error:
            return self._later(row, str(error), retry_after=error.retry_after, unsure=unsure)
        except (DeliveryInDoubt, TimeoutError) as error:
            return self._in_doubt(row, str(error) or "no answer in time")
        except DeliveryRejected as error:
            problem = str(error)
            return lambda tx: self._give_up(tx, row, problem)
        except asyncio.CancelledError:
            # Ours passes. One that an adapter raised by itself would leave the row in flight, and its chat stuck.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._in_doubt(row, "the connection was given up meanwhile")
        except Exception:  # contained: one message that an adapter chokes on must not stop the others
            log.exception("sending failed", outbox=row.id, account=self._platform.account)
            return lambda tx: self._give_up(tx, row, "an error inside Hermes, see its log")
        if receipt.more:
            pause_ms = random.randint(*self._limits.pause_ms)  # noqa: S311 nothing to guess
            return lambda tx: outbox.piece_arrived(tx, row, receipt, pause_ms=pause_ms)
        return lambda tx: outbox.sent(tx, row, receipt)

    def _may_repeat(self, row: Outgoing) -> bool:
        """An edit changes nothing the second time, and a notice does less harm twice than not at all."""
        is_edit = row.message.edits and not row.message.piece  # the other pieces are messages of their own
        if self._platform.features.resend != "never" or is_edit:
            return True
        return row.kind == "notice" and row.doubts < _NOTICE_DOUBTS

    async def _words(self, row: Outgoing) -> OutboundMessage | None:
        compose = self._compose.get(row.topic)
        if compose is None:
            return row.message
        text = await self._db.write_when_possible(lambda tx: compose(tx, row))
        # Under a key of its own: it is another message than the one that an earlier try may have brought.
        return replace(row.message, key=new_id(), parts=(Text(text=text),)) if text else None

    async def _send(self, row: Outgoing, message: OutboundMessage) -> Receipt:
        if row.unsure and message.key == row.message.key and self._platform.features.resend == "lookup":
            found = await self._platform.find_sent(message)
            if found is not None:
                return found
        return await self._platform.send(message)

    async def _take_away_draft(self, row: Outgoing, message: OutboundMessage) -> None:
        """Before its answer comes: nobody shall see both."""
        if not message.replaces:
            return
        if isinstance(self._platform, ShowsDrafts):
            try:
                async with asyncio.timeout(self._limits.send_timeout_seconds):
                    await self._platform.take_away(message.address, message.replaces)
            except DeliveryRejected as error:
                log.info("draft stays", account=self._platform.account, problem=str(error))
            except (DeliveryInDoubt, TimeoutError) as error:  # it does no harm to do that again
                raise PlatformUnavailable(str(error) or "no answer in time") from error
        # Written down: what is cut off before this line was not sent, and needs no doubt.
        await self._db.write_when_possible(lambda tx: outbox.draft_gone(tx, row.id))

    def _in_doubt(self, row: Outgoing, problem: str) -> Callable[[Transaction], None]:
        if self._may_repeat(row):
            return self._later(row, problem, retry_after=None, unsure=True, in_doubt=True)
        return lambda tx: self._leave_in_doubt(tx, row, problem)

    def _later(
        self, row: Outgoing, problem: str, *, retry_after: float | None, unsure: bool, in_doubt: bool = False
    ) -> Callable[[Transaction], None]:
        if retry_after is not None and 0 <= retry_after < math.inf:
            wait = min(retry_after, outbox.LONGEST_WAIT_MS / 1000)
        else:
            wait = backoff_seconds(row.attempts)
        if row.message.address.chat in self._reached:
            wait = 0.0
        at_ms = now_ms() + int(wait * 1000)
        return lambda tx: outbox.retry_at(tx, row, at_ms, problem, unsure=unsure, in_doubt=in_doubt)

    def _leave_in_doubt(self, tx: Transaction, row: Outgoing, problem: str) -> None:
        outbox.give_up(tx, row, "in_doubt", problem)
        if row.kind != "answer":
            return
        happened = "I was restarted while answering" if problem == _CUT_OFF else "The line broke while I was answering"
        text = f"{happened}, and I cannot tell whether my answer arrived."
        again = Choice(label="Send it again", action=f"resend:{row.message.key}")
        outbox.add_notice(tx, row.message.address, text, topic="in doubt", turn_id=row.turn_id, choices=[again])

    def _give_up(self, tx: Transaction, row: Outgoing, problem: str) -> None:
        outbox.give_up(tx, row, "failed", problem)
        if row.kind == "answer":
            text = f"My answer could not be delivered here: {problem}."
            outbox.add_notice(tx, row.message.address, text, topic="failed", turn_id=row.turn_id)


def _without_secrets(parts: tuple[Part, ...], redactor: Redactor) -> tuple[Part, ...]:
    """The same object when there is nothing to hide. Says so, once, when there is."""
    cleaned = [_without_secrets_in(part, redactor) for part in parts]
    if all(new is old for new, old in zip(cleaned, parts, strict=True)):
        return parts
    note = redactor.clean(NOTE)  # a password may be a word of it
    last = max((at for at, part in enumerate(cleaned) if isinstance(part, Text)), default=-1)
    if last < 0:
        return (*cleaned, Text(text=note))
    told = text_of((cleaned[last],))
    if not told.endswith(note):
        cleaned[last] = Text(text=f"{told}\n\n{note}")
    return tuple(cleaned)


def _without_secrets_in(part: Part, redactor: Redactor) -> Part:
    cleaned: dict[str, Any] = {name: redactor.clean(getattr(part, name)) for name in _WORDS[type(part)]}
    is_clean = all(text is getattr(part, name) for name, text in cleaned.items())
    return part if is_clean else replace(part, **cleaned)


def _upload_seconds(message: OutboundMessage) -> float:
    """What the largest of its files may take longer on a slow line: given up too early, it would be in doubt."""
    sizes = [part.size_bytes for part in message.parts if isinstance(part, Media) and part.sha256]
    return max(sizes, default=0) / _SLOW_UPLOAD_BYTES_PER_SECOND
