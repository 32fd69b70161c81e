"""Limits how many messages a sender may send in a minute, whoever they are. In memory: a restart forgets."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_SENDERS_REMEMBERED = 10_000
_REST_SECONDS = 2.0  # in which the other pictures of an album come
_REST_MESSAGES = 9  # an album has ten at most
_ROUNDING_SECONDS = 1e-6  # what adding up many small spacings may be wrong by
_LATE_SECONDS = 60.0  # what was said before that is counted by when it was said


@dataclass(slots=True)
class SenderLimits:
    per_minute: int  # 0: any number
    clock: Callable[[], float] = time.monotonic
    # When the sender's next message would be due if those so far had been spread evenly.
    _due: OrderedDict[tuple[str, str], float] = field(default_factory=OrderedDict)
    # Messages sent in a past minute, by its number: those that waited arrive in any order, chat after chat.
    _late: OrderedDict[tuple[str, str, int], int] = field(default_factory=OrderedDict)
    # Until when the rest of a message may arrive, and how many parts of it.
    _rests: OrderedDict[tuple[str, str], tuple[float, int]] = field(default_factory=OrderedDict)

    def allow(self, account: str, sender_id: str, *, seconds_ago: float = 0.0) -> bool:
        """Count one message of a sender; False when it is one too many.

        Messages that were sent over hours while we were away arrive all at once, and count by when they were sent.
        """
        if not self.per_minute:
            return True
        if seconds_ago > _LATE_SECONDS:
            return self._allow_late((account, sender_id, self._minute(seconds_ago)))
        now, spacing = self.clock(), 60 / self.per_minute
        due = max(self._due.pop((account, sender_id), now), now)
        allowed = due + spacing <= now + 60 + _ROUNDING_SECONDS
        self._due[account, sender_id] = due + spacing if allowed else due
        if len(self._due) > _SENDERS_REMEMBERED:
            self._due.popitem(last=False)
        return allowed

    def _allow_late(self, minute: tuple[str, str, int]) -> bool:
        said = self._late.pop(minute, 0)
        self._late[minute] = min(said + 1, self.per_minute)
        if len(self._late) > _SENDERS_REMEMBERED:
            self._late.popitem(last=False)
        return said < self.per_minute

    def _minute(self, seconds_ago: float) -> int:
        return int((self.clock() - seconds_ago) // 60)

    def expect_rest(self, account: str, sender_id: str) -> None:
        """Expect the rest of the message that was just counted: an album, or a text that was split."""
        self._rests.pop((account, sender_id), None)
        self._rests[account, sender_id] = self.clock() + _REST_SECONDS, _REST_MESSAGES
        if len(self._rests) > _SENDERS_REMEMBERED:
            self._rests.popitem(last=False)

    def is_rest(self, account: str, sender_id: str, *, more_follows: bool) -> bool:
        """Return whether a message is the rest of one that was counted, and need not be counted."""
        until, left = self._rests.pop((account, sender_id), (0.0, 0))
        if not left or self.clock() > until:
            return False
        if more_follows:
            self._rests[account, sender_id] = until, left - 1
        return True

    def give_back(self, account: str, sender_id: str, *, seconds_ago: float = 0.0) -> None:
        """Uncount a message that could not be stored: the platform offers it again."""
        self._rests.pop((account, sender_id), None)
        minute = account, sender_id, self._minute(seconds_ago)
        if seconds_ago > _LATE_SECONDS:
            self._late[minute] = max(0, self._late.get(minute, 0) - 1)
        elif (account, sender_id) in self._due:
            self._due[account, sender_id] -= 60 / self.per_minute
