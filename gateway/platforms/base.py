"""The platform interface: a few methods, a value with the differences, and the inlet that a platform is given."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from gateway.messages import Address, Cursor, InboundMessage, Media, OutboundMessage, Progress, Receipt
from gateway.platforms.rate_limit import RateLimits

Resend = Literal["safe", "lookup", "never"]
"""How to treat a message that may or may not have arrived: the platform drops a second copy (safe), `find_sent` can
tell (lookup), or nobody can know (never)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    resend: Resend
    local: bool = False  # whoever can reach this platform is the owner
    quiet_seconds: float = 0  # a connection silent for this long is dead; 0: silence is normal
    sends_files: bool = False  # the agent may name files in its answers


async def _serve_everyone(message: InboundMessage) -> bool:
    return True


async def _no_limit() -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inlet:
    """The calls that a platform may make to the gateway."""

    accept: Callable[[Sequence[InboundMessage], Cursor | None], Awaitable[None]]
    """Accept a page of messages and the cursor in one transaction. The platform may acknowledge them only after this
    returns; if it raises, nothing was accepted."""

    cursor: Callable[[str], Awaitable[str]]
    """Return how far a channel was accepted; empty at first."""

    cursors: Callable[[], Awaitable[Mapping[str, str]]]
    """Return how far every channel of this account was accepted."""

    alive: Callable[[], None]
    """Report that something came in, if only a heartbeat. The first call after a connect means: connected."""

    chat_reachable: Callable[[str], Awaitable[None]]
    """Report that a chat can be reached again: what waits for it is sent."""

    chat_moved: Callable[[str, str], Awaitable[None]]
    """Report that a chat has a new id: old, new."""

    history_since_ms: Callable[[], Awaitable[int]] = _no_limit
    """Return the time before which history must not be read: after an older copy of the store was restored, earlier
    messages may have been answered without a record of it."""

    serves: Callable[[InboundMessage], Awaitable[bool]] = _serve_everyone
    """Tell whether the sender may act, for work that comes before `accept`. Decides nothing: `accept` does."""


class MenuCommand(NamedTuple):
    """A command as a platform shows it; one without a description is understood, but not listed."""

    name: str
    description: str = ""
    hint: str = ""  # what may be written after it

    @property
    def label(self) -> str:
        """Return one line for menus that have no place for arguments."""
        return f"{self.description} · {self.hint}" if self.hint else self.description


class Platform(Protocol):
    account: str
    features: Features
    rate_limits: RateLimits

    async def run(self, inlet: Inlet) -> None:
        """Listen until cancelled. Raises PlatformUnavailable or PlatformAuthFailed."""

    async def send(self, message: OutboundMessage) -> Receipt:
        """Send one piece of a message. Raises PlatformUnavailable, DeliveryRejected or DeliveryInDoubt."""

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        """Return the bytes behind a reference. Raises MediaUnavailable."""


@runtime_checkable
class FindsSent(Protocol):
    """A platform that can be searched for what we have sent: its `features.resend` is "lookup"."""

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        """Look for an earlier copy. Raises PlatformUnavailable or DeliveryRejected."""


@runtime_checkable
class ShowsProgress(Protocol):
    """A platform on which a turn can be watched."""

    def show(self, address: Address, progress: Progress) -> None:
        """Show progress at once or drop it; must not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftStyle:
    """The display of a growing answer in one kind of chat."""

    interval_seconds: float  # between two changes, at least
    max_units: int  # of UTF-16, which platforms count in
    account_seconds: float = 0.0  # between two changes anywhere on the account, on average
    fades: bool = False  # it disappears by itself, has no id, and need not be deleted
    rings: bool = False  # it cannot be silent: the answer must replace it, or the phone would ring twice


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMessages:
    """Our messages in a chat that are not leftover drafts, by the platform's ids."""

    ids: frozenset[str]
    is_all: bool  # every other message of ours, from the answered one up to the newest of these, is a draft


@runtime_checkable
class ShowsDrafts(Protocol):
    """A platform on which an answer can be seen growing."""

    rate_limits: RateLimits

    def draft_style(self, address: Address) -> DraftStyle | None:
        """Return None where drafts cannot be shown."""

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        """Post a draft, or change the one that it `edits`; never post a second one. Raises what `send` raises."""

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        """Look for a draft left by a crash. Raises PlatformUnavailable while that cannot be known."""

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of our messages; succeeds if it is gone. Raises what `send` raises."""


Mark = Literal["seen", "failed", ""]
"""A reaction to somebody's message; the empty one removes ours."""


@runtime_checkable
class Reacts(Protocol):
    """A platform on which we can react to a message."""

    async def react(self, address: Address, mark: Mark) -> None:
        """React to the message that the address replies to. May raise any GatewayError: nobody relies on it."""


@runtime_checkable
class ShowsTyping(Protocol):
    """A platform that can show "typing"."""

    async def show_typing(self, address: Address) -> None:
        """May raise any GatewayError: nobody relies on it."""
