"""Ours and a bare relay, each between the same people and the same model: measured in turn, told side by side.

Whatever else the machine does weighs on both alike, so the shares mean more than the figures.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import aiohttp

from tests.bench.memory import memory_mb
from tests.bench.relay_model import ANSWER
from tests.bench.rows import Row, Size, percentile

TEXT = "Could you look at the build of last night and tell me what broke?"

_IN_A_ROW: dict[Size, int] = {"full": 40, "quick": 20, "tiny": 2}
_MANY: dict[Size, int] = {"full": 100, "quick": 100, "tiny": 4}
_EACH_OF_MANY: dict[Size, int] = {"full": 10, "quick": 2, "tiny": 1}
_EACH_OF_SLOW: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}
_REPEATS: dict[Size, int] = {"full": 7, "quick": 1, "tiny": 1}
_SLOW_SECONDS: dict[Size, float] = {"full": 1.0, "quick": 1.0, "tiny": 0.05}
_ANSWERED_WITHIN_SECONDS = 60.0


class Client(Protocol):
    def open_chat(self) -> Callable[[], Awaitable[float]]:
        """A new chat: each call says something in it, and gives the milliseconds until the whole answer is here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    latency: float  # these as shares of the floor's
    throughput: float
    slow_throughput: float
    cpu_ms: float
    idle_mb: float


@dataclass(slots=True)
class Side:
    """One of the two that are compared, and what was measured of it, once in each repetition."""

    client: Client
    pid: int
    p50_ms: list[float] = field(default_factory=list)
    p95_ms: list[float] = field(default_factory=list)
    row_cpu_ms: list[float] = field(default_factory=list)
    crowd_per_second: list[float] = field(default_factory=list)
    crowd_cpu_ms: list[float] = field(default_factory=list)
    slow_per_second: list[float] = field(default_factory=list)
    slow_at_once: list[float] = field(default_factory=list)


class Answers:
    """Who waits for an answer, and since when."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[float]] = {}

    def expect(self, key: str) -> Awaitable[float]:
        """From now on; gives the milliseconds until it came."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        return self._milliseconds(future, time.perf_counter())

    def take(self, key: str, text: str) -> None:
        waiting = self._waiting.pop(key)
        if text.strip() == ANSWER.strip():
            waiting.set_result(time.perf_counter())
        else:
            waiting.set_exception(AssertionError(f"not the model's answer: {text}"))

    async def _milliseconds(self, answered: asyncio.Future[float], began: float) -> float:
        async with asyncio.timeout(_ANSWERED_WITHIN_SECONDS):
            return (await answered - began) * 1000


async def compare(size: Size, name: str, model_url: str, bare: Side, ours: Side, aims: Aims) -> list[Row]:
    idle_mb = memory_mb(ours.pid)["Rss"]
    first_ms, _ = await _converse(ours.client, chats=1, messages=1)
    after_mb = memory_mb(ours.pid)["Rss"]
    async with aiohttp.ClientSession(model_url) as model:
        for side in (bare, ours):  # connections and caches
            await _converse(side.client, chats=_MANY[size], messages=1)
        for _ in range(_REPEATS[size]):
            for side in (bare, ours):
                await _one_chat(side, size)
            for side in (bare, ours):
                await _crowd(side, size)
        for _ in range(min(_REPEATS[size], 3)):
            for side in (bare, ours):
                await _slow_crowd(side, size, model)
    used_mb = memory_mb(ours.pid)["Rss"]
    return [
        *_compared(size, name, bare, ours, aims),
        Row(what=f"{name}, before the first model call, resident", samples=[idle_mb], unit="MB", aim=aims.idle_mb),
        Row(what=f"{name}, after the first model call, resident", samples=[after_mb], unit="MB"),
        Row(what=f"{name}, after all of this, resident", samples=[used_mb], unit="MB"),
        Row(what=f"{name}, the very first message, client and certificates loaded", samples=first_ms, unit="ms"),
    ]


