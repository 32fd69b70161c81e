"""A file that somebody else holds: nothing is taken meanwhile, and all goes on when it is let go."""

import asyncio
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.inbound.intake import Intake, IntakePolicy
from gateway.policies.access import Rules
from gateway.store.db.connection import Transaction
from gateway.store.db.database import open_database
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.gateway.store.others import HOLDS_THE_FILE, other
from tests.gateway.store.rows import ANN, inbound


@pytest.fixture
def care(tmp_path: Path) -> BackupPolicy:
    return BackupPolicy(backups=tmp_path / "backups", busy_timeout_seconds=0.1)


def accepted(tx: Transaction) -> list[str]:
    return [row["message_id"] for row in tx.all("SELECT message_id FROM inbox ORDER BY id")]


@pytest.mark.parametrize("hold", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
async def test_a_held_file_takes_nothing_and_recovers(tmp_path: Path, care: BackupPolicy, hold: str) -> None:
    path = tmp_path / "state.db"
    prepare(path, care, repair=True)
    db = await open_database(path, busy_timeout_seconds=0.1)
    rules = Rules(allowed_users=frozenset({ANN.id}))
    intake = Intake(db=db, rules=rules, policy=IntakePolicy(max_waiting_per_session=100))

    async def offer(name: str) -> None:
        await intake.accept([inbound(name, message_id=name)], None, account="telegram", local=False)

    await offer("before")
    with other(HOLDS_THE_FILE, str(path), hold) as holder:
        holder.wait_for("ready")
        refused = await asyncio.gather(*(offer(f"held {number}") for number in range(20)), return_exceptions=True)
        assert all(isinstance(outcome, StoreUnavailable) for outcome in refused)
        assert "locked by another process" in db.problem
        assert await db.read(accepted) == ["before"]  # reading goes on
        holder.finish()
    await offer("after")
    assert db.problem == ""
    assert await db.read(accepted) == ["before", "after"]
    await db.close()


async def test_a_short_hold_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    prepare(path, BackupPolicy(backups=tmp_path / "backups"), repair=True)
    db = await open_database(path, busy_timeout_seconds=30)
    with other(HOLDS_THE_FILE, str(path)) as holder:
        holder.wait_for("ready")
        writing = asyncio.create_task(db.write(lambda tx: tx.execute("INSERT INTO cursors VALUES ('a', 'b', 'c')")))
        await db.read(accepted)
        assert not writing.done()
        holder.finish()
        assert await writing == 1
    await db.close()


def test_a_start_finds_the_file_held_and_starts_when_it_is_let_go(tmp_path: Path, care: BackupPolicy) -> None:
    path = tmp_path / "state.db"
    prepare(path, care, repair=True)
    for hold in ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"):
        with other(HOLDS_THE_FILE, str(path), hold) as holder:
            holder.wait_for("ready")
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                prepare(path, care, repair=True)
            holder.finish()
        assert prepare(path, care, repair=True) == []


def test_a_holder_who_was_killed_holds_nothing(tmp_path: Path, care: BackupPolicy) -> None:
    path = tmp_path / "state.db"
    prepare(path, care, repair=True)
    with other(HOLDS_THE_FILE, str(path), "BEGIN EXCLUSIVE") as holder:
        holder.wait_for("ready")
        holder.kill()
    assert prepare(path, care, repair=True) == []
