"""Kill -9 at every step of commands that begin turns or change a conversation: each is carried out and answered once.

Slow, because every point costs two starts of a real process.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.stage import SocketStage, on_stage
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

EVENTS = (
    "command_accepted",
    "command_answered",
    "accepted",
    "claimed",
    "opened",
    "tool_started",
    "tool_finished",
    "model_replied",
    "answered",
    "sending",
    "sent",
)
ROUNDS = [(f"before:{event}", f"after:{event}") for event in EVENTS]
SETTINGS = {"HERMES_AGENT__ENABLED_TOOLSETS": "core,side_effect", "HERMES_TERMINAL__BACKEND": "local"}


@pytest.mark.parametrize("points", a_few_of([pytest.param(points) for points in ROUNDS], 5), ids="+".join)
async def test_killed_at_any_point_a_command_is_carried_out_and_answered_once(
    points: tuple[str, ...], tmp_path: Path
) -> None:
    async with on_stage(tmp_path, ["a", "b", "c", "d"], settings=SETTINGS) as stage:
        for point in points:
            say_commands(stage, tmp_path)
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.accepted == verdict.answered + verdict.explained == 6 * len(points)
    written = [line for line in (tmp_path / "written").read_text().splitlines() if line]
    assert len(written) == len(set(written)) <= len(points)  # no command ran twice


def say_commands(stage: SocketStage, folder: Path) -> None:
    stage.say("a", '/background use side_effect {"id": "$id"}')
    stage.say("d", "/history many", expect="Use /history")
    stage.say("b", f"/terminal echo $id >> {folder / 'written'}; echo said $id", expect="")
    stage.say("c", "what is 17 * 23?", expect="17 * 23 = 391")
    stage.say("c", "/retry", expect="")
    stage.say("d", "/personality concise", expect="Personality: concise, from your next message")


async def test_a_background_prompt_goes_on_after_each_of_several_kills(tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        asked = stage.say("a", "/background what is 17 * 23?")
        for point in ("after:command_answered", "before:answered", "after:answered"):
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.ledger.answer(asked) == "**In the background:** what is 17 * 23?\n\n17 * 23 = 391"


async def test_undone_and_asked_again_is_one_commit(tmp_path: Path) -> None:
    """Killed around the end of /retry, either nothing has happened or the request waits again."""
    async with on_stage(tmp_path, ["a"]) as stage:
        await stage.start()
        first = stage.say("a", "what is 17 * 23?", expect="391")
        await stage.ledger.until(lambda: bool(stage.ledger.answer(first)))
        await stage.process.terminate()
        again = stage.say("a", "/retry", expect="17 * 23 = 391")
        for point in ("before:command_answered", "after:command_answered"):
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.ledger.answer(again) == "17 * 23 = 391"


@pytest.mark.parametrize("point", ["before:compacted", "after:compacted", "before:answered", "after:answered"])
async def test_compress_is_reported_once_and_all_messages_stay(point: str, tmp_path: Path) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        await stage.start()
        for number in range(12):
            said = f"fact {number} is /data/{number}.csv {'and more ' * 45}"
            message = stage.say("a", f"say {said}", expect=f"fact {number}")
            await stage.ledger.until(lambda message=message: bool(stage.ledger.answer(message)))  # type: ignore[misc]
        await stage.process.terminate()
        stage.say("a", "/compress 1k", expect="Summarising the older messages.")
        await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert len(stage.ledger.notices("a", " tokens")) == 1  # the report, however often it was begun
        with closing(sqlite3.connect(stage.database)) as db:
            messages = "SELECT COUNT(*), COUNT(DISTINCT parts) FROM messages"
            assert db.execute(messages).fetchone() == (24, 24)
            [(summary,)] = db.execute("SELECT summary FROM compactions ORDER BY id DESC LIMIT 1")
    assert "/data/3.csv" in summary
