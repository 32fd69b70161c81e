"""Sends the outbox: claims what is due, sends it, and records how that ended. Nothing else sends messages."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import structlog

from gateway.clock import new_id, now_ms
from gateway.errors import DeliveryInDoubt, DeliveryRejected, PlatformUnavailable, StoreUnavailable
from gateway.messages import Choice, Location, Media, OutboundMessage, Part, Quote, Receipt, Text, text_of
from gateway.platforms.base import FindsSent, Platform, ShowsDrafts
from gateway.policies.backoff import backoff_seconds, clamp_retry_after
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
_READABLE_FIELDS: Mapping[type[Part], tuple[str, ...]] = {  # what people may read of a part
    Text: ("text",),
    Quote: ("text", "author"),
    Media: ("name", "problem", "form", "text"),
    Location: ("name",),
}

Compose = Callable[[Transaction, Outgoing], str | None]
"""Return the text of a message that must not be stored before it is sent; None when it is no longer wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    sends_at_once: int = 32
    send_timeout_seconds: float = 60.0
    pause_ms: tuple[int, int] = (0, 0)  # between the messages of a long answer, at least and at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The platform gave its id for the message, or for one piece of a long one."""

    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSent:
    """Nothing arrived. Another try may do better."""

    problem: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaybeArrived:
    """Nobody can tell yet whether the message arrived."""

    problem: str
    by_restart: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Nothing arrived, and no other try would do better."""

    problem: str


@dataclass(frozen=True, slots=True)
class Unwanted:
    """The message was not sent, since its reason is gone."""


SendOutcome = Arrived | NotSent | MaybeArrived | Rejected | Unwanted


@dataclass(slots=True, eq=False)
class Delivery:
    """Sends what is due on one account."""

    db: Database
    platform: Platform
    is_connected: Callable[[], bool]
    limits: DeliveryLimits
    redactor: Redactor  # hides secrets in all that is sent
    compose: Mapping[str, Compose] = field(default_factory=lambda: MappingProxyType({}))  # by topic
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: int = 0
    _reached: set[str] = field(default_factory=set)  # chats that came back while something was being sent to them

    def wake(self) -> None:
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Send what is due, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                wait_seconds = await self._send_what_is_due(group)
                # A chat that must wait for long does not count; what goes within the second does.
                is_paced = self.is_connected() and self.platform.rate_limits.overall_wait_seconds > 0
                if not self._wake.is_set() and not self._sending and not is_paced:
                    self._idle.set()
                try:
                    async with asyncio.timeout(wait_seconds):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def flush(self) -> None:
        """Return once nothing is due any more."""
        self.wake()
        await self._idle.wait()

    async def reachable(self, chat: str) -> None:
        """Send at once what waits for a chat that can be reached again.

        Does not wait for a store that is unavailable: whoever writes through the platform must be told so.
        """
        if len(self._reached) >= _REACHED_REMEMBERED:  # anybody can come back, as often as they like
            self._reached.clear()
        self._reached.add(chat)
        try:
            due = await self.db.write(lambda tx: outbox.make_due(tx, self.platform.account, chat))
        except StoreUnavailable:
            return  # what waits for the chat goes out at its own time
        if due:
            self.wake()

    async def _send_what_is_due(self, group: asyncio.TaskGroup) -> float:
        """Start sending, and return the seconds until there may be more to do."""
        account, rate_limits = self.platform.account, self.platform.rate_limits
        free = self.limits.sends_at_once - self._sending
        if not self.is_connected() or free <= 0:
            return _LOOK_AGAIN_SECONDS  # whatever changes that also wakes us
        if rate_limits.overall_wait_seconds:
            return rate_limits.overall_wait_seconds
        paused = rate_limits.list_paused()

        def take(tx: Transaction) -> tuple[list[Outgoing], int | None]:
            outbox.expire(tx, account)
            due_ms = outbox.next_due_ms(tx, account)  # first: a row that falls due between the two is in both
            claimed = outbox.claim(tx, account, min(free, rate_limits.remaining_overall), paused)
            return [self._without_secrets(tx, row) for row in claimed], due_ms

        rows, due_ms = await self.db.write_when_possible(take)
        for row in rows:
            self._sending += 1
            rate_limits.record_send(row.message.address.chat)
            group.create_task(self._deliver(row), name=f"send {row.message.key}")
        waits = [_LOOK_AGAIN_SECONDS, *paused.values()]
        if due_ms is not None:
            waits.append(max(due_ms - now_ms(), 0) / 1000)
        return min(waits) + 0.01

    def _without_secrets(self, tx: Transaction, row: Outgoing) -> Outgoing:
        """Hide secrets in a row, and store it so: a page that reads it, another try and the next piece say the same.

        Done here and not where the row is added, since older versions and other processes add rows, too.
        """
        parts = _without_secrets(row.message.parts, self.redactor)
        choices = tuple(replace(one, label=self.redactor.clean(one.label)) for one in row.message.choices)
        if parts is row.message.parts and choices == row.message.choices:
            return row
        outbox.reword(tx, row.id, parts, choices)
        return replace(row, message=replace(row.message, parts=parts, choices=choices))

    async def _deliver(self, row: Outgoing) -> None:
        self._reached.discard(row.message.address.chat)
        try:
            outcome = await self._try(row)
            await self.db.write_when_possible(lambda tx: self._record(tx, row, outcome))
        finally:
            self._sending -= 1
            self.wake()

    async def _try(self, row: Outgoing) -> SendOutcome:
        """Send a row once, and return how it ended."""
        try:
            if row.unsure and not self._may_repeat(row):
                return MaybeArrived(problem="cut off while it was being sent", by_restart=True)
            message = await self._compose_message(row)
            if message is None:
                return Unwanted()
            await self._delete_draft(row, message)
            # The time its largest file may need on a slow line: given up too early, it would be in doubt.
            sizes = [part.size_bytes for part in message.parts if isinstance(part, Media) and part.sha256]
            upload_seconds = max(sizes, default=0) / _SLOW_UPLOAD_BYTES_PER_SECOND
            async with asyncio.timeout(self.limits.send_timeout_seconds + upload_seconds):
                found, may_look = None, self.platform.features.resend == "lookup" and message.key == row.message.key
                if row.unsure and may_look and isinstance(self.platform, FindsSent):
                    found = await self.platform.find_sent(message)
                return Arrived(receipt=found or await self.platform.send(message))
        except PlatformUnavailable as error:
            return NotSent(problem=str(error), retry_after=error.retry_after)
        except (DeliveryInDoubt, TimeoutError) as error:
            return MaybeArrived(problem=str(error) or "no answer in time")
        except DeliveryRejected as error:
            return Rejected(problem=str(error))
        except asyncio.CancelledError:
            # Ours passes. One that an adapter raised by itself would leave the row in flight, and its chat stuck.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return MaybeArrived(problem="the connection was closed meanwhile")
        except Exception:  # contained: one message that an adapter chokes on must not stop the others
            log.exception("sending failed", outbox=row.id, account=self.platform.account)
            return Rejected(problem="an error inside Hermes, see its log")

    def _record(self, tx: Transaction, row: Outgoing, outcome: SendOutcome) -> None:
        match outcome:
            case Arrived(receipt=receipt) if receipt.more:
                pause_ms = random.randint(*self.limits.pause_ms)  # noqa: S311 nothing to guess
                outbox.mark_piece_sent(tx, row, receipt, pause_ms=pause_ms)
            case Arrived(receipt=receipt):
                outbox.mark_sent(tx, row, receipt)
            case NotSent(problem=problem, retry_after=retry_after):
                outbox.retry_at(tx, row, self._next_try_ms(row, retry_after), problem, unsure=row.unsure)
            case MaybeArrived(problem=problem) if self._may_repeat(row):
                outbox.retry_at(tx, row, self._next_try_ms(row), problem, unsure=True, in_doubt=True)
            case MaybeArrived():
                self._leave_in_doubt(tx, row, outcome)
            case Rejected(problem=problem):
                outbox.give_up(tx, row, "failed", problem)
                if row.kind == "answer":
                    text = f"My answer could not be delivered here: {problem}."
                    outbox.add_notice(tx, row.message.address, text, topic="failed", turn_id=row.turn_id)
            case Unwanted():
                outbox.give_up(tx, row, "failed", "no longer wanted")

    def _may_repeat(self, row: Outgoing) -> bool:
        """Return whether a message that may have arrived may be sent again.

        An edit changes nothing the second time, and a notice does less harm twice than not at all.
        """
        is_edit = row.message.edits and not row.message.piece  # the other pieces are messages of their own
        if self.platform.features.resend != "never" or is_edit:
            return True
        return row.kind == "notice" and row.doubts < _NOTICE_DOUBTS

    async def _compose_message(self, row: Outgoing) -> OutboundMessage | None:
        compose = self.compose.get(row.topic)
        if compose is None:
            return row.message
        text = await self.db.write_when_possible(lambda tx: compose(tx, row))
        # Under a key of its own: it is another message than the one that an earlier try may have brought.
        return replace(row.message, key=new_id(), parts=(Text(text=text),)) if text else None

    async def _delete_draft(self, row: Outgoing, message: OutboundMessage) -> None:
        """Delete the draft before its answer is sent: nobody should see both."""
        if not message.replaces:
            return
        if isinstance(self.platform, ShowsDrafts):
            try:
                async with asyncio.timeout(self.limits.send_timeout_seconds):
                    await self.platform.delete(message.address, message.replaces)
            except DeliveryRejected as error:
                log.info("draft stays", account=self.platform.account, problem=str(error))
            except (DeliveryInDoubt, TimeoutError) as error:  # it does no harm to do that again
                raise PlatformUnavailable(str(error) or "no answer in time") from error
        # Recorded: what is cut off before this line was not sent, and leaves no doubt.
        await self.db.write_when_possible(lambda tx: outbox.mark_draft_deleted(tx, row.id))

    def _next_try_ms(self, row: Outgoing, retry_after: float | None = None) -> int:
        if row.message.address.chat in self._reached:
            return now_ms()
        wait_seconds = clamp_retry_after(retry_after)
        if wait_seconds is None:
            wait_seconds = backoff_seconds(row.attempts)
        return now_ms() + int(wait_seconds * 1000)

    def _leave_in_doubt(self, tx: Transaction, row: Outgoing, outcome: MaybeArrived) -> None:
        outbox.give_up(tx, row, "in_doubt", outcome.problem)
        if row.kind != "answer":
            return
        happened = "I was restarted" if outcome.by_restart else "The connection broke"
        text = f"{happened} while sending my answer, and I cannot tell whether it arrived."
        again = Choice(label="Send it again", action=f"resend:{row.message.key}")
        outbox.add_notice(tx, row.message.address, text, topic="in doubt", turn_id=row.turn_id, choices=[again])


def _without_secrets(parts: tuple[Part, ...], redactor: Redactor) -> tuple[Part, ...]:
    """Return the parts without secrets and, once, a note that says so; the same object when there are none."""
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
    cleaned: dict[str, Any] = {name: redactor.clean(getattr(part, name)) for name in _READABLE_FIELDS[type(part)]}
    is_clean = all(text is getattr(part, name) for name, text in cleaned.items())
    return part if is_clean else replace(part, **cleaned)
