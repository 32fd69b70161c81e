"""Rate limits of a platform: per chat, per group and overall. No chat waits because of another."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_NO_LIMIT = 1_000_000
_ROUNDING_SECONDS = 1e-6  # a shorter wait is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`count` messages in any `seconds`, all at once if need be. A count of 0 means no limit."""

    count: int = 0
    seconds: float = 1.0


@dataclass(slots=True, kw_only=True)
class RateLimits:
    """The limits of one account, and what was sent lately."""

    per_chat: Rate = Rate()
    per_group: Rate = Rate()
    overall: Rate = Rate()
    is_group: Callable[[str], bool] = lambda chat: False
    clock: Callable[[], float] = time.monotonic
    # The times of as many messages as the limit counts: a token bucket would let twice the limit through at first.
    _sent: dict[str, deque[float]] = field(default_factory=dict)
    _sent_to_all: deque[float] = field(default_factory=deque)
    _paused_until: dict[str, float] = field(default_factory=dict)  # at the platform's request

    def wait_seconds(self, chat: str) -> float:
        """Return how long to send nothing to this chat; 0 if a message may go now."""
        now = self.clock()
        return max(
            self._paused_until.get(chat, now) - now,
            _wait(self._sent.get(chat), self._rate(chat), now),
            _wait(self._sent_to_all, self.overall, now),
        )

    @property
    def overall_wait_seconds(self) -> float:
        return _wait(self._sent_to_all, self.overall, self.clock())

    @property
    def remaining_overall(self) -> int:
        """Return how many messages may go right now, to whatever chats."""
        return _count_free(self._sent_to_all, self.overall, self.clock())

    def remaining(self, chat: str) -> int:
        """Return how many messages may go to this chat right now."""
        if self.wait_seconds(chat) > 0:
            return 0
        return min(self.remaining_overall, _count_free(self._sent.get(chat, ()), self._rate(chat), self.clock()))

    def record_send(self, chat: str) -> None:
        now, rate = self.clock(), self._rate(chat)
        if rate.count:
            self._sent.setdefault(chat, deque(maxlen=rate.count)).append(now)
        if self.overall.count:
            self._sent_to_all.append(now)
            while len(self._sent_to_all) > self.overall.count:
                self._sent_to_all.popleft()

    def pause(self, chat: str, seconds: float) -> None:
        """Send nothing to this chat for that long: the platform asked for it."""
        self._paused_until[chat] = max(self._paused_until.get(chat, 0.0), self.clock() + seconds)

    def list_paused(self) -> dict[str, float]:
        """Return the chats that must wait, with the seconds. Forgets the others, so that memory stays bounded."""
        now = self.clock()
        for chat in [chat for chat, sent in self._sent.items() if sent[-1] + self._rate(chat).seconds <= now]:
            del self._sent[chat]
        for chat in [chat for chat, until in self._paused_until.items() if until <= now]:
            del self._paused_until[chat]
        waits = {chat: self.wait_seconds(chat) for chat in {*self._sent, *self._paused_until}}
        return {chat: wait for chat, wait in waits.items() if wait > 0}

    def _rate(self, chat: str) -> Rate:
        return self.per_group if self.is_group(chat) else self.per_chat


def _wait(sent: deque[float] | None, rate: Rate, now: float) -> float:
    if not sent or not rate.count or len(sent) < rate.count:
        return 0.0
    wait = sent[-rate.count] + rate.seconds - now
    return wait if wait > _ROUNDING_SECONDS else 0.0


def _count_free(sent: Iterable[float], rate: Rate, now: float) -> int:
    begin = now - rate.seconds + _ROUNDING_SECONDS
    return rate.count - sum(at > begin for at in sent) if rate.count else _NO_LIMIT
