"""A clock that never goes back, and times as people say them."""

import pytest

from gateway.clock import ProcessClock, how_long, roughly

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


class Wall:
    """A wall clock that somebody sets, and the monotonic one beside it."""

    def __init__(self) -> None:
        self.wall_ns = 1_800_000_000 * 10**9
        self.monotonic_ns = 5 * 10**9
        self.clock = ProcessClock(wall_ns=lambda: self.wall_ns, monotonic_ns=lambda: self.monotonic_ns)
        self.clock.now_ms()

    def let_pass(self, ms: int) -> None:
        self.wall_ns += ms * 10**6
        self.monotonic_ns += ms * 10**6

    def set(self, by_ms: int) -> None:
        self.wall_ns += by_ms * 10**6


def test_a_clock_set_back_goes_on_from_where_it_was() -> None:
    wall = Wall()
    began = wall.clock.now_ms()
    wall.set(-HOUR)
    assert wall.clock.now_ms() == began
    wall.let_pass(10 * SECOND)
    assert began + 9 * SECOND <= wall.clock.now_ms() <= began + 10 * SECOND


def test_a_clock_that_is_ahead_is_right_again_in_time_without_ever_going_back() -> None:
    wall = Wall()
    wall.set(-MINUTE)
    seen = [wall.clock.now_ms()]
    for _ in range(700):
        wall.let_pass(SECOND)
        seen.append(wall.clock.now_ms())
    assert seen == sorted(seen)
    assert seen[-1] == wall.wall_ns // 10**6


@pytest.mark.parametrize("jump_ms", [SECOND, HOUR, 40 * DAY])
def test_a_jump_forward_is_followed_at_once(jump_ms: int) -> None:
    wall = Wall()
    wall.set(jump_ms)  # or the machine slept, during which the monotonic clock stands still
    assert wall.clock.now_ms() == wall.wall_ns // 10**6
