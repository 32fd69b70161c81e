"""A small run of random kills under load; `python -m tests.faults.discord_kills` does as many as you like.

Slow, because every kill costs a start of a real process.
"""

from pathlib import Path

import pytest

from tests.faults.discord_kills import kill_at_random
from tests.faults.discord_stage import on_discord_stage

pytestmark = pytest.mark.slow


async def test_random_kills_under_load_lose_nothing(tmp_path: Path) -> None:
    run = await kill_at_random(tmp_path, kills=4, seed=1, sessions=6)
    assert not run.verdict.offences, run.verdict
    assert run.verdict.accepted == run.verdict.answered + run.verdict.explained > 0


async def test_what_is_said_while_the_gateway_is_down_is_answered_after_the_start(tmp_path: Path) -> None:
    async with on_discord_stage(tmp_path, users=6) as (stage, (one, *others, channel, thread)):
        for number in range(10):
            stage.say(one, f"what is {number + 2} * 7?", expect=f"{number + 2} * 7 = {(number + 2) * 7}")
        for place in (*others, channel, thread):
            stage.say(place, f'use side_effect {{"id": "$id", "for": "{stage.mention}"}}')
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.accepted, verdict.answered, verdict.effects) == (23, 23, 7)
