"""A year of 200 jobs under a clock that the test moves: each occurrence is there once, or with its reason. Slow."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from gateway.messages import Address
from gateway.schedule.book import Author, JobWish
from gateway.schedule.runs import RunStarter, recover, schedule_of
from gateway.store import cron, inbox
from gateway.store.cron import Job
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database, open_database
from tests.gateway.scene import ACCOUNT, rows
from tests.gateway.schedule.scene import ADA, DAY, HOUR, MINUTE, FakeClock, make_book

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

YEAR = datetime(2028, 1, 1, tzinfo=UTC)  # a leap year
BEGIN, END = int(YEAR.timestamp() * 1000), int(datetime(2029, 1, 2, tzinfo=UTC).timestamp() * 1000)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata")
BOOK = make_book({"42": "owner", "7": "owner", "8": "owner"})
PEOPLE = [
    Author(
        person_id=f"p{number}",
        account=ACCOUNT,
        sender_id=sender,
        sender_name=f"P{number}",
        source="chat",
        origin=Address(account=ACCOUNT, chat=f"chat{number}"),
    )
    for number, sender in enumerate(("42", "7", "8"))
]
SHAPES = (
    "30 2 * * *",  # in the gap and in the fold
    "0 12 29 2 *",
    "0 23 31 * *",
    "59 23 L * *",
    "15 6 * * mon",
    "0 9 1 * *",
    "every 3 days",
    "every monday at 01:30",
    "0 0 1 1 *",
    "45 2 * * sun",
)


class Killed(Exception):
    """The process died before the commit."""


def make_jobs(tx: Transaction) -> list[Job]:
    made: list[Job] = []
    for number in range(200):
        by, zone = PEOPLE[number % 3], ZONES[number % 3]
        tx.insert("people", "(id) DO NOTHING", id=by.person_id, name=by.sender_name, role="owner", created_ms=0)
        shape = SHAPES[number % len(SHAPES)] if number % 5 else f"{number % 60} {number % 24} * * {number % 7}"
        schedule = f"in {number} days" if number % 20 == 19 else shape
        made.append(BOOK.create(tx, by, JobWish(name=f"job {number}", schedule=schedule, prompt="x", timezone=zone)))
    return made


def end_runs(tx: Transaction) -> None:
    """Let every run end at once; how a turn does that is tested elsewhere."""
    for row in tx.all("SELECT id, inbox_id FROM cron_runs WHERE state = 'queued'"):
        inbox.finish(tx, row["inbox_id"], inbox.Outcome.ANSWERED)
        cron.end_run(tx, cron.get_run(tx, row["id"]), inbox.Outcome.ANSWERED)


def tick(tx: Transaction, starter: RunStarter, *, dies: bool) -> None:
    starter.run_due(tx, limit=500)
    if dies:
        raise Killed
    end_runs(tx)


async def live_through(databases: list[Database], clock: FakeClock, chance: random.Random) -> None:
    """Move the clock from due time to due time, with gaps, jumps, kills and two daemons."""
    jumps = iter(sorted(chance.sample(range(BEGIN + 5 * DAY, END - 20 * DAY, HOUR), 12)))
    jump_ms = next(jumps)
    while clock.ms < END:
        if clock.ms >= jump_ms:
            jump_ms = next(jumps, END)
            clock.ms += chance.choice((3 * HOUR, 2 * DAY, 9 * DAY))  # nobody was running, or the machine slept
            await databases[0].write(recover)
        db = chance.choice(databases)
        try:
            await db.write(lambda tx: tick(tx, BOOK.starter, dies=chance.random() < 0.05))
        except Killed:
            await db.write(recover)
            continue
        other = databases[db is databases[0]]
        await other.write(lambda tx: tick(tx, BOOK.starter, dies=False))  # finds nothing left to do
        due_ms = await db.read(cron.next_due_ms)
        clock.ms = END if due_ms is None else max(due_ms, clock.ms) + chance.randrange(900)


def list_expected(job: Job) -> Iterator[int]:
    for due_ms in schedule_of(job).times_after(BEGIN):
        if due_ms > END:
            return
        yield due_ms


async def test_a_year_of_200_jobs(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(BEGIN).install(monkeypatch)
    jobs = await db.write(make_jobs)
    second = await open_database(db.path, busy_timeout_seconds=30)
    try:
        await live_through([db, second], clock, random.Random(20))
    finally:
        await second.close()
    found = await rows(db, "SELECT job_id, due_ms, occurrences, state, reason, begun_ms FROM cron_runs ORDER BY due_ms")
    assert {state for _, _, _, state, _, _ in found} == {"ran", "late", "skipped"}
    late = 0
    for job in jobs:
        mine = [row[1:] for row in found if row[0] == job.id]
        expected = [due_ms for due_ms in list_expected(job) if due_ms <= clock.ms]
        counted: list[int] = []
        for due_ms, occurrences, state, reason, begun_ms in mine:
            at = expected.index(due_ms)
            counted += expected[at : at + occurrences]
            assert begun_ms >= due_ms
            assert (state == "late") == (state != "skipped" and begun_ms - due_ms > MINUTE)
            assert bool(reason) == (state == "skipped")
            late += state == "late"
        assert Counter(counted) == Counter(expected), job
        assert (job.kind == "once") == (len(expected) == 1 and job.schedule[:4].isdigit())
    assert late > 20
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(sum(row[3] != "skipped" for row in found),)]


async def test_a_daily_job_comes_once_on_every_date(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged by the calendar alone, not by what computes the times."""
    clock = FakeClock(BEGIN).install(monkeypatch)

    def make(tx: Transaction) -> dict[str, str]:
        tx.insert("people", id="ada", name="Ada", role="owner", created_ms=0)
        return {
            BOOK.create(tx, ADA, JobWish(name=zone, schedule="30 2 * * *", prompt="x", timezone=zone)).id: zone
            for zone in ZONES
        }

    zones = await db.write(make)

    def live(tx: Transaction) -> None:
        while (due_ms := cron.next_due_ms(tx)) is not None and due_ms < END:
            clock.ms = max(clock.ms, due_ms)
            tick(tx, BOOK.starter, dies=False)

    await db.write(live)
    for job_id, zone in zones.items():
        due = await rows(db, "SELECT due_ms FROM cron_runs WHERE job_id = ? ORDER BY due_ms", job_id)
        local = [datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(zone)) for (ms,) in due]
        first = local[0].date()
        assert [moment.date() for moment in local] == [first + timedelta(days=at) for at in range(len(local))]
        assert date(2028, 2, 29) in [moment.date() for moment in local]
        odd = [f"{moment:%m-%d %H:%M}" for moment in local if f"{moment:%H:%M}" != "02:30"]
        assert odd == {"Europe/Berlin": ["03-26 03:00"], "America/New_York": ["03-12 03:00"], "Asia/Kolkata": []}[zone]
        assert len(local) >= 366
