"""Tells an owner in a chat that a platform is unreachable or back, or that the store was damaged."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.errors import StoreUnavailable
from gateway.messages import Text
from gateway.store import chats, outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.outbox import Notice
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
        for notice in await self._read_untold_notices():
            if not await self._tell(notice.text, partial(outbox.mark_told, notice=notice)):
                break
        for status in self.statuses:
            if status.is_connected:
                await self._check_connected(status)
                continue
            self._connected_since_ms.pop(status.account, None)
            if status.account not in self._told and self._is_overdue(status):
                text = f"I cannot reach {status.account}: {status.problem or 'it does not connect'}."
                if await self._tell(f"{text} Run `hermes status` to see its state."):
                    self._told.add(status.account)

    async def _check_connected(self, status: ConnectionStatus) -> None:
        since = self._connected_since_ms.setdefault(status.account, now_ms())
        if now_ms() - since < self.steady_seconds * 1000:
            return
        self._lost_since_ms.pop(status.account, None)
        if status.account in self._told and await self._tell(f"{status.account} is connected again."):
            self._told.discard(status.account)

    def _is_overdue(self, status: ConnectionStatus) -> bool:
        since = self._lost_since_ms.setdefault(status.account, now_ms())
        return status.state == "needs operator" or now_ms() - since >= self.after_seconds * 1000

    async def _read_untold_notices(self) -> list[Notice]:
        try:
            return await self.db.read(outbox.read_untold)
        except StoreUnavailable:
            return []

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
