"""How long it takes to read a shell command, over the commands that the guard's tests have."""

import shlex
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import thread_time_ns

from tests.bench.rows import Row, Size, percentile
from tests.tools.shell_guard.corpus import commands_of, judged
from tools.shell_guard.parsing import parse

_ROUNDS: dict[Size, int] = {"full": 15, "quick": 5, "tiny": 1}
_AIM_MICROSECONDS = 200


def measure(size: Size, folder: Path) -> list[Row]:
    rows: list[Row] = []
    for name in ("harmless", "dangerous"):
        families = commands_of(f"{name}.txt").values()
        commands = [command for family in families for command in family][: 40 if size == "tiny" else None]
        floor = _row(f"{name} commands: shlex.split alone", commands, _split, _ROUNDS[size])
        judging = _row(f"{name} commands: judge", commands, judged, _ROUNDS[size], floor=floor, aim=_AIM_MICROSECONDS)
        slowest = _row(f"{name} commands: judge, 95 of 100", commands, judged, _ROUNDS[size], share=0.95, floor=floor)
        rows += [floor, judging, slowest]
    return rows


def _row(
    what: str,
    commands: list[str],
    read: Callable[[str], object],
    rounds: int,
    *,
    share: float = 0.5,
    floor: Row | None = None,
    aim: float | None = None,
) -> Row:
    """Of each round the command in the middle, or further up; time of the processor, so that neighbours count less."""
    samples = [percentile([_microseconds(read, command) for command in commands], share) for _ in range(rounds)]
    return Row(what=what, samples=samples, unit="µs", aim=aim, floor=floor)


def _microseconds(read: Callable[[str], object], command: str) -> float:
    """The middle of three, as one is too short for the clock to be trusted."""
    taken: list[int] = []
    for _ in range(3):
        parse.cache_clear()
        begun = thread_time_ns()
        read(command)
        taken.append(thread_time_ns() - begun)
    return max(median(taken), 1) / 1_000


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command, comments=True)
    except ValueError:  # what only a shell can read
        return []
