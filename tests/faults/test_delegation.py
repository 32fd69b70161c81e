"""Kill -9 while tasks are at work: all of them end, once, and their results reach the call that waits. Slow."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults import aftermath
from tests.faults.ledger import Sent
from tests.faults.stage import SocketStage, on_stage
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

SETTINGS = {"HERMES_AGENT__ENABLED_TOOLSETS": "delegate,side_effect"}
TASKS = 4
NO_OFFENCES = {"tool ran unasked", "answered wrongly"}  # effects have the names of tasks here, not those of messages
POINTS = [  # each is reached once more by the process that the one before has left its work to
    ("before:delegated", "after:delegated", "before:tool_started"),
    ("after:tool_started", "before:tool_finished", "after:tool_finished"),
    ("before:model_replied", "after:delegation ended", "before:answered"),
    ("before:delegation ended", "after:model_replied", "after:delegation ended"),
]


def delegate(stage: SocketStage, **effect: Any) -> Sent:
    goals = [f"use side_effect {json.dumps({'id': f'task {n}', **effect})}" for n in range(1, TASKS + 1)]
    return stage.say("a", f"use delegate_task {json.dumps({'tasks': [{'goal': goal} for goal in goals]})}")


def query(stage: SocketStage, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(stage.database)) as connection:
        return connection.execute(sql).fetchall()


async def judge(stage: SocketStage, asked: Sent) -> list[dict[str, Any]]:
    """Return the results that the call got."""
    verdict = await stage.finish()
    assert verdict.offences.keys() <= NO_OFFENCES, verdict
    assert max(aftermath.effects(stage.effects).values()) == 1
    assert query(stage, "SELECT COUNT(*) FROM delegations") == [(TASKS,)]
    [(stored,)] = query(stage, "SELECT parts FROM messages WHERE tool_name = 'delegate_task'")
    results: list[dict[str, Any]] = json.loads(json.loads(stored)[0]["text"])["results"]
    assert [one["task"] for one in results] == [1, 2, 3, 4]
    assert {one["status"] for one in results} == {"completed"}
    assert "results" in stage.ledger.answer(asked)
    # What was reserved for a call that was cut off counts as spent; nothing else is counted twice, or not at all.
    assert query(stage, "SELECT COUNT(*) FROM spending WHERE NOT settled") == [(0,)]
    assert query(stage, "SELECT SUM(total_tokens) FROM sessions") == query(
        stage, "SELECT SUM(input_tokens + output_tokens) FROM spending"
    )
    return results


@pytest.mark.parametrize("points", a_few_of([pytest.param(points) for points in POINTS], 2), ids="+".join)
async def test_killed_at_any_point_all_tasks_end_and_none_does_anything_twice(
    points: tuple[str, ...], tmp_path: Path
) -> None:
    async with on_stage(tmp_path, ["a"], settings=SETTINGS) as stage:
        asked = delegate(stage)
        for point in points:
            await stage.run_into(point)
        await stage.start()
        results = await judge(stage, asked)
        done = aftermath.effects(stage.effects)
        for result in results:  # a call that was cut off is told so, and may or may not have had its effect
            assert f"did task {result['task']}" in result["summary"] or "interrupted" in result["summary"]
            assert done[f"task {result['task']}"] == 1 or "interrupted" in result["summary"]


async def test_killed_while_all_are_at_work_the_rest_is_done_after_the_start(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"], settings={**SETTINGS, "HERMES_DELEGATION__AT_ONCE": "4"}) as stage:
        await stage.start()
        asked = delegate(stage, hold=True)
        for number in range(1, TASKS + 1):
            await stage.effect_of(Sent(id=f"task {number}", chat="a", text="", place=0, expect=""))
        await stage.process.kill()
        await stage.start()
        results = await judge(stage, asked)
        assert all("interrupted by a restart" in one["summary"] for one in results)
        assert sorted(aftermath.effects(stage.effects).values()) == [1, 1, 1, 1]


async def test_stop_ends_the_tasks_with_their_turn(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"], settings=SETTINGS) as stage:
        await stage.start()
        delegate(stage, hold=True)
        await stage.effect_of(Sent(id="task 3", chat="a", text="", place=0, expect=""))
        stop = stage.say("a", "/stop")
        await stage.ledger.until(lambda: bool(stage.ledger.answer(stop)))
        verdict = await stage.finish()
        assert verdict.offences.keys() <= NO_OFFENCES, verdict
        assert query(stage, "SELECT DISTINCT outcome FROM turns") == [("stopped",)]
        assert "task 4" not in aftermath.effects(stage.effects)
