"""When a conversation ends by itself: silence, an hour of the day, both, never; over changes of the clock too."""

import time
from collections.abc import Iterator
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

import pytest

from gateway.policies.resets import Policy, Reason, Resets, in_words, reason_to_reset, resets_for
from hermes_config.settings import SessionsSettings

BERLIN = ZoneInfo("Europe/Berlin")
IDLE = Policy(idle_minutes=1_440)
DAILY = Policy(daily_hour=4)
BOTH = Policy(idle_minutes=60, daily_hour=4)


def ms(moment: str, zone: tzinfo | None = BERLIN, *, fold: int = 0) -> int:
    return round(datetime.fromisoformat(moment).replace(tzinfo=zone, fold=fold).timestamp() * 1000)


@pytest.mark.parametrize(
    ("policy", "last_used", "now", "reason"),
    [
        (IDLE, "2026-03-10 12:00", "2026-03-11 11:59:59.999", None),
        (IDLE, "2026-03-10 12:00", "2026-03-11 12:00", "idle"),
        (IDLE, "2026-03-10 12:00", "2026-03-10 11:00", None),  # the clock was set back
        (DAILY, "2026-03-10 12:00", "2026-03-11 03:59:59.999", None),
        (DAILY, "2026-03-10 12:00", "2026-03-11 04:00", "daily"),
        (DAILY, "2026-03-10 03:59:59.999", "2026-03-10 04:00", "daily"),
        (DAILY, "2026-03-10 04:00", "2026-03-11 03:59", None),  # used at the stroke: belongs to the new day
        (DAILY, "2026-03-10 12:00", "2026-04-10 12:00", "daily"),
        (BOTH, "2026-03-10 12:00", "2026-03-10 12:59", None),
        (BOTH, "2026-03-10 12:00", "2026-03-10 13:00", "idle"),
        (BOTH, "2026-03-10 03:30", "2026-03-10 04:00", "daily"),
        (BOTH, "2026-03-10 03:30", "2026-03-10 12:00", "daily"),  # both by now: the one that came first
        (BOTH, "2026-03-10 02:30", "2026-03-10 12:00", "idle"),
        (Policy(), "1990-01-01 00:00", "2026-03-10 12:00", None),
    ],
)
def test_the_boundaries(policy: Policy, last_used: str, now: str, reason: Reason | None) -> None:
    assert reason_to_reset(policy, ms(last_used), ms(now), BERLIN) == reason


@pytest.mark.parametrize(
    ("hour", "last_used", "strikes"),
    [
        # In spring 02:00 becomes 03:00: an hour that is skipped strikes when the clocks are moved.
        (2, ms("2026-03-28 12:00"), ms("2026-03-29 03:00")),
        (4, ms("2026-03-28 12:00"), ms("2026-03-29 04:00")),
        (2, ms("2026-03-29 03:00"), ms("2026-03-30 02:00")),
        # In autumn 03:00 becomes 02:00: an hour that comes twice strikes once.
        (2, ms("2026-10-24 12:00"), ms("2026-10-25 02:00")),
        (2, ms("2026-10-25 02:30"), ms("2026-10-26 02:00")),
        (2, ms("2026-10-25 02:30", fold=1), ms("2026-10-26 02:00")),
        (4, ms("2026-10-25 02:30", fold=1), ms("2026-10-25 04:00")),
        (0, ms("2026-12-31 23:59"), ms("2027-01-01 00:00")),
        (23, ms("2026-02-28 23:00"), ms("2026-03-01 23:00")),
    ],
)
def test_the_hour_on_the_wall_over_a_change_of_the_clock(hour: int, last_used: int, strikes: int) -> None:
    policy = Policy(daily_hour=hour)
    assert reason_to_reset(policy, last_used, strikes - 1, BERLIN) is None
    assert reason_to_reset(policy, last_used, strikes, BERLIN) == "daily"


