"""What keeps background processes within bounds: an agent that wakes itself, a clock set back, lost access."""

import asyncio

import pytest

from gateway.clock import now_ms
from gateway.processes.watcher import Watchers
from gateway.store import turns
from tests.gateway.background import Background, make_watchers, until
from tests.gateway.store.rows import inbound, take

HOUR_MS = 3_600_000


async def starts_another(stage: Background, watchers: Watchers) -> None:
    """What an agent without an end does in each of its turns: it has itself woken again."""
    turn = await stage.db.write(turns.begin)
    assert turn is not None
    await stage.spawn("exit 0", task_id=turn.session_id, notify_on_complete=True)
    await stage.db.write(lambda tx: turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED))
    await stage.ended()
    await watchers.look("local")


async def test_an_agent_that_wakes_itself_waits_for_a_human_in_the_end(
    stage: Background, watchers: Watchers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.processes.watcher.MAX_WAKES_IN_A_ROW", 2)
    await stage.db.write(lambda tx: take(tx, inbound("look after it")))
    for _ in range(2):
        await starts_another(stage, watchers)
        assert await stage.said() == []
    await starts_another(stage, watchers)
    assert [kind for kind, _ in await stage.noted()] == ["wake", "wake", "process"]
    assert await stage.db.write(turns.begin) is None
    [notice, end] = await stage.said()
    assert notice.startswith("Background processes have woken me 2 times since your last message.")
    assert "ended with exit code 0" in end

    await stage.db.write(lambda tx: take(tx, inbound("go on")))
    await starts_another(stage, watchers)
    assert [kind for kind, _ in await stage.noted()][3:] == ["wake"]
    assert len(await stage.said()) == 2


async def test_a_clock_that_is_set_back_silences_nothing(stage: Background, watchers: Watchers) -> None:
    process = await stage.start(f"echo one; {until('go')}; echo two; {until('end')}", check_interval_seconds=40)
    await stage.wrote(process, 4)
    await stage.due()
    await watchers.look("local")
    stage.goes_on("go")
    await stage.wrote(process, 8)
    later = now_ms() + HOUR_MS
    await stage.db.write(lambda tx: tx.execute("UPDATE processes SET told_ms = ?", later))
    await make_watchers(stage.db).look("local")
    assert [text.split("```")[1] for text in await stage.said()] == ["\none\n", "\ntwo\n"]


async def test_who_lost_access_leaves_nothing_running(stage: Background) -> None:
    process = await stage.start(f"echo one; {until('end')}", check_interval_seconds=40)
    await stage.wrote(process, 4)
    await stage.due()
    watching = asyncio.create_task(make_watchers(stage.db, role_of=lambda tx, message: None).run())
    await stage.ended()
    watching.cancel()
    assert await stage.said() == []
