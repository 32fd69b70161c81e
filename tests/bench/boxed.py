"""How much longer a command takes in the owner's sandbox than on this machine, and what an idle sandbox costs."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.bench.rows import Row, Size
from tools.backends.base import Command, Workplace
from tools.backends.sandbox import SandboxProblem, find_features
from tools.workplaces import build_workplace

_COMMANDS: dict[Size, int] = {"full": 60, "quick": 20, "tiny": 2}
_SANDBOXES: dict[Size, int] = {"full": 5, "quick": 3, "tiny": 1}
_RATIO = 1.3


def measure(size: Size, folder: Path) -> list[Row]:
    try:
        find_features()
    except SandboxProblem:
        return [Row(what="no sandbox can be made here", samples=[1], unit="")]
    return asyncio.run(_measure(size, folder))


async def _measure(size: Size, folder: Path) -> list[Row]:
    places = [_place(folder, f"holder {number}") for number in range(_SANDBOXES[size])]
    before = _resident_kilobytes(folder)
    first = [await _milliseconds(place) for place in places]
    memory = (_resident_kilobytes(folder) - before) / len(places) / 1000
    inside, outside = [], []
    for _ in range(_COMMANDS[size]):  # in turn, so that both have the same neighbours
        inside.append(await _milliseconds(places[0]))
        assert places[0].outside is not None
        outside.append(await _milliseconds(places[0].outside))
    for place in places:
        await place.backend.close()
    floor = Row(what="floor: a command on this machine", samples=outside, unit="ms")
    return [
        floor,
        Row(
            what="a command in a sandbox that runs",
            samples=inside,
            unit="ms",
            aim=round(_RATIO * floor.value, 1),
            floor=floor,
        ),
        Row(what="the first command, which starts the sandbox", samples=first, unit="ms", floor=floor),
        Row(what="an idle sandbox, memory of its own", samples=[memory], unit="MB"),
    ]


def _place(folder: Path, holder: str) -> Workplace:
    home, settings = Home(folder / "home"), TerminalSettings(backend="sandbox")
    return build_workplace(settings, folder / "work", home=home, private=home.private, is_owner=True, holder=holder)


async def _milliseconds(place: Workplace) -> float:
    began = time.perf_counter()
    await place.backend.run(Command(text="true"))
    return (time.perf_counter() - began) * 1000


def _resident_kilobytes(folder: Path) -> int:
    """The memory that all processes of these sandboxes have for themselves, by their share of what is shared."""
    total = 0
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and b"box_child" in (process / "cmdline").read_bytes():
                rolled = (process / "smaps_rollup").read_text()
                total += sum(int(line.split()[1]) for line in rolled.splitlines() if line.startswith("Pss:"))
    return total
