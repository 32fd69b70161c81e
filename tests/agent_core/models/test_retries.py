import pytest

from agent_core.model import ContextTooLong, Overloaded
from agent_core.models.retries import Retries


def _wait(failures: int, *, retry_after: float | None = None, elapsed: float = 0.0) -> float | None:
    error = Overloaded("busy", retry_after_seconds=retry_after)
    return Retries(attempts=10).wait_seconds(error, failures=failures, elapsed_seconds=elapsed)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (4, 8), (9, 30)])
def test_waits_double_up_to_a_limit_and_are_spread(failures: int, seconds: float) -> None:
    waits = [_wait(failures) for _ in range(200)]
    assert all(wait is not None and 0.75 * seconds <= wait <= 1.25 * seconds for wait in waits)
    assert len(set(waits)) > 100


def test_the_last_failure_is_final() -> None:
    assert _wait(10) is None


def test_what_cannot_get_better_is_not_tried_again() -> None:
    assert Retries().wait_seconds(ContextTooLong("long"), failures=1, elapsed_seconds=0) is None


def test_the_whole_is_bounded() -> None:
    assert _wait(1, elapsed=299.9) is None
    assert _wait(1, retry_after=29) is not None
    assert _wait(1, retry_after=60) is None
