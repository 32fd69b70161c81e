"""The ledger of Slack would notice: each promise broken inside a real gateway is in the verdict.

Slow: real processes are started.
"""

from pathlib import Path

import pytest

from tests.faults.points import EACH_ITS_OWN_TURN, NOT_RECORDED
from tests.faults.slack_stage import on_slack_stage

pytestmark = pytest.mark.slow

_PATIENCE_SECONDS = 4.0  # for what never comes


async def test_an_envelope_acked_before_it_is_on_the_disk_is_lost(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, broken="ack first", known=False) as (stage, (one, *_)):
        await stage.process.start(kill_at="before:accepted")
        await stage.server.wait_for_socket(2, seconds=40)
        stage.say(one, "hello $id", expect="Hello!")
        await stage.dies("before:accepted")
        await stage.start()
        verdict = await stage.finish(seconds=_PATIENCE_SECONDS)
        assert verdict.counts == {"lost": 1}


@pytest.mark.thorough
async def test_a_cursor_that_moves_before_the_message_is_on_the_disk_loses_it(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, broken="cursor first") as (stage, (one, *_)):
        stage.say(one, "hello $id", expect="Hello!")
        await stage.envelopes_are_given_up()
        await stage.run_into("before:accepted")
        await stage.start()
        verdict = await stage.finish(seconds=_PATIENCE_SECONDS)
        assert verdict.counts == {"lost": 1}


@pytest.mark.thorough
async def test_a_history_that_nobody_reads_loses_what_was_said_meanwhile(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, broken="no history") as (stage, (one, *_)):
        stage.say(one, "hello $id", expect="Hello!")
        await stage.envelopes_are_given_up()
        await stage.start()
        verdict = await stage.finish(seconds=_PATIENCE_SECONDS)
        assert verdict.counts == {"lost": 1}


async def test_an_answer_sent_again_without_looking_is_an_answer_too_many(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, broken="resend") as (stage, (one, *_)):
        stage.say(one, "hello $id", expect="Hello!")
        await stage.run_into(NOT_RECORDED)
        await stage.start()
        verdict = await stage.finish()
        assert verdict.count("answered twice") == 1


@pytest.mark.thorough
async def test_another_message_taken_for_the_answer_loses_it(tmp_path: Path) -> None:
    async with on_slack_stage(tmp_path, broken="any will do") as (stage, (one, *_)):
        stage.say(one, 'use side_effect {"id": "$id", "words": 5000}', expect="end of $id.")
        await stage.run_into("after:sending", occurrence=2)
        stage.say(one, "By the way", expect="beyond me")
        await stage.start()
        verdict = await stage.finish()
        assert verdict.count("mutilated") == 1


async def test_answers_in_another_order_than_the_messages_are_noticed(tmp_path: Path) -> None:
    opened = on_slack_stage(tmp_path, settings=EACH_ITS_OWN_TURN, broken="newest first")
    async with opened as (stage, (one, *_)):
        await stage.start()
        first = stage.say(one, 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(first)
        stage.say(one, "hello $id", expect="Hello!")
        await stage.taken_in()
        stage.release()
        verdict = await stage.finish()
        assert verdict.counts == {"out of order": 1}
