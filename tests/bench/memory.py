"""What a gateway that has nothing to do keeps of the machine's memory.

In a development environment structlog finds `rich` and imports it, which users do not have: some 5 MB less there.
"""

import subprocess
import sys
import time
from pathlib import Path

from tests.bench.rows import Row, Size
from tests.bench.scratch import ROOT, environment, running_gateway, with_socket

_REPEATS: dict[Size, int] = {"full": 3, "quick": 1, "tiny": 1}
_SETTLE_SECONDS: dict[Size, float] = {"full": 2.0, "quick": 0.5, "tiny": 0.0}
_AIM_MB = 55


def measure(size: Size, folder: Path) -> list[Row]:
    repeats, settle = range(_REPEATS[size]), _SETTLE_SECONDS[size]
    bare = [_bare_interpreter(folder) for _ in repeats]
    idle = [_idle_gateway(folder / f"home-{n}", settle, web=False) for n in repeats]
    with_web = [_idle_gateway(folder / f"home-{n}", settle, web=True) for n in repeats]
    floor = Row(what="floor: a Python that waits, resident", samples=[one["Rss"] for one in bare], unit="MB")
    own = [one["Private_Dirty"] + one["Private_Clean"] for one in idle]
    return [
        Row(
            what="idle gateway with the socket, resident",
            samples=[one["Rss"] for one in idle],
            unit="MB",
            aim=_AIM_MB,
            floor=floor,
        ),
        Row(what="idle gateway with the socket, not shared", samples=own, unit="MB"),
        Row(what="idle gateway with the socket, peak", samples=[one["VmHWM"] for one in idle], unit="MB"),
        Row(
            what="idle gateway with socket and web page, resident",
            samples=[one["Rss"] for one in with_web],
            unit="MB",
            floor=floor,
        ),
        floor,
    ]


def _idle_gateway(home: Path, settle_seconds: float, *, web: bool) -> dict[str, float]:
    with running_gateway(home, with_socket(web=web)) as (pid, _, _):
        time.sleep(settle_seconds)  # the first backup and the last of the start are over then
        return memory_mb(pid)


def _bare_interpreter(home: Path) -> dict[str, float]:
    command = (sys.executable, "-c", "print('up', flush=True); input()")
    with subprocess.Popen(
        command, env=environment(home), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = memory_mb(process.pid)
        process.communicate("\n")
        return found


def memory_mb(pid: int) -> dict[str, float]:
    """The kernel's own account, by its names; needs Linux."""
    lines = [*_lines(pid, "smaps_rollup"), *_lines(pid, "status")]
    return {fields[0].rstrip(":"): int(fields[1]) * 1024 / 1e6 for fields in lines if fields[2:3] == ["kB"]}


def _lines(pid: int, name: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/{name}").read_text().splitlines()]
