"""Kill -9 at every step that Discord adds to the path of a message: nothing is lost, and nothing comes twice.

Slow, because every point costs a start of a real process. Steps that are the same on every platform have their rounds
in `test_ledger_points`.
"""

from itertools import chain
from pathlib import Path

import pytest

from tests.faults.chat_stage import Place
from tests.faults.discord_stage import DiscordStage, on_discord_stage
from tests.faults.points import DISCORD_POINTS, EACH_ITS_OWN_TURN, HISTORY_READ, LOOKED_UP, NOT_RECORDED, POINTS, TAKEN
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

# Run into one after the other, so that a recovery is cut off too. What is looked up was in doubt before.
ROUNDS = [
    (HISTORY_READ, TAKEN, "before:accepted"),
    (NOT_RECORDED, LOOKED_UP, "after:sending", "before:sent"),
    ("before:piece_sent", "after:piece_sent"),
    ("before:postponed", "after:postponed"),
]


def test_every_point_of_discords_own_has_its_round() -> None:
    assert set(DISCORD_POINTS) - set(POINTS) <= set(chain.from_iterable(ROUNDS)) <= set(DISCORD_POINTS)


@pytest.mark.parametrize(
    "points", a_few_of([pytest.param(points) for points in ROUNDS], 2), ids=lambda points: "+".join(points)
)
async def test_killed_at_any_point_all_is_answered_once(points: tuple[str, ...], tmp_path: Path) -> None:
    async with on_discord_stage(tmp_path) as (stage, places):
        for point in points:
            say_a_bit_of_everything(stage, places)
            if "postponed" in point:
                stage.server.faults.add("cut_after", "createMessage")
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.accepted == verdict.answered + verdict.explained == 3 + 6 * len(points)


def say_a_bit_of_everything(stage: DiscordStage, places: list[Place]) -> None:
    one, two, _, channel, thread = places
    stage.say(one, 'use side_effect {"id": "$id", "words": 900}', expect="end of $id.")
    stage.say(one, "hello $id", expect="Hello!")
    stage.say(two, 'use side_effect {"id": "$id", "wait_ms": 10}')
    stage.say(two, "/status", expect="Model: demo")
    for place in (channel, thread):
        stage.say(place, f'use side_effect {{"id": "$id", "for": "{stage.mention}"}}', by=place.people[1])


@pytest.mark.parametrize("has_nonces", [True, False])
async def test_an_answer_that_arrived_unrecorded_is_found_and_not_sent_again(has_nonces: bool, tmp_path: Path) -> None:
    async with on_discord_stage(tmp_path) as (stage, (one, *_)):
        stage.say(one, "what is 17 * 23?", expect="17 * 23 = 391")
        await stage.run_into(NOT_RECORDED)
        if not has_nonces:
            stage.server.people.age(200)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.texts(one).count("17 * 23 = 391") == 1


async def test_answers_of_the_same_words_are_told_apart(tmp_path: Path) -> None:
    async with on_discord_stage(tmp_path, settings=EACH_ITS_OWN_TURN) as (stage, (one, *_)):
        await stage.start()
        first = stage.say(one, 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(first)
        for _ in range(2):
            stage.say(one, "what is 17 * 23?", expect="17 * 23 = 391")
        await stage.taken_in()
        await stage.process.kill()
        stage.release()
        await stage.run_into("after:sending", occurrence=3)
        stage.server.people.age(200)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.texts(one).count("17 * 23 = 391") == 2
