"""A small run of random kills under load; `python -m tests.faults.slack_kills` does as many as you like.

Slow, because every kill costs a start of a real process.
"""

from pathlib import Path

import pytest

from tests.faults.slack_kills import kill_at_random
from tests.faults.slack_stage import on_slack_stage

pytestmark = pytest.mark.slow


@pytest.mark.thorough
async def test_random_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    run = await kill_at_random(tmp_path, kills=4, seed=1, sessions=6)
    assert not run.verdict.offences, run.verdict
    assert run.verdict.accepted == run.verdict.answered + run.verdict.explained > 0


async def test_what_is_said_while_the_gateway_is_down_is_answered_after_the_start(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, users=6) as (stage, (one, *others)):
        for number in range(10):
            stage.say(one, f"what is {number + 2} * 7?", expect=f"{number + 2} * 7 = {(number + 2) * 7}")
        for place in others:
            stage.say(place, 'use side_effect {"id": "$id"}')
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.accepted, verdict.answered, verdict.effects) == (26, 26, 8)