async def _converse(client: Client, *, chats: int, messages: int) -> tuple[list[float], float]:
    """In each of so many new chats the next message is said when the last one was answered.

    Gives the milliseconds of each, and the seconds that all took.
    """

    async def talk(say: Callable[[], Awaitable[float]]) -> list[float]:
        return [await say() for _ in range(messages)]

    began = time.perf_counter()
    latencies = await asyncio.gather(*(talk(client.open_chat()) for _ in range(chats)))
    return [latency for of_chat in latencies for latency in of_chat], time.perf_counter() - began


async def _one_chat(side: Side, size: Size) -> None:
    before = cpu_seconds(side.pid)
    latencies, _ = await _converse(side.client, chats=1, messages=_IN_A_ROW[size])
    side.row_cpu_ms.append(_cpu_ms_each(side.pid, before, len(latencies)))
    side.p50_ms.append(percentile(latencies, 0.5))
    side.p95_ms.append(percentile(latencies, 0.95))


async def _crowd(side: Side, size: Size) -> None:
    before = cpu_seconds(side.pid)
    latencies, seconds = await _converse(side.client, chats=_MANY[size], messages=_EACH_OF_MANY[size])
    side.crowd_cpu_ms.append(_cpu_ms_each(side.pid, before, len(latencies)))
    side.crowd_per_second.append(len(latencies) / seconds)


async def _slow_crowd(side: Side, size: Size, model: aiohttp.ClientSession) -> None:
    async with model.post("/measure", json={"pause_seconds": _SLOW_SECONDS[size]}):
        pass
    latencies, seconds = await _converse(side.client, chats=_MANY[size], messages=_EACH_OF_SLOW[size])
    async with model.post("/measure", json={"pause_seconds": 0.0}) as response:
        side.slow_at_once.append((await response.json())["most_at_once"])
    side.slow_per_second.append(len(latencies) / seconds)


def cpu_seconds(pid: int) -> float:
    """Of all threads, in the program and in the kernel for it; needs Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_ms_each(pid: int, before: float, messages: int) -> float:
    return max((cpu_seconds(pid) - before) * 1000, 1.0) / messages  # counted in ticks of mostly 10 ms


def _compared(size: Size, name: str, bare: Side, ours: Side, aims: Aims) -> list[Row]:
    row, crowd = f"{name}, one chat, {_IN_A_ROW[size]} in a row", f"{name}, {_MANY[size]} chats at once"
    slow = f"{name}, {_MANY[size]} chats, a model that takes {_SLOW_SECONDS[size]:g} s"
    cpu, per_second, at_once = "CPU-ms/message", "messages/s", "calls at once"
    return [
        *_pair(f"{row}, p50", bare.p50_ms, ours.p50_ms, "ms", share=aims.latency),
        *_pair(f"{row}, p95", bare.p95_ms, ours.p95_ms, "ms"),
        *_pair(f"{row}, CPU", bare.row_cpu_ms, ours.row_cpu_ms, cpu, aim=aims.cpu_ms),
        *_pair(f"{crowd}, throughput", bare.crowd_per_second, ours.crowd_per_second, per_second, share=aims.throughput),
        *_pair(f"{crowd}, CPU", bare.crowd_cpu_ms, ours.crowd_cpu_ms, cpu, aim=aims.cpu_ms),
        *_pair(
            f"{slow}, throughput", bare.slow_per_second, ours.slow_per_second, per_second, share=aims.slow_throughput
        ),
        *_pair(f"{slow}, model", bare.slow_at_once, ours.slow_at_once, at_once, aim=_MANY[size]),
    ]


def _pair(
    what: str,
    bare: Sequence[float],
    ours: Sequence[float],
    unit: str,
    *,
    share: float | None = None,
    aim: float | None = None,
) -> tuple[Row, Row]:
    floor = Row(what=f"floor: {what}", samples=bare, unit=unit)
    wanted = share * floor.value if share is not None else aim
    return Row(what=what, samples=ours, unit=unit, aim=wanted, floor=floor), floor
