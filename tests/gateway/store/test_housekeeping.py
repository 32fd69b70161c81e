"""What is done now and then without being asked."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.messages import SessionKey
from gateway.policies.resets import Policy, Resets
from gateway.store import housekeeping, sessions
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.housekeeping import Housekeeping
from gateway.store.media import MediaFiles
from hermes_config.settings import RetentionSettings
from tests.gateway.scene import locked, rows, soon
from tests.gateway.store.conftest import Clock, clock
from tests.gateway.store.exchange import exchange

__all__ = ["clock"]

RESETS = Resets(usual=Policy(idle_minutes=1_440), exceptions={("web", ""): Policy()})


@pytest.fixture
def house(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Housekeeping:
    monkeypatch.setattr(housekeeping, "_SWEEP_SECONDS", 0.01)
    return Housekeeping(
        db=db, resets=RESETS, retention=RetentionSettings(), files=MediaFiles({"image": tmp_path / "images"})
    )


def converse(tx: Transaction) -> None:
    for platform in ("telegram", "web"):
        exchange(tx, key=SessionKey(platform=platform, kind="" if platform == "web" else "dm", chat="42"))


async def test_conversations_end_where_they_should(db: Database, clock: Clock, house: Housekeeping) -> None:
    await db.write(converse)
    assert await house.end_sessions() == 0
    clock.forward(hours=24)
    assert await house.end_sessions() == 1
    assert await house.end_sessions() == 0
    assert await rows(db, "SELECT platform, end_reason FROM sessions ORDER BY platform") == [
        ("telegram", "idle"),
        ("web", None),
    ]


async def test_many_are_ended_in_several_transactions(
    db: Database, clock: Clock, house: Housekeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.retention.BATCH_ROWS", 4)

    def unit(tx: Transaction) -> None:
        for chat in range(10):
            sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat=str(chat)))

    await db.write(unit)
    [(commits,)] = await rows(db, "SELECT value FROM meta")
    clock.forward(hours=25)
    assert await house.end_sessions() == 10
    assert await rows(db, "SELECT value FROM meta") == [(commits + 3,)]


@contextmanager
def cleanings(house: Housekeeping, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Queue[str]]:
    """Tells when a cleaning is over, and how it ended."""
    ended: asyncio.Queue[str] = asyncio.Queue()
    really_delete = Housekeeping.delete_old

    async def delete_old(self: Housekeeping) -> None:
        try:
            await really_delete(self)
        except Exception as error:
            ended.put_nowait(type(error).__name__)
            raise
        ended.put_nowait("done")

    monkeypatch.setattr(Housekeeping, "delete_old", delete_old)
    task = asyncio.ensure_future(house.run())
    yield ended
    task.cancel()


async def test_old_rows_go_with_the_first_sweep_and_not_with_every_one(
    db: Database, clock: Clock, house: Housekeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "_SWEEPS_BETWEEN_CLEANINGS", 1_000_000)
    await db.write(converse)
    clock.forward(hours=24 * 100)
    with cleanings(house, monkeypatch) as ended:
        assert await soon(ended.get()) == "done"
        assert await rows(db, "SELECT account FROM inbox") == [("web",)]


async def test_a_store_that_is_away_is_tried_again(
    db: Database, clock: Clock, house: Housekeeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    await db.write(converse)
    clock.forward(hours=24 * 100)
    await house.end_sessions()
    with cleanings(house, monkeypatch) as ended:
        with locked(db.path):
            assert await soon(ended.get()) == "StoreUnavailable"
        while (outcome := await soon(ended.get())) == "StoreUnavailable":
            pass
        assert outcome == "done"
    assert await rows(db, "SELECT account FROM inbox") == [("web",)]
