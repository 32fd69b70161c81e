"""Background processes outlive a gateway that is killed, and what they say is told once. Slow: real processes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.clock import now_ms
from gateway.store.db.database import open_database
from gateway.store.processes import StoredProcesses
from tests.faults.stage import SocketStage, on_stage
from tests.gateway.background import until
from tools.backends import background
from tools.backends.background import BackgroundProcesses
from tools.backends.base import Command
from tools.backends.local import LocalBackend
from tools.process_book import Process

pytestmark = pytest.mark.slow

LINES = "\n".join(f"{until(f'go{number}')}; echo line {number}" for number in (1, 2, 3))


@pytest.fixture
async def started() -> AsyncIterator[list[Process]]:
    """Nothing of them is left when a test fails, either."""
    started: list[Process] = []
    yield started
    await asyncio.gather(*(BackgroundProcesses().kill(process.handle) for process in started))


async def start(stage: SocketStage, folder: Path, command: str) -> Process:
    """As a tool would, in the turn that is running."""
    handle = await LocalBackend(workspace=folder, outputs=folder / "outputs").spawn(Command(text=command))
    db = await open_database(stage.database)
    try:
        [turn] = await db.read(lambda tx: tx.all("SELECT session_id FROM turns WHERE state <> 'done'"))
        process = Process(
            handle=handle,
            holder="a",
            task_id=turn["session_id"],
            command=command,
            workdir=str(folder),
            started_ms=now_ms(),
            check_interval_seconds=1,
        )
        await StoredProcesses(db).add(process)
    finally:
        await db.close()
    return process


async def ended(process: Process) -> None:
    async with asyncio.timeout(10):
        while background.is_running(process.handle):
            await asyncio.sleep(0.01)


def told(stage: SocketStage, process: Process) -> list[str]:
    """The lines of it that its chat was shown, in order. Several may be told of together, each below its id."""
    lines: list[str] = []
    about = ""
    for line in (line for arrival in stage.ledger.arrivals for line in arrival.text.splitlines()):
        about = line if "proc_" in line else about
        if process.id in about and line.startswith("line "):
            lines.append(line)
    return lines


async def test_killed_and_started_again_nothing_of_the_output_is_missing_or_told_twice(
    tmp_path: Path, started: list[Process]
) -> None:
    async with on_stage(tmp_path, ["a"], settings={"HERMES_TERMINAL__MIN_CHECK_INTERVAL_SECONDS": "1"}) as stage:
        await stage.start()
        held = stage.say("a", 'use side_effect {"id": "$id", "hold": true}')
        await stage.effect_of(held)
        started.append(living := await start(stage, tmp_path, f"{LINES}; {until('end')}"))
        started.append(dying := await start(stage, tmp_path, f"{LINES}; exit 3"))
        stage.release()
        (tmp_path / "go1").touch()
        await stage.ledger.until(lambda: all(told(stage, one) == ["line 1"] for one in (living, dying)))

        await stage.process.kill()
        for name in ("go2", "go3"):
            (tmp_path / name).touch()
        await ended(dying)
        await stage.start()
        whole = ["line 1", "line 2", "line 3"]
        await stage.ledger.until(lambda: all(told(stage, one) == whole for one in (living, dying)))
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        [end] = stage.ledger.notices("a", ") ended ")
        assert f"({dying.id}) ended while I was away with exit code 3" in end.text
        assert background.is_running(living.handle)  # neither a kill nor an orderly stop of ours ends it
