"""Stories of one restart or a few, each told by the wire alone. Slow: real processes are started."""

from pathlib import Path
from signal import SIGKILL

import pytest

from tests.faults import aftermath
from tests.faults.points import JOINED_POINTS
from tests.faults.stage import on_stage

pytestmark = pytest.mark.slow


async def test_a_turn_that_brings_the_gateway_down_each_time_is_given_up(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        fatal = stage.say("a", 'use side_effect {"id": "$id"}')
        for point in ("after:opened", "before:answered", "before:answered", "after:opened"):
            await stage.run_into(point)  # the first try and three resumes
        await stage.start()
        after = stage.say("a", "what is 2 + 2?", expect="2 + 2 = 4")
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert "so I gave up" in stage.ledger.answer(fatal)
        assert "2 + 2 = 4" in stage.ledger.answer(after)
        assert aftermath.resumes(stage.database) == [4, 0]


async def test_what_was_given_up_is_not_done_after_all_with_the_next_message(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"], settings={"HERMES_GATEWAY__MAX_RESUMES": "0"}) as stage:
        fatal = stage.say("a", 'use side_effect {"id": "$id"}')
        await stage.run_into("after:opened")
        await stage.start()
        await stage.ledger.until(lambda: "so I gave up" in stage.ledger.answer(fatal))
        stage.say("a", "what is 2 + 2?", expect="2 + 2 = 4")
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.effects == 0


async def test_an_orderly_stop_in_the_middle_pauses_the_turn_and_uses_up_no_try(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"], settings={"HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS": "0"}) as stage:
        await stage.start()
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        assert await stage.process.terminate() == 0
        assert stage.ledger.notices("a", "I am restarting")
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert "interrupted by a restart" in stage.ledger.answer(held)
        assert aftermath.resumes(stage.database) == [0]


async def test_a_pause_that_is_itself_cut_off_counts_as_a_crash_and_loses_nothing(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"], settings={"HERMES_GATEWAY__DRAIN_TIMEOUT_SECONDS": "0"}) as stage:
        await stage.process.start(kill_at="before:paused")
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        assert await stage.process.terminate() == -SIGKILL
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert aftermath.resumes(stage.database) == [1]


@pytest.mark.parametrize("point", ["after:command_accepted", "before:stopped"])
async def test_a_stop_that_was_accepted_still_stops_after_a_crash(point: str, tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        await stage.process.start(kill_at=point)
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        stop = stage.say("a", "/stop")
        await stage.dies(point)
        await stage.start()
        await stage.ledger.until(lambda: bool(stage.ledger.answer(stop)))
        after = stage.say("a", "hello $id", expect="Hello!")
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert "Stopped." in stage.ledger.answer(stop)
        assert [one.id for one in stage.ledger.unanswered()] == [held.id]
        assert stage.ledger.answer(after)


@pytest.mark.parametrize("point", JOINED_POINTS)
async def test_what_joins_a_turn_is_answered_with_it_through_a_crash(point: str, tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        await stage.process.start(kill_at=point)
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        joining = [stage.say("a", 'use side_effect {"id": "$id"}'), stage.say("a", "thanks", expect="You are welcome.")]
        await stage.ledger.until(lambda: all(message.acked for message in joining))
        stage.release()
        await stage.dies(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.answered, verdict.effects) == (3, 2)
        assert aftermath.resumes(stage.database) == [1]  # one turn, one answer to all


async def test_what_is_said_while_the_gateway_is_down_is_taken_after_the_start(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a", "b"]) as stage:
        await stage.start()
        await stage.process.kill()
        stage.say("a", "hello $id", expect="Hello!")
        stage.say("a", 'use side_effect {"id": "$id"}')
        stage.say("b", "/status", expect="Model: demo")
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.answered, verdict.effects) == (3, 1)


async def test_too_many_waiting_get_one_polite_notice_also_through_a_crash(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        await stage.start()
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        for _ in range(23):
            stage.say("a", "hello $id", expect="Hello!")
        await stage.ledger.until(lambda: all(message.acked for message in stage.ledger.messages.values()))
        await stage.process.kill()
        stage.release()
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.answered, verdict.explained) == (20, 4)  # the interrupted call, and three that found no room
        assert len(stage.ledger.notices("a", "messages are already waiting")) == 1


async def test_of_two_calls_in_one_turn_a_crash_repeats_neither(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a", "b"], settings={"HERMES_GATEWAY__MAX_TURNS": "1"}) as stage:
        await stage.process.start(kill_at="after:tool_finished", occurrence=2)
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        pair = [stage.say("b", f'use side_effect {{"id": "$id", "wait_ms": {wait}}}') for wait in (0, 300)]
        await stage.ledger.until(lambda: all(message.acked for message in pair))
        stage.release()
        await stage.dies("after:tool_finished")
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        answers = {stage.ledger.answer(message) for message in pair}
        assert len(answers) == 1  # one turn, one answer to both
        text = answers.pop()
        assert f"did {pair[0].id}." in text
        assert "interrupted by a restart" in text
