"""Tells an owner in a chat what must not stay unnoticed: a platform that has gone deaf or is back, a damaged store."""

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

_LOOK_SECONDS = 5.0


@dataclass(slots=True)
class Alarm:
    db: Database
    statuses: Sequence[ConnectionStatus]
    after_seconds: float  # how long a platform may be away before anybody is told
    changes: Changes = field(default_factory=Changes)
    steady_seconds: float = 60.0  # one that comes and goes is not back
    _deaf_since_ms: dict[str, int] = field(default_factory=dict)
    _connected_since_ms: dict[str, int] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Watches until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        for notice in await self._untold_notices():
            if not await self._tell(notice.text, partial(outbox.mark_told, notice=notice)):
                break
        for status in self.statuses:
            if status.is_connected:
                await self._look_at_connected(status)
                continue
            self._connected_since_ms.pop(status.account, None)
            if status.account not in self._told and self._has_waited(status):
                text = f"{status.account} cannot be heard: {status.problem or 'it does not connect'}."
                if await self._tell(f"{text} `hermes status` shows how it goes on."):
                    self._told.add(status.account)

    async def _look_at_connected(self, status: ConnectionStatus) -> None:
        since = self._connected_since_ms.setdefault(status.account, now_ms())
        if now_ms() - since < self.steady_seconds * 1000:
            return
        self._deaf_since_ms.pop(status.account, None)
        if status.account in self._told and await self._tell(f"{status.account} can be heard again."):
            self._told.discard(status.account)

    def _has_waited(self, status: ConnectionStatus) -> bool:
        since = self._deaf_since_ms.setdefault(status.account, now_ms())
        return status.state == "needs operator" or now_ms() - since >= self.after_seconds * 1000

    async def _untold_notices(self) -> list[Notice]:
        try:
            return await self.db.read(outbox.untold)
        except StoreUnavailable:
            return []

    async def _tell(self, text: str, then: Callable[[Transaction], None] = lambda tx: None) -> bool:
        """Return False when no owner can be reached now: tried again later. `then` is done in the same transaction."""
        reachable = {status.account for status in self.statuses if status.is_connected}

        def unit(tx: Transaction) -> bool:
            address = chats.where_to_tell(tx, reachable)
            if address is not None:
                outbox.add(tx, address, [Text(text=text)], kind="notice", topic="alarm")
                then(tx)
            return address is not None

        told = await self.db.write_when_possible(unit)
        if told:
            self.changes.notify("outbox")
        return told