def test_where_midnight_is_skipped_the_day_begins_at_one() -> None:
    beirut = ZoneInfo("Asia/Beirut")
    policy = Policy(daily_hour=0)
    last_used, strikes = ms("2024-03-30 12:00", beirut), ms("2024-03-31 01:00", beirut)
    assert reason_to_reset(policy, last_used, strikes - 1, beirut) is None
    assert reason_to_reset(policy, last_used, strikes, beirut) == "daily"


def test_silence_is_counted_in_time_that_passed_not_by_the_clock() -> None:
    last_used = ms("2026-03-28 12:00")
    assert reason_to_reset(IDLE, last_used, ms("2026-03-29 12:59"), BERLIN) is None  # that day had 23 hours
    assert reason_to_reset(IDLE, last_used, ms("2026-03-29 13:00"), BERLIN) == "idle"


@pytest.fixture
def _machine_in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_machine_in_new_york")
def test_without_a_time_zone_it_is_the_machines() -> None:
    new_york = ZoneInfo("America/New_York")
    last_used, strikes = ms("2026-03-07 12:00", new_york), ms("2026-03-08 04:00", new_york)
    assert reason_to_reset(DAILY, last_used, strikes - 1, None) is None
    assert reason_to_reset(DAILY, last_used, strikes, None) == "daily"


def resets(*exceptions: str, reset: str = "idle") -> Resets:
    return resets_for(SessionsSettings.model_validate({"reset": reset, "reset_exceptions": exceptions}), "UTC")


@pytest.mark.parametrize(
    ("platform", "kind", "policy"),
    [
        ("signal", "dm", Policy(idle_minutes=1_440)),
        ("telegram", "dm", Policy(idle_minutes=1_440)),
        ("telegram", "group", Policy(daily_hour=4)),
        ("slack", "dm", Policy(idle_minutes=120)),
        ("slack", "channel", Policy()),
        ("discord", "thread", Policy(daily_hour=6)),
        ("discord", "dm", Policy(idle_minutes=30, daily_hour=7)),
        ("web", "", Policy(idle_minutes=1_440, daily_hour=4)),
        ("cli", "", Policy()),
    ],
)
def test_the_narrowest_exception_holds(platform: str, kind: str, policy: Policy) -> None:
    chosen = resets(
        "telegram:group=daily", "slack=none", "slack:dm=idle:120", "discord=daily:6", "discord:dm=both:30:7", "web=both"
    )
    assert chosen.policy(platform, kind) == policy


@pytest.mark.parametrize(
    ("reset", "policy"),
    [
        ("idle", Policy(idle_minutes=1_440)),
        ("daily", Policy(daily_hour=4)),
        ("both", Policy(idle_minutes=1_440, daily_hour=4)),
        ("none", Policy()),
    ],
)
def test_the_usual_policy(reset: str, policy: Policy) -> None:
    assert resets(reset=reset).policy("telegram", "dm") == policy


def test_chats_one_comes_back_to_do_not_end_unless_one_says_so() -> None:
    usual = resets_for(SessionsSettings(), "")
    assert usual.policy("web", "") == usual.policy("socket", "") == usual.policy("cli", "") == Policy()
    assert usual.timezone is None


@pytest.mark.parametrize(
    ("reason", "policy", "words"),
    [
        ("idle", IDLE, "the last one ended after a day of silence"),
        ("idle", Policy(idle_minutes=60), "the last one ended after an hour of silence"),
        ("idle", Policy(idle_minutes=90), "the last one ended after 90 minutes of silence"),
        ("idle", Policy(idle_minutes=2_880), "the last one ended after 2 days of silence"),
        ("daily", DAILY, "conversations end every day at 4:00"),
        ("idle", Policy(), "the last one ended after a long silence"),
        ("daily", Policy(), "conversations end every day"),
    ],
)
def test_the_reason_in_words(reason: Reason, policy: Policy, words: str) -> None:
    assert in_words(reason, policy) == words
