"""How many messages a second are written down durably, by how many senders at once."""

import asyncio
import sqlite3
import time
from pathlib import Path

from gateway.inbound.intake import Intake, IntakePolicy
from gateway.policies.access import Rules
from gateway.store.db.connection import connect
from gateway.store.inspect import read_counts
from tests.bench.rows import Row, Size
from tests.bench.scratch import ACCOUNT, inbound, scratch_store

# Writers at once, and messages in all: few writers share few commits and take longer for each.
_WRITERS: dict[Size, dict[int, int]] = {
    "full": {1: 1_000, 10: 5_000, 100: 10_000, 500: 10_000},
    "quick": {1: 200, 10: 1_000, 100: 3_000, 500: 3_000},
    "tiny": {1: 5, 10: 20},
}
_REPEATS: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}
_AIM_WITH_100 = 10_000
_MAX_WAITING = 20
_PER_CHAT = 10  # below what may wait in a chat, since nobody answers here
_TEXT = "Could you look at the build of last night and tell me what broke? " * 2


def measure(size: Size, folder: Path) -> list[Row]:
    counts = _WRITERS[size]
    few, many = min(counts.values()), max(counts.values())
    bare: list[float] = []
    together: list[float] = []
    ours: dict[int, list[float]] = {writers: [] for writers in counts}
    for n in range(_REPEATS[size]):  # one of each in turn: whatever else the machine does weighs on all alike
        bare.append(_bare(folder / f"floor-{n}.db", few, per_commit=1))
        together.append(_bare(folder / f"ceiling-{n}.db", many, per_commit=many))
        for writers, total in counts.items():
            ours[writers].append(asyncio.run(_accepts(folder / f"{writers}-{n}", writers, total)))
    floor = Row(what="floor: a bare row and a commit each", samples=bare, unit="accepts/s")
    ceiling = Row(what="ceiling: bare rows, one commit for all", samples=together, unit="accepts/s", floor=floor)
    rows = [
        Row(
            what=f"durable accepts, {writers} writer{'s' if writers > 1 else ''}",
            samples=samples,
            unit="accepts/s",
            aim=_AIM_WITH_100 if writers == 100 else None,
            floor=floor,
        )
        for writers, samples in ours.items()
    ]
    return [*rows, floor, ceiling]


async def _accepts(folder: Path, writers: int, total: int) -> float:
    async with scratch_store(folder) as db:
        intake = Intake(db=db, rules=Rules(), policy=IntakePolicy(max_waiting_per_session=_MAX_WAITING))
        pages = [
            [inbound(f"{writer}-{n // _PER_CHAT}", str(n), _TEXT) for n in range(total // writers)]
            for writer in range(writers)
        ]

        async def write(page: int) -> None:
            for message in pages[page]:
                await intake.accept([message], None, account=ACCOUNT, local=True)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for writer in range(writers):
                group.create_task(write(writer))
        seconds = time.perf_counter() - began
        accepted = int((await db.read(read_counts))["waiting"])
        assert accepted == sum(map(len, pages)), "some were refused, so this measured something else"
        return accepted / seconds


def _bare(path: Path, total: int, *, per_commit: int) -> float:
    """The same bytes into one table of SQLite's, without us."""
    connection = connect(path, busy_timeout_seconds=5)
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, chat TEXT, message_id TEXT, text TEXT)")
    began = time.perf_counter()
    for first in range(0, total, per_commit):
        _commit(connection, [(str(n // _PER_CHAT), str(n), _TEXT) for n in range(first, first + per_commit)])
    seconds = time.perf_counter() - began
    connection.close()
    return total / seconds


def _commit(connection: sqlite3.Connection, rows: list[tuple[str, str, str]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO bare (chat, message_id, text) VALUES (?, ?, ?)", rows)
    connection.execute("COMMIT")
