"""Kill -9 at every step of the path of a message: nothing is lost, nothing done twice, order is kept.

Slow, because every point costs two starts of a real process.
"""

from itertools import chain
from pathlib import Path

import pytest

from tests.faults.points import ACKED, EVENTS, NOT_RECORDED, POINTS, STEPS, TOOL_BEGUN, TOOL_DONE, WRITTEN
from tests.faults.stage import SocketStage, on_stage
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

# The points of a round are run into one after the other, so that a recovery is cut off too.
ROUNDS = [
    *((f"before:{event}", f"after:{event}") for event in EVENTS if event != "resumed"),
    ("after:opened", "before:resumed", "after:resumed"),
    (ACKED, WRITTEN, NOT_RECORDED),
    (TOOL_BEGUN, TOOL_DONE),
]


def test_every_point_has_its_round() -> None:
    assert set(POINTS) == set(chain.from_iterable(ROUNDS))
    assert set(STEPS) < set(POINTS)


@pytest.mark.parametrize(
    "points", a_few_of([pytest.param(points) for points in ROUNDS], 7), ids=lambda points: "+".join(points)
)
async def test_killed_at_any_point_nothing_is_lost_or_done_twice(points: tuple[str, ...], tmp_path: Path) -> None:
    # One turn at a time: the messages of the other chats wait meanwhile and are then taken together.
    async with on_stage(tmp_path, ["a"], ["b", "c"], settings={"HERMES_GATEWAY__MAX_TURNS": "1"}) as stage:
        for point in points:
            say_a_bit_of_everything(stage)
            await stage.run_into(point)
        await stage.process.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.accepted == verdict.answered + verdict.explained == 7 * len(points)


def say_a_bit_of_everything(stage: SocketStage) -> None:
    stage.say("a", 'use side_effect {"id": "$id", "wait_ms": 30}')
    stage.say("a", "hello $id", expect="Hello!")
    stage.say("b", 'use side_effect {"id": "$id"}')
    stage.say("b", 'use side_effect {"id": "$id", "wait_ms": 10}')
    stage.say("b", "what is 17 * 23?", expect="17 * 23 = 391")
    stage.say("c", "/status", expect="Model: demo")
    stage.say("c", "thanks", expect="You are welcome.")
