"""Kill -9 at every step that Slack adds to the path of a message: nothing is lost, and nothing comes twice.

Slow, because every point costs a start of a real process. Steps that are the same on every platform have their rounds
in `test_ledger_points`.
"""

from itertools import chain
from pathlib import Path

import pytest

from tests.faults.chat_stage import Place
from tests.faults.points import (
    ACKED,
    EACH_ITS_OWN_TURN,
    HISTORY_READ,
    LOOKED_UP,
    NOT_RECORDED,
    POINTS,
    SLACK_POINTS,
    TAKEN,
)
from tests.faults.slack_stage import SlackStage, on_slack_stage
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

# Run into one after the other, so that a recovery is cut off too. What is looked up was in doubt before.
ROUNDS = [
    (HISTORY_READ, TAKEN, "before:accepted"),
    (NOT_RECORDED, LOOKED_UP, "after:sending", "before:sent"),
    ("before:piece_sent", "after:piece_sent"),
    ("before:postponed", "after:postponed"),
]


def test_every_point_of_slacks_own_has_its_round() -> None:
    assert set(SLACK_POINTS) - set(POINTS) <= set(chain.from_iterable(ROUNDS)) <= set(SLACK_POINTS)


@pytest.mark.parametrize(
    "points", a_few_of([pytest.param(points) for points in ROUNDS], 2), ids=lambda points: "+".join(points)
)
async def test_killed_at_any_point_all_is_answered_once(points: tuple[str, ...], tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path) as (stage, places):
        for point in points:
            say_a_bit_of_everything(stage, places)
            if "postponed" in point:
                stage.server.faults.add("cut_after", "chat.postMessage")
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.accepted == verdict.answered + verdict.explained == 5 + 6 * len(points)


def say_a_bit_of_everything(stage: SlackStage, places: list[Place]) -> None:
    one, two, _, first_thread, second_thread, channel = places
    stage.say(one, 'use side_effect {"id": "$id", "words": 2500}', expect="end of $id.")
    stage.say(one, "hello $id", expect="Hello!")
    stage.say(two, 'use side_effect {"id": "$id", "wait_ms": 10}')
    stage.say(first_thread, "/status", expect="Model: demo")
    stage.say(second_thread, 'use side_effect {"id": "$id"}', by=channel.people[1], mention=False)
    stage.say(channel, 'use side_effect {"id": "$id"}', by=channel.people[1])


@pytest.mark.parametrize("point", [TAKEN, ACKED])
async def test_the_first_message_ever_is_answered_once_whether_or_not_slack_heard_that_it_was_taken(
    point: str, tmp_path: Path
) -> None:
    async with on_slack_stage(tmp_path, known=False) as (stage, (one, *_)):
        await stage.process.start(kill_at=point)
        await stage.server.wait_for_socket(2, seconds=40)
        stage.say(one, 'use side_effect {"id": "$id"}')
        await stage.dies(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.accepted, verdict.answered, verdict.effects) == (1, 1, 1)


async def test_an_answer_that_arrived_unrecorded_is_found_and_not_sent_again(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path) as (stage, (one, *_)):
        stage.say(one, "what is 17 * 23?", expect="17 * 23 = 391")
        await stage.run_into(NOT_RECORDED)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.texts(one).count("17 * 23 = 391") == 1


async def test_files_of_the_same_size_are_told_apart(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, settings=EACH_ITS_OWN_TURN) as (stage, (one, *_)):
        await stage.start()
        first = stage.say(one, 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(first)
        for _ in range(2):
            stage.say(one, 'use side_effect {"id": "$id", "words": 14000}', expect="end of $id.")
        await stage.taken_in()
        await stage.process.kill()
        stage.release()
        await stage.run_into("after:sending", occurrence=5)  # two for each file, and the first answer
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.answered + verdict.explained == 8
