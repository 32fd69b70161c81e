"""What a platform is: a few methods, a value that says how it differs, and the inlet it is handed."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from gateway.messages import Address, Cursor, InboundMessage, Media, OutboundMessage, Progress, Receipt
from gateway.platforms.rate_limit import RateLimits

Resend = Literal["safe", "lookup", "never"]
"""What to do with a message that may or may not have arrived: the far side drops a second copy (safe),
`find_sent` can tell (lookup), or nobody can know (never)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    resend: Resend
    local: bool = False  # whoever can reach this platform is the owner
    quiet_seconds: float = 0  # hearing nothing for so long means that the line is dead; 0: silence is normal
    sends_files: bool = False  # the agent may name files in its answers


async def _serve_everyone(message: InboundMessage) -> bool:
    return True


async def _no_limit() -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inlet:
    """All that an adapter may ask of the gateway."""

    accept: Callable[[Sequence[InboundMessage], Cursor | None], Awaitable[None]]
    """Takes a page of messages in one transaction, the cursor with it. Only when this returns may the
    platform be told that they were taken; when it raises, nothing was."""

    cursor: Callable[[str], Awaitable[str]]
    """How far this channel was taken; empty at first."""

    cursors: Callable[[], Awaitable[Mapping[str, str]]]
    """How far every channel of this account was taken."""

    alive: Callable[[], None]
    """Something came in, if only a heartbeat. The first call after a connect means: connected."""

    chat_reachable: Callable[[str], Awaitable[None]]
    """A chat that could not be reached can be now: send what waits for it."""

    chat_moved: Callable[[str, str], Awaitable[None]]
    """A chat goes on under another id: from, to."""

    history_since_ms: Callable[[], Awaitable[int]] = _no_limit
    """From when on the history may be read. What was said earlier may have been answered, though nothing tells of it
    since an older copy of the store was restored."""

    serves: Callable[[InboundMessage], Awaitable[bool]] = _serve_everyone
    """Whether whoever acts may, for what must be done before it is taken. Decides nothing: `accept` does."""


class Platform(Protocol):
    account: str
    features: Features
    rate_limits: RateLimits

    async def run(self, inlet: Inlet) -> None:
        """Listens until cancelled; raises PlatformUnavailable or PlatformAuthFailed."""

    async def send(self, message: OutboundMessage) -> Receipt:
        """Sends one piece of it. Raises PlatformUnavailable, DeliveryRejected or DeliveryInDoubt."""

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        """The bytes behind a reference; raises MediaUnavailable."""

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        """Looks for an earlier copy. Asked only where `features.resend` is "lookup"."""


@runtime_checkable
class ShowsProgress(Protocol):
    """A platform on which one can watch a turn."""

    def show(self, address: Address, progress: Progress) -> None:
        """Shows it now or never; must not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftStyle:
    """How an answer is seen growing in one kind of chat."""

    interval_seconds: float  # between two changes, at least
    max_units: int  # of UTF-16, which platforms count in
    account_seconds: float = 0.0  # between two changes wherever on the account, on average
    fades: bool = False  # it goes by itself, has no id, and leaves nothing to take away
    rings: bool = False  # it cannot come silently: the answer must take its place, or it would ring twice


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMessages:
    """Messages of ours in a chat that are no draft left behind, by the platform's ids."""

    ids: frozenset[str]
    is_all: bool  # every other message of ours, from the one that is answered up to the newest of these, is a draft


@runtime_checkable
class ShowsDrafts(Protocol):
    """A platform on which an answer can be seen growing."""

    rate_limits: RateLimits

    def draft_style(self, address: Address) -> DraftStyle | None:
        """None where it cannot."""

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        """Shows it, or changes the one that it `edits`: never shows a second one instead. Raises what `send` raises."""

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        """Looks for one that a crash may have left. Raises PlatformUnavailable while that cannot be told."""

    async def delete(self, address: Address, message_id: str) -> None:
        """Deletes one of our messages; no harm if it is gone. Raises what `send` raises."""


Mark = Literal["seen", "failed", ""]
"""A reaction below somebody's message; the empty one takes ours away."""


@runtime_checkable
class Reacts(Protocol):
    """A platform on which we can react to a message."""

    async def react(self, address: Address, mark: Mark) -> None:
        """To the message that the address replies to. May fail with any GatewayError: nobody relies on it."""


@runtime_checkable
class ShowsTyping(Protocol):
    """A platform that can say "typing"."""

    async def show_typing(self, address: Address) -> None:
        """May fail with any GatewayError: nobody relies on it."""
