"""The ledger of Telegram would notice: each promise broken inside a real gateway is in the verdict.

Slow: real processes are started.
"""

from pathlib import Path

import pytest

from tests.faults.points import EACH_ITS_OWN_TURN, NOT_RECORDED
from tests.faults.telegram_stage import on_telegram_stage

pytestmark = pytest.mark.slow


async def test_a_message_confirmed_before_it_is_on_the_disk_is_lost(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path, broken="confirm first") as (stage, (one, *_)):
        stage.say(one, "hello $id", expect="Hello!")
        await stage.run_into("before:accepted")
        await stage.start()
        verdict = await stage.finish()
        assert verdict.counts == {"lost": 1}


async def test_an_answer_sent_again_unasked_is_an_answer_too_many(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path, broken="resend") as (stage, (one, *_)):
        stage.say(one, "hello $id", expect="Hello!")
        await stage.run_into(NOT_RECORDED)
        await stage.start()
        verdict = await stage.finish()
        assert verdict.counts == {"answered twice": 1}


@pytest.mark.parametrize(("point", "lost"), [("after:sending", 1), (NOT_RECORDED, 0)])
async def test_an_answer_in_doubt_of_which_nobody_is_told_is_lost_unless_it_is_there(
    point: str, lost: int, tmp_path: Path
) -> None:
    async with on_telegram_stage(tmp_path, broken="silent") as (stage, (one, *_)):
        stage.say(one, "hello $id", expect="Hello!")
        await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert verdict.count("lost") == len(verdict.offences) == lost


async def test_the_rest_of_a_long_answer_that_nobody_hears_of_is_missed(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path, broken="silent") as (stage, (one, *_)):
        stage.say(one, 'use side_effect {"id": "$id", "words": 2000}', expect="end of $id.")
        await stage.run_into("before:piece_sent")
        await stage.start()
        verdict = await stage.finish()
        assert verdict.counts == {
            "answered wrongly": 1,
            "mutilated": 1,
        }


async def test_answers_in_another_order_than_the_messages_are_noticed(tmp_path: Path) -> None:
    opened = on_telegram_stage(tmp_path, settings=EACH_ITS_OWN_TURN, broken="newest first")
    async with opened as (stage, (one, *_)):
        await stage.start()
        first = stage.say(one, 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(first)
        second = stage.say(one, "hello $id", expect="Hello!")
        await stage.ledger.until(lambda: second.acked)
        stage.release()
        verdict = await stage.finish()
        assert verdict.counts == {"out of order": 1}
