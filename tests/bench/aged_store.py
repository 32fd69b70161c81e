"""What an answer, a search and a start cost in a store that has answered very many messages before."""

import asyncio
import shutil
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gateway.store.db.commit_counter import seal
from gateway.store.search import EVERYTHING, search
from tests.bench.filled_store import COMMON_WORD, RARE_WORD, make_filled_store
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import running_gateway, scratch_store, with_socket
from tests.bench.turns import Run, converse

_MESSAGES: dict[Size, int] = {"full": 1_000_000, "quick": 50_000, "tiny": 200}
_SESSIONS: dict[Size, int] = {"full": 10_000, "quick": 500, "tiny": 2}
_IN_A_ROW: dict[Size, int] = {"full": 300, "quick": 20, "tiny": 2}
_REPEATS: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}
_SEARCHES: dict[Size, int] = {"full": 40, "quick": 20, "tiny": 2}
_GROWTH_AIM, _SEARCH_AIM_MS, _START_AIM_SECONDS = 1.5, 50.0, 2.0


def measure(size: Size, folder: Path) -> list[Row]:
    count = _MESSAGES[size]
    store = folder / "aged" / "state.db"
    store.parent.mkdir()
    make_filled_store(store, messages=count, sessions=_SESSIONS[size])
    searches = asyncio.run(_search_milliseconds(store.parent, _SEARCHES[size]))
    starts = [_start_seconds(store, folder / f"home-{n}", sealed=True) for n in range(_REPEATS[size])]
    after_crash = _start_seconds(store, folder / "home-after-crash", sealed=False)
    young, aged = [], []
    for n in range(_REPEATS[size]):  # taking turns, so that whatever else the machine does weighs on both
        young.append(asyncio.run(converse(folder / f"young-{n}", chats=1, messages=_IN_A_ROW[size])))
        aged.append(asyncio.run(_converse_in(store, folder / f"aged-{n}", _IN_A_ROW[size])))
    after = f"after {count:,} messages"
    return [
        *_compare("p50", "ms", after, _medians(young), _medians(aged)),
        *_compare("CPU", "CPU-ms/message", after, [run.cpu_ms for run in young], [run.cpu_ms for run in aged]),
        Row(what=f"search {after}, p95", samples=[percentile(searches, 0.95)], unit="ms", aim=_SEARCH_AIM_MS),
        Row(what=f"gateway run to Ready {after}", samples=starts, unit="s", aim=_START_AIM_SECONDS),
        Row(what=f"gateway run to Ready {after} and a crash", samples=[after_crash], unit="s"),
    ]


def _compare(what: str, unit: str, after: str, young: Sequence[float], aged: Sequence[float]) -> list[Row]:
    floor = Row(what=f"floor: the same in a new store, {what}", samples=young, unit=unit)
    aim = floor.value * _GROWTH_AIM
    return [Row(what=f"turn {after}, {what}", samples=aged, unit=unit, aim=aim, floor=floor), floor]


def _medians(runs: Sequence[Run]) -> list[float]:
    return [percentile(run.latencies_ms, 0.5) for run in runs]


async def _converse_in(store: Path, folder: Path, messages: int) -> Run:
    """In a copy: each repetition finds the same past."""
    folder.mkdir()
    shutil.copyfile(store, folder / store.name)
    try:
        return await converse(folder, chats=1, messages=messages)
    finally:
        shutil.rmtree(folder)  # half a gigabyte


async def _search_milliseconds(folder: Path, count: int) -> list[float]:
    samples = []
    async with scratch_store(folder) as db:
        for n in range(count):
            words = f"w{n * 7919 % 20_000}", f"w{n % 97}", f"w{n * 31 % 97}"
            query = (
                RARE_WORD,
                COMMON_WORD,
                words[0],
                f'"{COMMON_WORD} {words[1]}"',
                f"what did we say about {' and '.join(words)}?",
                f"{words[1]} OR {words[2]}",
            )[n % 6]
            began = time.perf_counter()
            await db.read(partial(search, query=query, reader=EVERYTHING))
            samples.append((time.perf_counter() - began) * 1000)
    return samples


def _start_seconds(store: Path, home: Path, *, sealed: bool) -> float:
    (home / "backups").mkdir(parents=True)
    (home / "backups" / "state-new.db").touch()  # else it makes a backup first, and cannot end before that is done
    shutil.copyfile(store, home / store.name)
    if sealed:
        seal(home / store.name)
    try:
        with running_gateway(home, with_socket(web=False)) as (_, seconds, _):
            return seconds
    finally:
        shutil.rmtree(home)
