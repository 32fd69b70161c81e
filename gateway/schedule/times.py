"""Read schedules as people write them and compute when they are due. Pure: the caller says what time it is.

A cron expression follows the wall clock of its time zone: a time that a change of the clocks leaves out is due right
after the gap, and one that comes twice is due once. An interval follows elapsed time.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

ScheduleKind = Literal["cron", "every", "once"]

COUNTED = 1_000  # missed times; counting more could take long
FORMS = (
    "Write `every 30m`, `every day at 09:00`, `every monday at 09:00`, `in 2h`, `at 09:00`, `2027-05-03 09:00`, or a "
    "cron expression of five fields such as `0 9 * * 1-5`."
)

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS
_UNITS_MS = {"s": 1_000, "m": _MINUTE_MS, "h": 60 * _MINUTE_MS, "d": _DAY_MS, "w": 7 * _DAY_MS}
_LONGEST_MS = 5 * 366 * _DAY_MS
_AMOUNT = r"(\d{1,6})\s*(s|sec|secs|seconds?|m|min|mins|minutes?|h|hrs?|hours?|d|days?|w|weeks?)"
_DURATION = re.compile(rf"(?:{_AMOUNT}\s*)+")
_CLOCK = r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)"
_AT = re.compile(rf"at\s+{_CLOCK}")
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAYS = {"day": "*", "weekday": "1-5", "weekend": "0,6"} | {name: str(at) for at, name in enumerate(_WEEKDAYS)}
_EVERY_DAY = re.compile(rf"(?:every\s+(?P<day>{'|'.join(_DAYS)})|daily)(?:\s+at)?\s+{_CLOCK}")
_FIELD = re.compile(r"[\d*/,#LlWw-]+|[A-Za-z]{3}(?:[-,][A-Za-z]{3})*(?:#\d)?")  # of a cron expression
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}[ tT]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:z|Z|[+-]\d{2}:?\d{2})?")


class BadSchedule(ValueError):
    """The schedule cannot be used. The text says why, and which form is nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    kind: ScheduleKind
    text: str  # a cron expression, `every 30m`, or the moment of a single run
    timezone: str
    anchor_ms: int  # an interval counts from here; a single run is due here

    @property
    def step_ms(self) -> int:
        return _duration_ms(self.text.removeprefix("every "))

    def next_after(self, at_ms: int) -> int | None:
        """Return the first time that is later; None when there is none."""
        return next(self.times_after(at_ms), None)

    def times_after(self, at_ms: int) -> Iterator[int]:
        match self.kind:
            case "once":
                yield from (self.anchor_ms,) if self.anchor_ms > at_ms else ()
            case "every":
                due = self.anchor_ms + max((at_ms - self.anchor_ms) // self.step_ms + 1, 1) * self.step_ms
                while True:
                    yield due
                    due += self.step_ms
            case "cron":
                moment = datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(ZoneInfo(self.timezone))
                for found in CronSim(self.text, moment):
                    due = int(found.timestamp()) * 1000
                    if due > at_ms:  # in an hour that comes twice, cronsim also names the first of the two
                        yield due

    def find_missed(self, first_ms: int, now_ms: int) -> tuple[int, int]:
        """Return the latest time that is due by now, and how many there were since the first; COUNTED at most."""
        if self.kind == "every":
            steps = (now_ms - first_ms) // self.step_ms
            return first_ms + steps * self.step_ms, min(steps + 1, COUNTED)
        latest, count = self._walk(first_ms - 1, now_ms, COUNTED)
        if count < COUNTED:
            return latest or first_ms, max(count, 1)
        for since_ms in (now_ms - 2 * _DAY_MS, now_ms - 400 * _DAY_MS, first_ms):
            found, _ = self._walk(max(since_ms, first_ms), now_ms)
            if found is not None:
                return found, COUNTED
        return first_ms, COUNTED

    def _walk(self, after_ms: int, now_ms: int, limit: int | None = None) -> tuple[int | None, int]:
        latest, count = None, 0
        for due in islice(self.times_after(after_ms), limit):
            if due > now_ms:
                break
            latest, count = due, count + 1
        return latest, count

    def describe(self) -> str:
        """Say it in words: "at 09:00 every day"."""
        match self.kind:
            case "once":
                return f"once, {format_time(self.anchor_ms, self.timezone)}"
            case "every":
                return self.text
            case "cron":
                words = CronSim(self.text, datetime.now(UTC)).explain()
                return f"{words[:1].lower()}{words[1:]} ({self.timezone})"


def parse_schedule(text: str, timezone: str, now_ms: int) -> Schedule:
    """Read a schedule; raises BadSchedule."""
    words = " ".join(text.split()).strip("`'\"")
    lowered = words.lower()
    check_timezone(timezone)
    if not words:
        raise BadSchedule(f"The schedule is empty. {FORMS}")
    if found := _EVERY_DAY.fullmatch(lowered):
        expression = f"{int(found['minute'])} {int(found['hour'])} * * {_DAYS[found['day'] or 'day']}"
        schedule = Schedule(kind="cron", text=expression, timezone=timezone, anchor_ms=now_ms)
    elif lowered.startswith("every "):
        schedule = _parse_interval(lowered.removeprefix("every "), timezone, now_ms)
    elif lowered.startswith("in "):
        due_ms = now_ms + _read_duration(lowered.removeprefix("in "), "in")
        schedule = _once(due_ms, timezone)
    elif found := _AT.fullmatch(lowered):
        schedule = _once(_next_clock_time(int(found["hour"]), int(found["minute"]), timezone, now_ms), timezone)
    elif _ISO.fullmatch(words):
        schedule = _parse_moment(words, timezone, now_ms)
    else:
        schedule = _parse_expression(words, timezone, now_ms)
    if schedule.next_after(now_ms) is None:
        raise BadSchedule(f"{words!r} is never due. {FORMS}")
    return schedule


def _once(due_ms: int, timezone: str) -> Schedule:
    return Schedule(kind="once", text=_local(due_ms, timezone).isoformat(), timezone=timezone, anchor_ms=due_ms)


def _parse_interval(words: str, timezone: str, now_ms: int) -> Schedule:
    words = words if words[:1].isdigit() else f"1 {words}"  # every hour
    step_ms = _read_duration(words, "every")
    if step_ms < _MINUTE_MS:
        raise BadSchedule("The shortest interval is one minute: write `every 1m`.")
    return Schedule(kind="every", text=f"every {_format_duration(step_ms)}", timezone=timezone, anchor_ms=now_ms)


def _read_duration(words: str, before: str) -> int:
    if not _DURATION.fullmatch(words):
        raise BadSchedule(f"{before} {words!r} is no time that I understand. {FORMS}")
    ms = _duration_ms(words)
    if not 0 < ms <= _LONGEST_MS:
        raise BadSchedule(f"{before} {words!r}: use a time of more than zero and less than five years.")
    return ms


def _duration_ms(words: str) -> int:
    return sum(int(number) * _UNITS_MS[unit[0]] for number, unit in re.findall(_AMOUNT, words))


def _format_duration(ms: int) -> str:
    parts = []
    for unit in "wdhms":
        number, ms = divmod(ms, _UNITS_MS[unit])
        parts += [f"{number}{unit}"] if number else []
    return " ".join(parts)


def _next_clock_time(hour: int, minute: int, timezone: str, now_ms: int) -> int:
    today = _local(now_ms, timezone).replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    for moment in (today, (today + timedelta(days=1)).replace(fold=0)):
        due_ms = int(moment.timestamp() * 1000)
        if due_ms > now_ms:
            break
    return due_ms


def _parse_moment(words: str, timezone: str, now_ms: int) -> Schedule:
    try:
        moment = datetime.fromisoformat(re.sub(r"[ tT](\d):", r"T0\1:", words).upper())
    except ValueError as error:
        raise BadSchedule(f"{words!r} is no date and time. Write it as 2027-05-03 09:00.") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(timezone))
    due_ms = int(moment.timestamp() * 1000)
    if due_ms <= now_ms:
        raise BadSchedule(f"{words} is in the past; it is {format_time(now_ms, timezone)} now.")
    return _once(due_ms, timezone)


