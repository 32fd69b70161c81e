"""The only door out: takes what is due from the outbox, sends it, and writes down what became of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from gateway.backoff import backoff_seconds
from gateway.clock import now_ms
from gateway.errors import DeliveryInDoubt, DeliveryRejected, PlatformUnavailable, StoreUnavailable
from gateway.messages import Receipt
from gateway.platforms.base import Platform
from gateway.store import outbox
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.outbox import Outgoing

log = structlog.get_logger()

_LOOK_AGAIN_SECONDS = 30.0  # for what became too old meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    sends_at_once: int = 32
    send_timeout_seconds: float = 60.0


class Delivery:
    """One account's way out."""

    def __init__(self, db: Database, platform: Platform, is_connected: Callable[[], bool], limits: Limits) -> None:
        self._db = db
        self._platform = platform
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
                if not self._wake.is_set() and not self._sending:
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
        self._reached.add(chat)
        try:
            due = await self._db.write(lambda tx: outbox.make_due(tx, self._platform.account, chat))
        except StoreUnavailable:
            return  # what waits for the chat goes out at its own time
        if due:
            self.wake()

    async def _send_what_is_due(self, group: asyncio.TaskGroup) -> float:
        """Starts sending; gives the seconds until there may be more to do."""
        account = self._platform.account
        free = self._limits.sends_at_once - self._sending
        if not self._is_connected() or free <= 0:
            return _LOOK_AGAIN_SECONDS  # whatever changes that also wakes us

        def take(tx: Transaction) -> tuple[list[Outgoing], int | None]:
            outbox.expire(tx, account)
            due_ms = outbox.next_due_ms(tx, account)  # first: a row that falls due between the two is in both
            return outbox.claim(tx, account, free), due_ms

        rows, due_ms = await self._db.write_when_possible(take)
        for row in rows:
            self._sending += 1
            group.create_task(self._deliver(row), name=f"send {row.message.key}")
        if due_ms is None:
            return _LOOK_AGAIN_SECONDS
        return min(max(due_ms - now_ms(), 0) / 1000 + 0.01, _LOOK_AGAIN_SECONDS)

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
        resend = self._platform.features.resend
        unsure = row.unsure
        try:
            if unsure and resend == "never":
                return lambda tx: self._leave_in_doubt(tx, row, "cut off while it was being sent")
            async with asyncio.timeout(self._limits.send_timeout_seconds):
                receipt = await self._send(row)
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
        return lambda tx: outbox.sent(tx, row, receipt)

    async def _send(self, row: Outgoing) -> Receipt:
        if row.unsure and self._platform.features.resend == "lookup":
            found = await self._platform.find_sent(row.message)
            if found is not None:
                return found
        return await self._platform.send(row.message)

    def _in_doubt(self, row: Outgoing, problem: str) -> Callable[[Transaction], None]:
        if self._platform.features.resend == "never":
            return lambda tx: self._leave_in_doubt(tx, row, problem)
        return self._later(row, problem, retry_after=None, unsure=True)

    def _later(
        self, row: Outgoing, problem: str, *, retry_after: float | None, unsure: bool
    ) -> Callable[[Transaction], None]:
        wait = retry_after if retry_after is not None else backoff_seconds(row.attempts)
        if row.message.address.chat in self._reached:
            wait = 0.0
        at_ms = now_ms() + int(wait * 1000)
        return lambda tx: outbox.retry_at(tx, row, at_ms, problem, unsure=unsure)

    def _leave_in_doubt(self, tx: Transaction, row: Outgoing, problem: str) -> None:
        outbox.give_up(tx, row, "in_doubt", problem)
        if row.kind == "answer":
            text = "I was interrupted while answering and cannot tell whether my answer arrived. Ask again if not."
            outbox.add_notice(tx, row.message.address, text, topic="in doubt", turn_id=row.turn_id)

    def _give_up(self, tx: Transaction, row: Outgoing, problem: str) -> None:
        outbox.give_up(tx, row, "failed", problem)
        if row.kind == "answer":
            text = f"My answer could not be delivered here: {problem}."
            outbox.add_notice(tx, row.message.address, text, topic="failed", turn_id=row.turn_id)
