from datetime import UTC, datetime

import pytest

from tools.base import ToolContext, ToolFailed
from tools.builtin import clock as clock_module
from tools.builtin.clock import clock

AT_HOME = ToolContext(task_id="task", timezone="Asia/Kolkata")


@pytest.fixture(autouse=True)
def _new_year(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "_utc_now", lambda: datetime(2024, 12, 31, 23, 30, tzinfo=UTC))


async def test_it_tells_the_time_in_the_zone_asked_for() -> None:
    assert await clock(AT_HOME, "Europe/Berlin") == {
        "now": "2025-01-01T00:30:00+01:00",
        "date": "2025-01-01",
        "time": "00:30",
        "weekday": "Wednesday",
        "timezone": "Europe/Berlin",
        "utc_offset": "+01:00",
    }


async def test_left_out_it_is_the_users_zone() -> None:
    told = await clock(AT_HOME)
    assert (told["timezone"], told["utc_offset"], told["time"]) == ("Asia/Kolkata", "+05:30", "05:00")


async def test_without_a_users_zone_it_is_the_machines() -> None:
    told = await clock(ToolContext(task_id="task"))
    assert datetime.fromisoformat(told["now"]) == datetime(2024, 12, 31, 23, 30, tzinfo=UTC)
    assert told["timezone"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Berlin", "Did you mean Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Europe/Berlim", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Europe", "no time zone named 'Europe'"),
        ("../../etc/passwd", "no time zone"),
        ("Qwxz", "IANA name"),
        ("x\0y", "no time zone"),
        ("x" * 10_000, "no time zone"),
    ],
)
async def test_a_zone_that_is_not_there_is_answered_with_the_nearest(name: str, words: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        await clock(AT_HOME, name)
    assert words in str(failed.value)
    assert len(str(failed.value)) < 300
