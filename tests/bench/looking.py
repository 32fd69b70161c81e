"""How long the commands that only look take, also of the processor, and how much memory at most.

In a development environment structlog finds `rich` and imports it, which users do not have: some 50 ms and 4 MB less
there.
"""

import subprocess
import sys
import time
from pathlib import Path

from tests.bench.rows import Row, Size
from tests.bench.scratch import HERMES, ROOT, environment, seconds_to_run

_REPEATS: dict[Size, int] = {"full": 15, "quick": 5, "tiny": 1}
_SECONDS_AIM, _MB_AIM = 0.25, 40.0
_HERMES = "sys.argv[1:] = {arguments}; from hermes_cli.main import main; main()"
_COMMANDS = ("status", "pairing list", "sessions list", "sessions search milk")
# By itself: the peak that the kernel tells a parent counts what the parent had when it forked.
_TELL = """import atexit, sys, time
atexit.register(lambda: print(open("/proc/self/status").read(), "CPU:", time.process_time(), file=sys.stderr))
"""
_FLOORS = {
    "python -c pass": "pass",
    "pydantic, structlog, click": "import asyncio, aiosqlite, click, pydantic, structlog",
}


def measure(size: Size, folder: Path) -> list[Row]:
    home = folder / "home"
    seconds_to_run((*HERMES, "chat", "-q", "add milk to my todo list"), home)
    codes = {f"hermes {name}": _HERMES.format(arguments=name.split()) for name in _COMMANDS}
    codes |= {f"floor: {name}": code for name, code in _FLOORS.items()}
    samples: dict[str, list[tuple[float, ...]]] = {what: [] for what in codes}
    for _ in range(_REPEATS[size]):  # side by side: whatever else the machine does weighs on all of them alike
        for what, code in codes.items():
            samples[what].append(_run(code, home))
    rows: list[Row] = []
    for what, measured in samples.items():
        seconds, cpu_seconds, peaks_mb = zip(*measured, strict=True)
        is_ours = what.startswith("hermes")
        rows += [
            Row(what=what, samples=seconds, unit="s", aim=_SECONDS_AIM if is_ours else None),
            Row(what=f"{what}, of the processor", samples=cpu_seconds, unit="s"),
            Row(what=f"{what}, peak", samples=peaks_mb, unit="MB", aim=_MB_AIM if is_ours else None),
        ]
    return rows


def _run(code: str, home: Path) -> tuple[float, ...]:
    """Return the seconds that a process takes, those of the processor, and its peak of resident memory in MB."""
    began = time.perf_counter()
    done = subprocess.run(
        (sys.executable, "-c", _TELL + code),
        env=environment(home),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    assert done.returncode in (0, 1), done.stderr  # 1: `hermes status` without a gateway
    told = {words[0]: words[1] for line in done.stderr.splitlines() if len(words := line.split()) > 1}
    return seconds, float(told["CPU:"]), int(told["VmHWM:"]) / 1024
