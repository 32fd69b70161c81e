"""Programs as a platform: each waits for the answer to its own request, over HTTP.

`gateway/web/chat_api.py` speaks HTTP; this module only knows who waits. An answer for which nobody waits any more is
rejected, so that "delivered" never means less than that a program received it.
"""

import asyncio
from dataclasses import dataclass, field

from gateway.errors import DeliveryRejected, MediaUnavailable, PlatformUnavailable
from gateway.messages import (
    PROGRAMS,
    Address,
    InboundMessage,
    Media,
    OutboundMessage,
    Progress,
    Receipt,
)
from gateway.platforms.base import Features, Inlet
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.spec import AccountSetup, PlatformSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramNotice:
    """A line about a request, such as that an owner was asked: not its answer."""

    text: str


@dataclass(eq=False, slots=True)
class PendingReply:
    """A program that waits for the answer to one message."""

    address: Address  # of the message, as the answer will name it
    events: asyncio.Queue[Progress | OutboundMessage | ProgramNotice] = field(default_factory=asyncio.Queue)


class ApiPlatform:
    account = PROGRAMS
    features = Features(resend="safe")  # whoever has the answer no longer waits

    def __init__(self) -> None:
        self.rate_limits = RateLimits()
        self._inlet: Inlet | None = None
        self._pending: dict[tuple[str, str, str], set[PendingReply]] = {}

    async def run(self, inlet: Inlet) -> None:
        self._inlet = inlet
        inlet.alive()
        try:
            await asyncio.Event().wait()
        finally:
            self._inlet = None

    async def accept(self, message: InboundMessage) -> None:
        """Accept a request. Raises StoreUnavailable, GatewayStopping or PlatformUnavailable if it was not accepted."""
        if self._inlet is None:
            raise PlatformUnavailable("the gateway is not ready yet")
        self._inlet.alive()
        await self._inlet.accept([message], None)

    def expect(self, address: Address) -> PendingReply:
        """Wait for the answer to a message from now on; call this before it is accepted."""
        pending = PendingReply(address)
        self._pending.setdefault(_key(address), set()).add(pending)
        return pending

    def forget(self, pending: PendingReply) -> None:
        waiting = self._pending.get(_key(pending.address), set())
        waiting.discard(pending)
        if not waiting:
            self._pending.pop(_key(pending.address), None)

    async def send(self, message: OutboundMessage) -> Receipt:
        address = message.address
        names = message.answers or (address.reply_to,)
        waiting = {one for name in names for one in self._pending.get((address.chat, address.thread, name), ())}
        if not waiting:
            raise DeliveryRejected("the program no longer waits for it")
        for pending in waiting:
            pending.events.put_nowait(message if message.answers else ProgramNotice(text=message.text))
        return Receipt(message_id=message.key)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        raise MediaUnavailable("it did not come with the request")  # pictures are stored before their message

    def show(self, address: Address, progress: Progress) -> None:
        for pending in self._pending.get(_key(address), ()):
            pending.events.put_nowait(progress)


def _key(address: Address) -> tuple[str, str, str]:
    return address.chat, address.thread, address.reply_to


def build(setup: AccountSetup, **_: object) -> ApiPlatform:
    return ApiPlatform()


API = PlatformSpec(
    name=PROGRAMS, hint="Your answers are read by a program: write Markdown text. You cannot attach files.", build=build
)
