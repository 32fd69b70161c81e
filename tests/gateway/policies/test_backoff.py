"""How long to wait before trying again."""

import pytest

from gateway.policies.backoff import backoff_seconds, clamp_retry_after


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (100, 60)])
def test_waits_double_up_to_a_minute(failures: int, seconds: float) -> None:
    for _ in range(20):
        assert seconds * 0.75 <= backoff_seconds(failures) <= seconds * 1.25


@pytest.mark.parametrize("failures", [1_024, 1_025, 10**9])
def test_a_platform_may_be_away_for_days(failures: int) -> None:
    assert backoff_seconds(failures) <= 75


def test_many_do_not_try_at_the_same_moment() -> None:
    assert len({backoff_seconds(3) for _ in range(20)}) > 1


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (0.0, 0.0),
        (7.5, 7.5),
        (86_400.0, 3600.0),
        (None, None),
        (-1.0, None),
        (float("inf"), None),
        (float("nan"), None),
    ],
)
def test_a_wait_that_a_server_asks_for_is_kept_within_reason(asked: float | None, granted: float | None) -> None:
    assert clamp_retry_after(asked) == granted
