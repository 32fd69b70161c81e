"""A small run of random kills under load; `python -m tests.faults.random_kills` does as many as you like.

Slow, because every kill costs a start of a real process.
"""

from pathlib import Path

import pytest

from tests.faults.random_kills import kill_at_random
from tests.thorough import a_few_of


@pytest.mark.slow
@pytest.mark.parametrize("seed", a_few_of([1, 2], 1))
async def test_random_kills_under_load_lose_nothing(seed: int, tmp_path: Path) -> None:
    run = await kill_at_random(tmp_path, kills=6, seed=seed, sessions=20)
    assert not run.verdict.offences, run.verdict
    assert run.verdict.accepted == run.verdict.answered + run.verdict.explained > 0
