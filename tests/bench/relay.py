"""What a message costs through the page and a model over loopback, against a bare relay between the same two.

The bare relay keeps nothing and knows no SDK. It, the gateway and the model each run in a process of their own;
one client drives both, in turn, so that whatever else the machine does weighs on both alike.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.bench.memory import memory_mb
from tests.bench.relay_client import RelayClient, relay_client
from tests.bench.relay_model import KEY
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import environment, running, running_gateway

_IN_A_ROW: dict[Size, int] = {"full": 40, "quick": 20, "tiny": 2}
_MANY: dict[Size, int] = {"full": 100, "quick": 100, "tiny": 4}
_EACH_OF_MANY: dict[Size, int] = {"full": 10, "quick": 2, "tiny": 1}
_EACH_OF_SLOW: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}
_REPEATS: dict[Size, int] = {"full": 7, "quick": 1, "tiny": 1}
_SLOW_SECONDS: dict[Size, float] = {"full": 1.0, "quick": 1.0, "tiny": 0.05}

_LATENCY_AIM, _THROUGHPUT_AIM, _SLOW_AIM = 3.0, 0.3, 0.85  # as shares of the floor's
_CPU_AIM_MS, _IDLE_AIM_MB = 7.0, 60.0


@dataclass(slots=True)
class _Side:
    """One of the two that are compared, and what was measured of it, once in each repetition."""

    client: RelayClient
    pid: int
    p50_ms: list[float] = field(default_factory=list)
    p95_ms: list[float] = field(default_factory=list)
    row_cpu_ms: list[float] = field(default_factory=list)
    crowd_per_second: list[float] = field(default_factory=list)
    crowd_cpu_ms: list[float] = field(default_factory=list)
    slow_per_second: list[float] = field(default_factory=list)
    slow_at_once: list[float] = field(default_factory=list)


def measure(size: Size, folder: Path) -> list[Row]:
    module = (sys.executable, "-m")
    variables = environment(folder)
    with running((*module, "tests.bench.relay_model"), variables) as (_, model_lines):
        model = next(model_lines).strip()
        with (
            running((*module, "tests.bench.relay_floor", model), variables) as (floor_pid, floor_lines),
            running_gateway(folder / "home", web=True, model_url=f"{model}/v1", model_key=KEY) as (pid, _, link),
        ):
            return asyncio.run(_measure(size, model, (floor_pid, next(floor_lines).strip()), (pid, link)))


async def _measure(size: Size, model: str, floor: tuple[int, str], gateway: tuple[int, str]) -> list[Row]:
    async with (
        aiohttp.ClientSession(model) as session,
        relay_client(floor[1]) as floor_client,
        relay_client(gateway[1]) as gateway_client,
    ):
        bare, ours = _Side(floor_client, floor[0]), _Side(gateway_client, gateway[0])
        idle_mb = memory_mb(ours.pid)["Rss"]
        first_ms, _ = await ours.client.converse(chats=1, messages=1)
        after_mb = memory_mb(ours.pid)["Rss"]
        for side in (bare, ours):  # connections and caches
            await side.client.converse(chats=_MANY[size], messages=1)
        for _ in range(_REPEATS[size]):
            for side in (bare, ours):
                await _one_chat(side, size)
            for side in (bare, ours):
                await _crowd(side, size)
        for _ in range(min(_REPEATS[size], 3)):
            for side in (bare, ours):
                await _slow_crowd(side, size, session)
        used_mb = memory_mb(ours.pid)["Rss"]
    return [
        *_compared(size, bare, ours),
        Row(what="gateway before the first model call, resident", samples=[idle_mb], unit="MB", aim=_IDLE_AIM_MB),
        Row(what="gateway after the first model call, resident", samples=[after_mb], unit="MB"),
        Row(what="gateway after all of this, resident", samples=[used_mb], unit="MB"),
        Row(what="the very first message, client and certificates loaded", samples=first_ms, unit="ms"),
    ]


async def _one_chat(side: _Side, size: Size) -> None:
    before = _cpu_seconds(side.pid)
    latencies, _ = await side.client.converse(chats=1, messages=_IN_A_ROW[size])
    side.row_cpu_ms.append(_cpu_ms_each(side.pid, before, len(latencies)))
    side.p50_ms.append(percentile(latencies, 0.5))
    side.p95_ms.append(percentile(latencies, 0.95))


async def _crowd(side: _Side, size: Size) -> None:
    before = _cpu_seconds(side.pid)
    latencies, seconds = await side.client.converse(chats=_MANY[size], messages=_EACH_OF_MANY[size])
    side.crowd_cpu_ms.append(_cpu_ms_each(side.pid, before, len(latencies)))
    side.crowd_per_second.append(len(latencies) / seconds)


async def _slow_crowd(side: _Side, size: Size, model: aiohttp.ClientSession) -> None:
    async with model.post("/measure", json={"pause_seconds": _SLOW_SECONDS[size]}):
        pass
    latencies, seconds = await side.client.converse(chats=_MANY[size], messages=_EACH_OF_SLOW[size])
    async with model.post("/measure", json={"pause_seconds": 0.0}) as response:
        side.slow_at_once.append((await response.json())["most_at_once"])
    side.slow_per_second.append(len(latencies) / seconds)


def _cpu_seconds(pid: int) -> float:
    """Of all threads, in the program and in the kernel for it; needs Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_ms_each(pid: int, before: float, messages: int) -> float:
    return max((_cpu_seconds(pid) - before) * 1000, 1.0) / messages  # counted in ticks of mostly 10 ms


def _compared(size: Size, bare: _Side, ours: _Side) -> list[Row]:
    row, crowd = f"one chat, {_IN_A_ROW[size]} in a row", f"{_MANY[size]} chats at once"
    slow = f"{_MANY[size]} chats, a model that takes {_SLOW_SECONDS[size]:g} s"
    at_once = "calls at once"
    return [
        *_pair(f"{row}, p50", bare.p50_ms, ours.p50_ms, "ms", share=_LATENCY_AIM),
        *_pair(f"{row}, p95", bare.p95_ms, ours.p95_ms, "ms"),
        *_pair(f"{row}, CPU", bare.row_cpu_ms, ours.row_cpu_ms, "CPU-ms/message", aim=_CPU_AIM_MS),
        *_pair(
            f"{crowd}, throughput", bare.crowd_per_second, ours.crowd_per_second, "messages/s", share=_THROUGHPUT_AIM
        ),
        *_pair(f"{crowd}, CPU", bare.crowd_cpu_ms, ours.crowd_cpu_ms, "CPU-ms/message", aim=_CPU_AIM_MS),
        *_pair(f"{slow}, throughput", bare.slow_per_second, ours.slow_per_second, "messages/s", share=_SLOW_AIM),
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
    return Row(what=f"page to model, {what}", samples=ours, unit=unit, aim=wanted, floor=floor), floor
