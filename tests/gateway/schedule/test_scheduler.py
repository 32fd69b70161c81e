"""The daemon's part: it sleeps until something is due, and wakes when jobs or the clock change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.clock import ClockJumps
from gateway.schedule.book import JobWish
from gateway.schedule.runs import recover
from gateway.schedule.scheduler import Scheduler
from gateway.store import cron, outbox
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database, open_database
from tests.gateway.scene import locked, rows
from tests.gateway.schedule.scene import ADA, HOUR, FakeClock, make_book

BOOK = make_book()


def make_job(tx: Transaction, schedule: str = "in 1 second") -> cron.Job:
    tx.insert("people", "(id) DO NOTHING", id="ada", name="Ada", role="owner", created_ms=0)
    return BOOK.create(tx, ADA, JobWish(schedule=schedule, prompt="x"))


@asynccontextmanager
async def running(db: Database) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(db=db, starter=BOOK.starter)
    task = asyncio.create_task(scheduler.run())
    yield scheduler
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def count_runs(db: Database) -> int:
    return int((await rows(db, "SELECT COUNT(*) FROM cron_runs"))[0][0])


async def until_run(db: Database, count: int) -> None:
    async with asyncio.timeout(60):
        while await count_runs(db) < count:
            await asyncio.sleep(0.01)


async def test_it_wakes_for_due_times_and_changes_alone(db: Database) -> None:
    async with running(db) as scheduler:
        await until(lambda: scheduler.looks == 1)
        await db.write(lambda tx: make_job(tx, "every 1h"))
        scheduler.wake()
        await until(lambda: scheduler.looks == 2)
        await db.write(make_job)
        scheduler.wake()
        await until_run(db, 1)
        await until(lambda: scheduler.looks == 4)
        assert await count_runs(db) == 1
        (run,) = await db.read(cron.read_history)
        assert run.begun_ms - run.due_ms >= 0
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert scheduler.looks == 4  # nothing is due for an hour, so it sleeps


async def test_a_locked_store_delays_a_run_and_loses_none(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.schedule.scheduler._TRY_AGAIN_SECONDS", 0.01)
    await db.write(make_job)
    async with running(db) as scheduler:
        with locked(db.path):
            await until(lambda: scheduler.looks > 3)
            assert await count_runs(db) == 0
        await until_run(db, 1)
    assert await count_runs(db) == 1


async def test_two_daemons_on_one_home_run_each_occurrence_once(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock().install(monkeypatch)
    await db.write(lambda tx: [make_job(tx, "every 1h") for _ in range(20)])
    other = await open_database(db.path, busy_timeout_seconds=30)
    mine = await open_database(db.path, busy_timeout_seconds=30)
    try:
        daemons = [Scheduler(db=one, starter=BOOK.starter) for one in (mine, other)]
        for _ in range(5):
            clock.ms += HOUR
            await asyncio.gather(*(daemon.look() for daemon in daemons))
            await db.write(lambda tx: tx.execute("UPDATE cron_runs SET state = 'ran'"))
        assert await rows(db, "SELECT COUNT(*), COUNT(DISTINCT job_id || due_ms) FROM cron_runs") == [(100, 100)]
        assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(100,)]
    finally:
        await other.close()
        await mine.close()


async def test_a_broken_row_is_paused_and_holds_up_nobody(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock().install(monkeypatch)
    bad, good = await db.write(lambda tx: [make_job(tx, "every 1h") for _ in range(2)])
    query = "UPDATE cron_jobs SET kind = 'cron', schedule = 'garbage' WHERE id = ?"
    await db.write(lambda tx: tx.execute(query, bad.id))
    await db.write(recover)
    clock.ms += HOUR
    await Scheduler(db=db, starter=BOOK.starter).look()
    assert [run.job_id for run in await db.read(cron.read_history)] == [good.id]
    broken = await db.read(lambda tx: cron.get(tx, bad.id))
    assert broken is not None
    assert broken.status == "paused"
    (notice,) = await db.read(outbox.recent)
    assert "an error inside Hermes" in notice.text


def test_a_clock_that_was_set_is_noticed() -> None:
    wall, monotonic = [10**18], [10**9]
    jumps = ClockJumps(wall_ns=lambda: wall[0], monotonic_ns=lambda: monotonic[0])
    assert not jumps.has_jumped()
    wall[0], monotonic[0] = wall[0] + 10**9, monotonic[0] + 10**9
    assert not jumps.has_jumped()
    wall[0] += 3600 * 10**9  # set forward, or the machine slept
    assert jumps.has_jumped()
    assert not jumps.has_jumped()
    wall[0] -= 3600 * 10**9
    assert jumps.has_jumped()
