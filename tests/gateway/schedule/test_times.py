"""Schedules: what people write, when it is due, and what is refused with which reason."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.schedule.times import (
    COUNTED,
    BadSchedule,
    Schedule,
    find_local_timezone,
    format_time,
    parse_schedule,
)

BERLIN = "Europe/Berlin"
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def at(text: str, zone: str = BERLIN, *, fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


NOW = at("2027-01-04T10:00")  # a Monday


def due(schedule: Schedule, after_ms: int, count: int) -> list[str]:
    found = []
    for moment in schedule.times_after(after_ms):
        found.append(
            f"{datetime.fromtimestamp(moment / 1000, UTC).astimezone(ZoneInfo(schedule.timezone)):%m-%d %H:%M}"
        )
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize(
    ("text", "kind", "stored", "times"),
    [
        ("0 9 * * *", "cron", "0 9 * * *", ["01-05 09:00", "01-06 09:00"]),
        ("0 9 * * mon-fri", "cron", "0 9 * * mon-fri", ["01-05 09:00", "01-06 09:00"]),
        ("*/15 * * * *", "cron", "*/15 * * * *", ["01-04 10:15", "01-04 10:30"]),
        ("30 8 L * *", "cron", "30 8 L * *", ["01-31 08:30", "02-28 08:30"]),
        ("every day at 09:00", "cron", "0 9 * * *", ["01-05 09:00", "01-06 09:00"]),
        ("daily at 7:05", "cron", "5 7 * * *", ["01-05 07:05", "01-06 07:05"]),
        ("every Monday at 09:00", "cron", "0 9 * * 1", ["01-11 09:00", "01-18 09:00"]),
        ("every weekday at 18:00", "cron", "0 18 * * 1-5", ["01-04 18:00", "01-05 18:00"]),
        ("every 30m", "every", "every 30m", ["01-04 10:30", "01-04 11:00"]),
        ("every 90 minutes", "every", "every 1h 30m", ["01-04 11:30", "01-04 13:00"]),
        ("every hour", "every", "every 1h", ["01-04 11:00", "01-04 12:00"]),
        ("  every   2  days ", "every", "every 2d", ["01-06 10:00", "01-08 10:00"]),
        ("in 2h", "once", "2027-01-04T12:00:00+01:00", ["01-04 12:00"]),
        ("in 1h30m", "once", "2027-01-04T11:30:00+01:00", ["01-04 11:30"]),
        ("at 09:00", "once", "2027-01-05T09:00:00+01:00", ["01-05 09:00"]),
        ("at 11:15", "once", "2027-01-04T11:15:00+01:00", ["01-04 11:15"]),
        ("2027-05-03 09:00", "once", "2027-05-03T09:00:00+02:00", ["05-03 09:00"]),
        ("2027-05-03T09:00:00Z", "once", "2027-05-03T11:00:00+02:00", ["05-03 11:00"]),
        ("2027-05-03T09:00+05:30", "once", "2027-05-03T05:30:00+02:00", ["05-03 05:30"]),
    ],
)
def test_what_people_write_is_understood(text: str, kind: str, stored: str, times: list[str]) -> None:
    schedule = parse_schedule(text, BERLIN, NOW)
    assert (schedule.kind, schedule.text) == (kind, stored)
    assert due(schedule, NOW, 2) == times
    assert schedule.describe()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("0 0 9 * * *", "six fields.*`0 9 \\* \\* \\*`"),
        ("0 9 * *", "4 fields, not five"),
        ("61 * * * *", "bad minute"),
        ("0 25 * * *", "bad hour"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 * * 9", "bad day-of-week"),
        ("every 10s", "`every 1m`"),
        ("every 0 minutes", "more than zero"),
        ("every 99 weeks of rain", "no time that I understand"),
        ("every 999999 weeks", "less than five years"),
        ("30m", "Did you mean `in 30m` or `every 30m`"),
        ("2 hours", "Did you mean `in 2 hours` or `every 2 hours`"),
        ("2026-05-03 09:00", "in the past"),
        ("2027-02-30 09:00", "no date and time"),
        ("at 25:00", "no schedule that I understand"),
        ("tomorrow morning please", "no schedule that I understand.*cron expression of five fields"),
        ("next week", "no schedule|not five"),
        ("* * * * * ; rm -rf", "no schedule"),
        ("9" * 5_000, "not five"),
    ],
)
def test_bad_schedules_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(BadSchedule, match=f"(?is){reason}"):
        parse_schedule(text, BERLIN, NOW)


def test_unknown_time_zones_are_refused_with_the_nearest() -> None:
    with pytest.raises(BadSchedule, match="Europe/Berlin"):
        parse_schedule("every 5m", "Europe/Berlim", NOW)
    with pytest.raises(BadSchedule, match="Use a name"):
        parse_schedule("every 5m", "../../etc/passwd", NOW)
    assert ZoneInfo(find_local_timezone())


@pytest.mark.parametrize(
    ("expression", "zone", "since", "times"),
    [
        # The clocks go forward: 02:30 does not exist, and is due right after the gap.
        ("30 2 * * *", BERLIN, "2027-03-27T12:00", ["03-28 03:00", "03-29 02:30"]),
        ("30 2 * * *", "America/New_York", "2027-03-13T12:00", ["03-14 03:00", "03-15 02:30"]),
        ("0 * * * *", BERLIN, "2027-03-28T00:30", ["03-28 01:00", "03-28 03:00", "03-28 04:00"]),
        # They go back: 02:30 comes twice, and is due once.
        ("30 2 * * *", BERLIN, "2027-10-30T12:00", ["10-31 02:30", "11-01 02:30"]),
        ("30 1 * * *", "America/New_York", "2027-11-06T12:00", ["11-07 01:30", "11-08 01:30"]),
        ("*/30 * * * *", BERLIN, "2027-10-31T01:45", ["10-31 02:00", "10-31 02:30", "10-31 02:00", "10-31 02:30"]),
        # Months end, and leap years come.
        ("0 12 31 * *", "Asia/Kolkata", "2027-01-31T13:00", ["03-31 12:00", "05-31 12:00"]),
        ("0 12 29 2 *", "Asia/Kolkata", "2027-01-01T00:00", ["02-29 12:00"]),
    ],
)
def test_the_clocks_change_and_the_job_is_due_once(expression: str, zone: str, since: str, times: list[str]) -> None:
    schedule = parse_schedule(expression, zone, at("2027-01-01T00:00", zone))
    assert due(schedule, at(since, zone), len(times)) == times


def test_within_the_hour_that_comes_twice_nothing_is_due_again() -> None:
    schedule = parse_schedule("30 2 * * *", BERLIN, NOW)
    assert due(schedule, at("2027-10-31T02:10", fold=1), 1) == ["11-01 02:30"]
    assert due(schedule, at("2027-10-31T02:30"), 1) == ["11-01 02:30"]


def test_a_single_time_in_the_gap_or_the_fold() -> None:
    assert due(parse_schedule("2027-03-28 02:30", BERLIN, NOW), NOW, 1) == ["03-28 03:30"]
    assert parse_schedule("2027-10-31 02:30", BERLIN, NOW).anchor_ms == at("2027-10-31T02:30", fold=0)
    assert due(parse_schedule("at 02:30", BERLIN, at("2027-03-27T12:00")), at("2027-03-27T12:00"), 1) == ["03-28 03:30"]


@pytest.mark.parametrize(
    ("text", "first", "now", "latest", "count"),
    [
        ("every 30m", NOW + 30 * MINUTE, NOW + 30 * MINUTE, NOW + 30 * MINUTE, 1),
        ("every 30m", NOW + 30 * MINUTE, NOW + 2 * HOUR + 5, NOW + 2 * HOUR, 4),
        ("every 1m", NOW + MINUTE, NOW + 400 * DAY, NOW + 400 * DAY, COUNTED),
        ("0 * * * *", NOW + HOUR, NOW + HOUR + 1, NOW + HOUR, 1),
        ("0 * * * *", NOW + HOUR, NOW + 5 * HOUR + 1, NOW + 5 * HOUR, 5),
        ("* * * * *", NOW + MINUTE, NOW + 300 * DAY, NOW + 300 * DAY, COUNTED),
        ("in 2h", NOW + 2 * HOUR, NOW + 900 * DAY, NOW + 2 * HOUR, 1),
    ],
)
def test_missed_times_are_found_and_counted(text: str, first: int, now: int, latest: int, count: int) -> None:
    assert parse_schedule(text, BERLIN, NOW).find_missed(first, now) == (latest, count)


def test_times_are_told_in_the_zone_of_the_job() -> None:
    assert format_time(NOW, BERLIN) == "Mon 04 Jan 2027, 10:00 (Europe/Berlin)"
    assert format_time(NOW, "Asia/Kolkata") == "Mon 04 Jan 2027, 14:30 (Asia/Kolkata)"
