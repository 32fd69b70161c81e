"""Tells an owner in a chat that a platform is unreachable or back, or that the store was damaged."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.errors import StoreUnavailable
from gateway.messages import Text
from gateway.store import chats, outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.supervisor import ConnectionStatus

_CHECK_SECONDS = 5.0


@dataclass(slots=True)
class Alarm:
    db: Database
    statuses: Sequence[ConnectionStatus]
    after_seconds: float  # how long a platform may be away before an owner is told
    changes: Changes = field(default_factory=Changes)
    steady_seconds: float = 60.0  # how long it must stay connected to count as back
    _lost_since_ms: dict[str, int] = field(default_factory=dict)
    _connected_since_ms: dict[str, int] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Check every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        with suppress(StoreUnavailable):
            for notice in await self.db.read(outbox.read_untold):
                if not await self._tell(notice.text, partial(outbox.mark_told, notice=notice)):
                    break
        for status in self.statuses:
            account, now = status.account, now_ms()
            if not status.is_connected:
                self._connected_since_ms.pop(account, None)
                is_late = now - self._lost_since_ms.setdefault(account, now) >= self.after_seconds * 1000
                if account not in self._told and (is_late or status.state == "needs operator"):
                    text = f"I cannot reach {account}: {status.problem or 'it does not connect'}."
                    if await self._tell(f"{text} Run `hermes status` to see its state."):
                        self._told.add(account)
            elif now - self._connected_since_ms.setdefault(account, now) >= self.steady_seconds * 1000:
                self._lost_since_ms.pop(account, None)
                if account in self._told and await self._tell(f"{account} is connected again."):
                    self._told.discard(account)

    async def _tell(self, text: str, then: Callable[[Transaction], None] = lambda tx: None) -> bool:
        """Send a notice to an owner; False when none can be reached now. `then` runs in the same transaction."""
        reachable = {status.account for status in self.statuses if status.is_connected}

        def unit(tx: Transaction) -> bool:
            address = chats.find_notice_address(tx, reachable)
            if address is not None:
                outbox.add(tx, address, [Text(text=text)], kind="notice", topic="alarm")
                then(tx)
            return address is not None

        told = await self.db.write_when_possible(unit)
        if told:
            self.changes.notify("outbox")
        return told