def _parse_expression(words: str, timezone: str, now_ms: int) -> Schedule:
    fields = words.split()
    # Words such as "tomorrow morning please" are no expression with a wrong number of fields.
    is_expression = all(_FIELD.fullmatch(field) for field in fields)
    if is_expression and len(fields) == 6:
        raise BadSchedule(
            f"{words!r} has six fields. Hermes uses five (minute, hour, day, month, weekday), since nothing runs more "
            f"often than once a minute. Without the seconds it is `{' '.join(fields[1:])}`."
        )
    if not is_expression or len(fields) != 5:
        nearest = f" Did you mean `in {words}` or `every {words}`?" if _DURATION.fullmatch(words.lower()) else ""
        count = f": it has {len(fields)} fields, not five" if is_expression else ""
        raise BadSchedule(f"{words[:80]!r} is no schedule that I understand{count}.{nearest} {FORMS}")
    schedule = Schedule(kind="cron", text=words, timezone=timezone, anchor_ms=now_ms)
    try:
        schedule.next_after(now_ms)
    except CronSimError as error:
        last_day = " ".join([*fields[:2], "L", *fields[3:]])
        nearest = f" The last day of a month is L: `{last_day}`." if fields[2] in ("29", "30", "31") else ""
        raise BadSchedule(
            f"{words!r} is never due or not valid: {str(error).lower()}. The fields are minute, hour, day, month and "
            f"weekday.{nearest}"
        ) from error
    return schedule


def check_timezone(name: str) -> None:
    """Raise BadSchedule, with the nearest names, when there is no such time zone."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        near = get_close_matches(name, available_timezones(), n=2, cutoff=0.6)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Use a name such as Europe/Berlin or UTC."
        raise BadSchedule(f"There is no time zone {name[:60]!r}. {hint}") from error


def find_local_timezone() -> str:
    """Return the name of the machine's time zone; UTC when it has none."""
    try:
        name = os.readlink("/etc/localtime").rpartition("zoneinfo/")[2]
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return "UTC"
    return name


def format_time(at_ms: int, timezone: str) -> str:
    return f"{_local(at_ms, timezone):%a %d %b %Y, %H:%M} ({timezone})"


def _local(at_ms: int, timezone: str) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(timezone)).replace(microsecond=0)
