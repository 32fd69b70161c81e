"""How often we have identified today: Discord resets the token of a bot that does so a thousand times a day."""

from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.messages import Cursor

CHANNEL = "identifies"
_FREELY = 200  # a day; what needs more than that does not need haste
_THEN_EVERY_SECONDS = 300.0  # at most 288 more


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifies:
    day: str = ""
    count: int = 0
    last_ms: int = 0

    @property
    def cursor(self) -> Cursor:
        return Cursor(channel=CHANNEL, value=f"{self.day} {self.count} {self.last_ms}")

    @classmethod
    def written(cls, value: str) -> "Identifies":
        try:
            day, count, last_ms = value.split()
            return cls(day=day, count=int(count), last_ms=int(last_ms))
        except ValueError:
            return cls()

    def wait_seconds(self, at_ms: int) -> float:
        """How long the next one must wait; 0 when it may be now."""
        if self.day != _day(at_ms) or self.count < _FREELY:
            return 0.0
        return max(0.0, self.last_ms / 1000 + _THEN_EVERY_SECONDS - at_ms / 1000)

    def one_more(self, at_ms: int) -> "Identifies":
        count = self.count if self.day == _day(at_ms) else 0
        return Identifies(day=_day(at_ms), count=count + 1, last_ms=at_ms)


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
