"""A long answer rings once, is never told to wait, and stays within what the platform takes."""

from pathlib import Path

import pytest

from tests.bench.live_traffic import LIMITS, record, table
from tests.journeys.live_stage import KINDS, Kind
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow  # an answer that grows takes its time


@pytest.mark.parametrize("kind", a_few_of(KINDS, 1))
async def test_a_long_answer_is_quiet_and_within_the_limits(kind: Kind, tmp_path: Path) -> None:
    traffic = await record(kind, 6.0, tmp_path)
    most, seconds = LIMITS[kind]
    assert (traffic.rings, traffic.too_fast) == (1, 0), table([traffic])
    assert 1 < traffic.most_in(seconds) <= most, table([traffic])
    [shown] = traffic.shown
    assert shown.endswith("the end.")
