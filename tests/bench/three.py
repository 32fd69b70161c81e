"""One gateway with Telegram, Discord and Slack: how soon it is there, what it keeps, and whom one's trouble troubles.

Each platform is served in a process of its own, beside the people who write to the bot there: what it costs to flap is
then not paid by the others' servers. People write at a steady pace, whatever becomes of what they wrote.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.memory import memory_mb
from tests.bench.relay_sides import cpu_seconds
from tests.bench.rows import Row, Size, percentile
from tests.bench.scratch import ROOT, at_model, environment, running, running_gateway

Trouble = tuple[str, str]
"""On which platform, and what it is."""

NAMES = {"telegram": "Telegram", "discord": "Discord", "slack": "Slack"}
_READY_AIM_SECONDS, _IDLE_AIM_MB = 1.8, 120.0
_STARTS: dict[Size, int] = {"full": 5, "quick": 1, "tiny": 1}
_SETTLE_SECONDS: dict[Size, float] = {"full": 2.0, "quick": 0.5, "tiny": 0.0}
_REPEATS: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}
_MESSAGES: dict[Size, int] = {"full": 100, "quick": 30, "tiny": 2}  # on each platform
_EVERY_SECONDS = 0.08
_WARM_UP = 25
_FLAPPING = tuple((name, "flaps") for name in NAMES)
_TROUBLES = (*_FLAPPING, ("discord", "has a wrong token"), ("slack", "is slow"))
_PLAYED: dict[Size, Sequence[Trouble]] = {"full": _TROUBLES, "quick": _TROUBLES, "tiny": _FLAPPING[:1]}
_SETTINGS: dict[str, Any] = {
    "platforms": {
        "socket": {"enabled": False},
        "web": {"enabled": False},
        "telegram": {"sends_per_second": 0, "chat_sends_per_minute": 0, "group_sends_per_minute": 0},
    },
    "access": {"allow_all_users": True, "messages_per_minute": 0},
}


class Far:
    """A side, as its benchmark sees it: tells it what to do and waits for what comes of it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, what: str, **details: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"what": what, **details}).encode() + b"\n")
        return await self.hear()

    async def hear(self) -> Any:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "a side ended before its time"
        return json.loads(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    pid: int
    seconds: Mapping[str, float]  # until it was ready, and connected to each


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Everybody has said what they had to say."""

    latencies: Mapping[str, list[float]]  # in ms, of those who waited for answers
    cpu_seconds: float  # of the gateway


@dataclass(slots=True)
class Told:
    """What was measured, once in each repetition."""

    starts: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    before: defaultdict[Trouble, list[Phase]] = field(default_factory=lambda: defaultdict(list))
    during: defaultdict[Trouble, list[Phase]] = field(default_factory=lambda: defaultdict(list))


def measure(size: Size, folder: Path) -> list[Row]:
    with running((sys.executable, "-m", "tests.bench.relay_model"), environment(folder)) as (_, lines):
        return asyncio.run(_measure(size, folder, next(lines).strip()))


async def _measure(size: Size, folder: Path, model: str) -> list[Row]:
    told = Told()
    for number in range(_STARTS[size]):
        async with _three(folder / f"idle-{number}", model) as (started, _):
            await asyncio.sleep(_SETTLE_SECONDS[size])  # the first backup and the last of the start are over then
            _note_start(told, started)
    for number in range(_REPEATS[size]):
        for which, trouble in enumerate(_PLAYED[size]):
            async with _three(folder / f"home-{number}-{which}", model) as (started, sides):
                await _play(told, size, started, sides, trouble)
    return [*_starting_rows(told), *_calm_rows(told, size), *_trouble_rows(told)]


def _note_start(told: Told, started: Started) -> None:
    for what, seconds in started.seconds.items():
        told.starts[what].append(seconds)
    told.starts["all"].append(max(started.seconds.values()))
    used = memory_mb(started.pid)
    told.memory["resident"].append(used["Rss"])
    told.memory["its share of what is shared included"].append(used["Pss"])
    told.memory["peak"].append(used["VmHWM"])


async def _play(told: Told, size: Size, gateway: Started, sides: Mapping[str, Far], trouble: Trouble) -> None:
    """Everybody talks while all is calm, and then while one platform is in trouble, to the same gateway."""
    calm = dict.fromkeys(sides, "talk")
    await _phase(gateway, sides, calm, messages=min(_WARM_UP, _MESSAGES[size]))
    told.before[trouble].append(await _phase(gateway, sides, calm, messages=_MESSAGES[size]))
    rough = calm | dict([trouble])
    told.during[trouble].append(await _phase(gateway, sides, rough, messages=_MESSAGES[size]))


async def _phase(gateway: Started, sides: Mapping[str, Far], what: Mapping[str, str], *, messages: int) -> Phase:
    """By turns, not all at the same moment: what one waits for is then the gateway and not the others' messages."""
    before = cpu_seconds(gateway.pid)
    rate_limits = {"messages": messages, "every_seconds": _EVERY_SECONDS}
    turns = {name: number / len(sides) * _EVERY_SECONDS for number, name in enumerate(sides)}
    doing = (side.do(what[name], after_seconds=turns[name], **rate_limits) for name, side in sides.items())
    latencies = dict(zip(sides, await asyncio.gather(*doing), strict=True))
    used = max(cpu_seconds(gateway.pid) - before, 0.01)  # counted in ticks
    return Phase(latencies=latencies, cpu_seconds=used)


@asynccontextmanager
async def _three(home: Path, model: str) -> AsyncIterator[tuple[Started, Mapping[str, Far]]]:
    """Three platforms, and a gateway that is connected to them."""
    async with AsyncExitStack() as stack:
        sides = {name: await stack.enter_async_context(far_side(name, home.parent)) for name in NAMES}
        variables = at_model(model)
        for side in sides.values():
            variables |= await side.hear()
        began = time.time()
        with running_gateway(home, _SETTINGS, variables) as (pid, ready_seconds, _):
            connected = {name: await side.do("connected") - began for name, side in sides.items()}
            yield Started(pid=pid, seconds={"ready": ready_seconds, **connected}), sides


@asynccontextmanager
async def far_side(name: str, folder: Path) -> AsyncIterator[Far]:
    """A platform of the playground in a process of its own; what it says first are the variables for the gateway."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.three_side", name),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=environment(folder),
        limit=1_000_000,
    )
    try:
        yield Far(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _starting_rows(told: Told) -> Iterator[Row]:
    start = "gateway run to"
    all_three = told.starts["all"]
    yield Row(what=f"{start} Ready and connected to all three", samples=all_three, unit="s", aim=_READY_AIM_SECONDS)
    yield Row(what=f"{start} Ready, with all three", samples=told.starts["ready"], unit="s")
    for name, shown in NAMES.items():
        yield Row(what=f"{start} connected to {shown}, with all three", samples=told.starts[name], unit="s")
    for what, samples in told.memory.items():
        aim = _IDLE_AIM_MB if what == "resident" else None
        yield Row(what=f"idle gateway with all three, {what}", samples=samples, unit="MB", aim=aim)


def _calm_rows(told: Told, size: Size) -> Iterator[Row]:
    phases = [phase for of_trouble in told.before.values() for phase in of_trouble]
    for name, shown in NAMES.items():
        for share in (0.5, 0.95):
            samples = [percentile(phase.latencies[name], share) for phase in phases]
            what = f"{shown}, {_MESSAGES[size]} on each of three, all calm, p{share * 100:.0f}"
            yield Row(what=what, samples=samples, unit="ms")


def _trouble_rows(told: Told) -> Iterator[Row]:
    for trouble, during in told.during.items():
        before = told.before[trouble]
        name, what = trouble[0], f"{NAMES[trouble[0]]} {trouble[1]}"
        for other in (one for one in NAMES if one != name):
            calm, rough = ([percentile(one.latencies[other], 0.95) for one in phases] for phases in (before, during))
            yield from _pair(f"{NAMES[other]}, p95", what, calm, rough, "ms")
        # Says the same even where others use the machine.
        cpu_calm, cpu_rough = ([one.cpu_seconds for one in phases] for phases in (before, during))
        yield from _pair("the gateway", what, cpu_calm, cpu_rough, "CPU-s")


def _pair(who: str, what: str, calm: Sequence[float], rough: Sequence[float], unit: str) -> tuple[Row, Row]:
    floor = Row(what=f"floor: {who}, before {what}", samples=calm, unit=unit)
    return Row(what=f"{who}, while {what}", samples=rough, unit=unit, floor=floor), floor
