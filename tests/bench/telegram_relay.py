"""What a message costs through Telegram and a model over loopback, against a bare bot between the same two.

The bare bot keeps nothing and knows no SDK. It, the gateway and the model each run in a process of their own. Each
bot has a Telegram server of the playground's, both in this process, beside the people who write to it: what Telegram
itself costs is the same work for both, in the same place.

The limits on sending are lifted, and everybody may speak as often as they like. The public Telegram lets a bot send
30 messages a second; this is what the gateway could take on a Bot API server of one's own.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.bench.memory import memory_mb
from tests.bench.relay_sides import Aims, Side, compare
from tests.bench.rows import Row, Size
from tests.bench.scratch import at_model, environment, running, running_gateway
from tests.bench.telegram_people import TelegramPeople, telegram_people

T = TypeVar("T")

_AIMS = Aims(latency=3.5, throughput=0.25, slow_throughput=0.75, cpu_ms=9.0, idle_mb=75.0)
_READY_AIM_SECONDS = 1.0
_STARTS: dict[Size, int] = {"full": 5, "quick": 1, "tiny": 1}
_SETTLE_SECONDS: dict[Size, float] = {"full": 2.0, "quick": 0.5, "tiny": 0.0}
_CONNECTED_WITHIN_SECONDS = 30.0
_SETTINGS: dict[str, Any] = {
    "platforms": {
        "socket": {"enabled": False},
        "web": {"enabled": False},
        "telegram": {"sends_per_second": 0, "chat_sends_per_minute": 0, "group_sends_per_minute": 0},
    },
    "access": {"allow_all_users": True, "messages_per_minute": 0},
}


def measure(size: Size, folder: Path) -> list[Row]:
    with running((sys.executable, "-m", "tests.bench.relay_model"), environment(folder)) as (_, lines):
        return asyncio.run(_measure(size, folder, next(lines).strip()))


async def _measure(size: Size, folder: Path, model: str) -> list[Row]:
    starts = [await _start(folder / f"home-{n}", model, _SETTLE_SECONDS[size]) for n in range(_STARTS[size])]
    seconds, idle_mb = zip(*starts, strict=True)
    async with (
        telegram_people() as near_bare,
        telegram_people() as near_ours,
        _bare_bot(folder, model, near_bare) as bare,
        _gateway(folder / "home", model, near_ours) as ours,
    ):
        rows = await compare(size, "Telegram to model", model, bare, ours, _AIMS)
    return [
        *rows,
        Row(what="gateway run to Ready and connected to Telegram", samples=seconds, unit="s", aim=_READY_AIM_SECONDS),
        Row(what="idle gateway with Telegram, resident", samples=idle_mb, unit="MB", aim=_AIMS.idle_mb),
    ]


async def _start(home: Path, model: str, settle_seconds: float) -> tuple[float, float]:
    """The seconds from its start until the gateway is ready and connected, and its memory soon after."""
    async with telegram_people() as people:
        began = time.perf_counter()
        async with _gateway(home, model, people) as side:
            seconds = time.perf_counter() - began
            await asyncio.sleep(settle_seconds)  # the first backup and the last of the start are over then
            return seconds, memory_mb(side.pid)["Rss"]


@asynccontextmanager
async def _gateway(home: Path, model: str, people: TelegramPeople) -> AsyncIterator[Side]:
    variables = {"TELEGRAM_BOT_TOKEN": people.token, "TELEGRAM_API_URL": people.api_url}
    async with _aside(running_gateway(home, _SETTINGS, at_model(model) | variables)) as (pid, _, _):
        await _connected(people)
        yield Side(people, pid)


@asynccontextmanager
async def _bare_bot(folder: Path, model: str, people: TelegramPeople) -> AsyncIterator[Side]:
    command = (sys.executable, "-m", "tests.bench.telegram_floor", model, f"{people.api_url}/bot{people.token}")
    async with _aside(running(command, environment(folder))) as (pid, _):
        await _connected(people)
        yield Side(people, pid)


async def _connected(people: TelegramPeople) -> None:
    async with asyncio.timeout(_CONNECTED_WITHIN_SECONDS):
        await people.polled()


@asynccontextmanager
async def _aside(process: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Started and ended in a thread: meanwhile Telegram, which is served in this one, has to answer."""
    entered = await asyncio.to_thread(process.__enter__)
    try:
        yield entered
    finally:
        await asyncio.to_thread(process.__exit__, None, None, None)
