"""A gateway that is killed around a run of a job: it comes once, with the platform's id. Slow: real processes."""

import asyncio
from pathlib import Path

import pytest

from gateway.messages import Address
from gateway.schedule.book import Author, JobOptions, JobWish
from gateway.store import cron
from gateway.store.cron import JobRun
from gateway.store.db.connection import Transaction
from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.faults.points import NOT_RECORDED, WRITTEN
from tests.faults.stage import SocketStage, on_stage

pytestmark = pytest.mark.slow

STEPS = (
    "before:accepted",  # the occurrence and its message are one commit
    "after:accepted",
    "before:claimed",
    "after:claimed",
    "after:opened",
    "before:answered",  # the answer, the end of the turn and of the occurrence are one commit
    "after:answered",
    "before:sending",
    "after:sending",
    WRITTEN,
    NOT_RECORDED,
    "before:sent",
    "after:sent",
)


async def make_job(stage: SocketStage) -> str:
    """Make a job as another process would, before the gateway starts."""
    prepare(stage.database, BackupPolicy(backups=stage.home / "backups"), repair=False)
    db = await open_database(stage.database)

    def unit(tx: Transaction) -> str:
        tx.insert("people", id="ann", name="Ann", role="owner", created_ms=0)
        by = Author(
            person_id="ann",
            source="chat",
            account="socket",
            sender_id="local",
            origin=Address(account="socket", chat="a"),
        )
        book = JobOptions(accounts=lambda: ("socket",)).open(lambda tx, key, user: "owner")
        return book.create(tx, by, JobWish(schedule="in 1 second", prompt="say tick")).id

    try:
        return await db.write(unit)
    finally:
        await db.close()


async def read_runs(stage: SocketStage, job_id: str) -> list[JobRun]:
    db = await open_database(stage.database)
    try:
        return await db.read(lambda tx: cron.read_history(tx, job_id))
    finally:
        await db.close()


async def delivered(stage: SocketStage, job_id: str) -> JobRun:
    """Wait until the only run has arrived."""
    async with asyncio.timeout(60):
        while True:
            runs = await read_runs(stage, job_id)
            if runs and runs[0].delivered == "yes":
                [run] = runs
                return run
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("point", STEPS)
async def test_killed_at_each_step_of_a_run_it_comes_once(tmp_path: Path, point: str) -> None:
    async with on_stage(tmp_path, ["a"]) as stage:
        job_id = await make_job(stage)
        await stage.run_into(point)
        await stage.start()
        run = await delivered(stage, job_id)
        assert run.state in ("ran", "late")
        await stage.at_rest()
        assert await stage.process.terminate() == 0
        ticks = [arrival for arrival in stage.ledger.arrivals if "tick" in arrival.text]
        assert len(ticks) == 1
        assert run.receipt
        assert len(await read_runs(stage, job_id)) == 1
