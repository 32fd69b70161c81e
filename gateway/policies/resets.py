"""Decide when a conversation ends by itself. Pure; the store ends it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

from hermes_config.settings import SessionsSettings
from hermes_config.types import RESET_EXCEPTION

Reason = Literal["idle", "daily"]
REASONS: tuple[Reason, ...] = ("idle", "daily")

_DAY_MINUTES = 1_440
_UNITS = ((_DAY_MINUTES, "day"), (60, "hour"), (1, "minute"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The reset rule of a chat. With neither value it never resets; with both, whichever comes first."""

    idle_minutes: int | None = None
    daily_hour: int | None = None


def reason_to_reset(policy: Policy, last_used_ms: int, now_ms: int, timezone: tzinfo | None) -> Reason | None:
    """Return why a conversation has ended by now; None if it has not. No time zone means the machine's."""
    ends: list[tuple[int, Reason]] = []
    if policy.idle_minutes is not None:
        ends.append((last_used_ms + policy.idle_minutes * 60_000, "idle"))
    if policy.daily_hour is not None:
        ends.append((_next_at(policy.daily_hour, last_used_ms, timezone), "daily"))
    at_ms, reason = min(ends, default=(now_ms + 1, "idle"))
    return reason if at_ms <= now_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resets:
    """The policies of all chats, by platform, or by platform and kind of chat; the more specific one applies."""

    usual: Policy = Policy()
    exceptions: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    timezone: tzinfo | None = None

    def policy(self, platform: str, kind: str) -> Policy:
        by_platform = self.exceptions.get((platform, ""), self.usual)
        return self.exceptions.get((platform, kind), by_platform)

    def reason(self, *, platform: str, kind: str, last_used_ms: int, now_ms: int) -> Reason | None:
        return reason_to_reset(self.policy(platform, kind), last_used_ms, now_ms, self.timezone)


NEVER = Resets()


def resets_for(settings: SessionsSettings, timezone: str) -> Resets:
    usual = _policy(settings.reset, (), idle=settings.reset_idle_minutes, daily=settings.reset_daily_hour)
    return Resets(
        usual=usual,
        # A conversation at the terminal runs in its own process: we cannot know when it is busy.
        exceptions={**dict(_exceptions(settings)), ("cli", ""): Policy()},
        timezone=ZoneInfo(timezone) if timezone else None,
    )


def in_words(reason: Reason, policy: Policy) -> str:
    """Say why the last conversation ended. Does not quote the policy if that has changed since."""
    if reason == "daily":
        at = f" at {policy.daily_hour}:00" if policy.daily_hour is not None else ""
        return f"conversations end every day{at}"
    silence = f"{_duration(policy.idle_minutes)} of silence" if policy.idle_minutes is not None else "a long silence"
    return f"the last one ended after {silence}"


def _exceptions(settings: SessionsSettings) -> Iterable[tuple[tuple[str, str], Policy]]:
    for entry in settings.reset_exceptions:
        found = RESET_EXCEPTION.fullmatch(entry)
        assert found is not None  # checked by the settings
        numbers = tuple(int(number) for number in (found["numbers"] or "").split(":") if number)
        policy = _policy(found["mode"], numbers, idle=settings.reset_idle_minutes, daily=settings.reset_daily_hour)
        yield (found["platform"], found["kind"] or ""), policy


def _policy(mode: str, numbers: tuple[int, ...], *, idle: int, daily: int) -> Policy:
    match mode:
        case "idle":
            return Policy(idle_minutes=next(iter(numbers), idle))
        case "daily":
            return Policy(daily_hour=next(iter(numbers), daily))
        case "both":
            idle, daily = (*numbers, *(idle, daily)[len(numbers) :])
            return Policy(idle_minutes=idle, daily_hour=daily)
        case _:
            return Policy()


def _next_at(hour: int, after_ms: int, timezone: tzinfo | None) -> int:
    """Return the first time after that moment at which the local clock reaches the hour.

    An hour skipped in spring counts as reached when the clocks change; of one that comes twice in autumn, the first.
    """
    day = datetime.fromtimestamp(after_ms / 1000, timezone).date()
    while True:
        strikes_ms = round(datetime.combine(day, time(hour), tzinfo=timezone).timestamp() * 1000)
        if strikes_ms > after_ms:
            return strikes_ms
        day += timedelta(days=1)


def _duration(minutes: int) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if minutes % size == 0)
    count = minutes // size
    if count == 1:
        return "an hour" if unit == "hour" else f"a {unit}"
    return f"{count:,} {unit}s"
