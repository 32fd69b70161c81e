"""Times as people say them."""

import pytest

from gateway.clock import how_long, roughly

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "in_one_unit", "in_two"),
    [
        (-5 * MINUTE, "0 s", "0 s"),  # a clock that was set back
        (999, "0 s", "0 s"),
        (59 * SECOND, "59 s", "59 s"),
        (MINUTE, "1 min", "1 min"),
        (3 * MINUTE + 20 * SECOND, "3 min", "3 min 20 s"),
        (HOUR - 1, "59 min", "59 min 59 s"),
        (3 * HOUR + 20 * MINUTE + 10 * SECOND, "3 h", "3 h 20 min"),
        (2 * DAY, "2 d", "2 d"),
        (40 * DAY + 5 * HOUR, "40 d", "40 d 5 h"),
    ],
)
def test_a_length_of_time(ms: int, in_one_unit: str, in_two: str) -> None:
    assert roughly(ms) == in_one_unit
    assert how_long(ms) == in_two
