"""A full disk: nothing is acknowledged that is not written, nothing written is lost, and it heals by itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.inbound.intake import Intake, IntakePolicy
from gateway.messages import Cursor
from gateway.policies.access import Rules
from gateway.store import chats
from gateway.store.db.backup import backups, make_backup
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.store.rows import ANN, inbound
from tests.gateway.store.small_disk import SmallDisk, small_disk

MANY = 10_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", megabytes=4) as disk:
        yield disk


@pytest.fixture
def care(disk: SmallDisk) -> BackupPolicy:
    return BackupPolicy(backups=disk.root / "backups", busy_timeout_seconds=0.5)


@pytest.fixture
async def db(disk: SmallDisk, care: BackupPolicy) -> AsyncIterator[Database]:
    prepare(disk.root / "state.db", care, repair=True)
    db = await open_database(disk.root / "state.db", busy_timeout_seconds=0.5)
    yield db
    await db.close()


@pytest.fixture
def intake(db: Database) -> Intake:
    rules = Rules(allowed_users=frozenset({ANN.id}))
    return Intake(db=db, rules=rules, policy=IntakePolicy(max_waiting_per_session=MANY))


async def offer(intake: Intake, *names: str) -> bool:
    """Whether they were taken."""
    messages = [inbound(f"message {name}: " + "x" * 2000, message_id=name) for name in names]
    try:
        await intake.accept(messages, Cursor(channel="updates", value=names[-1]), account="telegram", local=False)
    except StoreUnavailable:
        return False
    return True


def accepted(tx: Transaction) -> list[str]:
    return [row["message_id"] for row in tx.all("SELECT message_id FROM inbox ORDER BY id")]


async def test_what_does_not_fit_is_refused_and_what_was_taken_stays(
    disk: SmallDisk, db: Database, intake: Intake
) -> None:
    disk.fill(leave_bytes=200 * 1024)
    taken: list[str] = []
    while await offer(intake, f"before {len(taken)}"):
        taken.append(f"before {len(taken)}")
    assert taken
    assert "the disk is full" in db.problem
    for number in range(5):
        assert not await offer(intake, f"refused {number}")
    assert await db.read(accepted) == taken
    assert await db.read(lambda tx: chats.read_cursor(tx, "telegram", "updates")) == taken[-1]

    disk.free()
    assert await offer(intake, "after", "that")
    assert db.problem == ""
    assert await db.read(accepted) == [*taken, "after", "that"]


async def test_many_at_once_are_taken_or_refused_each_as_it_was_told(
    disk: SmallDisk, db: Database, intake: Intake
) -> None:
    disk.fill(leave_bytes=200 * 1024)
    told: dict[str, bool] = {}
    for start in range(0, 200, 10):
        names = [str(number) for number in range(start, start + 10)]
        told |= dict(zip(names, await asyncio.gather(*(offer(intake, name) for name in names)), strict=True))
    assert set(told.values()) == {True, False}
    assert set(await db.read(accepted)) == {name for name, was_taken in told.items() if was_taken}


async def test_a_page_of_messages_is_taken_whole_or_not_at_all(disk: SmallDisk, db: Database, intake: Intake) -> None:
    disk.fill(leave_bytes=100 * 1024)
    assert not await offer(intake, *(str(number) for number in range(200)))
    assert await db.read(accepted) == []
    assert await db.read(lambda tx: chats.read_cursor(tx, "telegram", "updates")) == ""


async def test_something_small_that_still_fits_does_not_hide_a_full_disk(
    disk: SmallDisk, db: Database, intake: Intake
) -> None:
    """The gateway tries a store that failed with the smallest of writes."""
    disk.fill(leave_bytes=100 * 1024)
    assert not await offer(intake, *(str(number) for number in range(200)))
    await db.write(lambda tx: None)
    assert "the disk is full" in db.problem
    disk.free()
    await db.write(lambda tx: None)
    assert db.problem == ""


async def test_work_that_was_accepted_waits_for_room(
    disk: SmallDisk, db: Database, intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.db.database._RETRY_SECONDS", 0.01)
    assert await offer(intake, "first")
    disk.fill()
    big = "x" * 500_000
    answering = asyncio.create_task(
        db.write_when_possible(lambda tx: tx.execute("INSERT INTO notices (at_ms, text) VALUES (0, ?)", big))
    )
    assert not await offer(intake, "y" * 500_000)  # written together with the other or after it
    assert "the disk is full" in db.problem
    assert not answering.done()
    disk.free()
    async with asyncio.timeout(10):
        await answering
    assert await db.read(lambda tx: tx.count("SELECT COUNT(*) FROM notices WHERE length(text) > 1000")) == 1


async def test_everything_taken_is_there_after_a_restart(disk: SmallDisk, care: BackupPolicy) -> None:
    path = disk.root / "state.db"
    prepare(path, care, repair=True)
    taken: list[str] = []
    for round_number in range(3):
        db = await open_database(path, busy_timeout_seconds=0.5)
        intake = Intake(
            db=db,
            rules=Rules(allowed_users=frozenset({ANN.id})),
            policy=IntakePolicy(max_waiting_per_session=MANY),
        )
        disk.fill(leave_bytes=100 * 1024)
        for number in range(40):
            name = f"{round_number}.{number}"
            if await offer(intake, name):
                taken.append(name)
        await db.close()
        disk.free()
        assert prepare(path, care, repair=True) == []
    db = await open_database(path)
    assert await db.read(accepted) == taken
    assert taken
    await db.close()


async def test_a_start_on_a_full_disk_says_so_and_succeeds_later(disk: SmallDisk, care: BackupPolicy) -> None:
    path = disk.root / "state.db"
    disk.fill()
    with pytest.raises(StoreUnavailable, match=r"disk is full|No space left|failed"):
        prepare(path, care, repair=True)
    disk.free()
    assert prepare(path, care, repair=True) == []


async def test_a_backup_that_does_not_fit_leaves_no_rubbish(
    disk: SmallDisk, db: Database, intake: Intake, care: BackupPolicy
) -> None:
    assert await offer(intake, *(str(number) for number in range(50)))
    make_backup(db.path, care.backups, keep=5)
    disk.fill(leave_bytes=50 * 1024)
    with pytest.raises(Exception, match=r"full|No space"):
        make_backup(db.path, care.backups, keep=5)
    assert len(list(care.backups.iterdir())) == len(backups(care.backups)) == 1
