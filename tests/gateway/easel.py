"""A platform on which drafts can be seen, for tests: a chat is a list of messages, and every call can go wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.errors import DeliveryRejected
from gateway.messages import Address, OutboundMessage, Receipt
from gateway.platforms.base import DraftStyle, KnownMessages, Mark
from gateway.platforms.rate_limit import RateLimits
from tests.gateway.scene import Pigeon

STYLE = DraftStyle(interval_seconds=0.001, max_units=1000)


async def _willing(what: str) -> None:
    return None


@dataclass
class Easel(Pigeon):
    """`before` is told what is about to be done (`show`, `edit`, `find`, `take away`, `react`) and may raise or wait;
    `behind` the same once it is done."""

    style: DraftStyle | None = STYLE
    shown: dict[str, str] = field(default_factory=dict)  # by message id
    written: list[str] = field(default_factory=list)  # all that was ever shown, in order
    did: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    before: Callable[[str], Awaitable[None]] = _willing
    behind: Callable[[str], Awaitable[None]] = _willing
    known: list[KnownMessages] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    rate_limits: RateLimits = field(default_factory=RateLimits)
    keys: dict[str, str] = field(default_factory=dict)  # of drafts, by message id

    def draft_style(self, address: Address) -> DraftStyle | None:
        return self.style

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        what = "edit" if draft.edits else "show"
        await self._begin(what)
        if draft.edits and draft.edits not in self.shown:
            raise DeliveryRejected("the message is gone")
        fades = self.style is not None and self.style.fades
        message_id = draft.edits or ("" if fades else f"draft {len(self.keys) + 1}")
        self.shown[message_id] = draft.text
        self.written.append(draft.text)
        self.keys[message_id] = draft.key
        await self._end(what)
        return Receipt(message_id=message_id)

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        self.known.append(known)
        await self._begin("find")
        found = next((one for one in self.shown if self.keys.get(one) == draft.key), None)
        await self._end("find")
        return Receipt(message_id=found) if found is not None else None

    async def delete(self, address: Address, message_id: str) -> None:
        await self._begin("take away")
        self.shown.pop(message_id, None)
        await self._end("take away")

    async def react(self, address: Address, mark: Mark) -> None:
        await self._begin("react")
        self.marks.append(mark)
        await self._end("react")

    async def show_typing(self, address: Address) -> None:
        await self._begin("type")

    async def until(self, condition: Callable[[], object], *, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def _begin(self, what: str) -> None:
        self.did.append(what)
        self.changed.set()
        await self.before(what)

    async def _end(self, what: str) -> None:
        self.changed.set()
        await self.behind(what)
