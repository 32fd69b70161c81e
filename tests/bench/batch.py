"""Batches: model calls a second against what so many at once allow, memory, and what kill -9 costs."""

import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from tests.agent_core.batch.running import children
from tests.bench.batch_model import CALLS_PER_PROMPT, LATENCY_SECONDS
from tests.bench.relay_model import KEY
from tests.bench.rows import Row, Size
from tests.bench.scratch import HERMES, ROOT, environment, running

_PROMPTS: dict[Size, int] = {"full": 1_000, "quick": 300, "tiny": 10}
_WORKERS, _AT_ONCE = 2, 10
_BOUND = _WORKERS * _AT_ONCE / LATENCY_SECONDS
_LOOK_SECONDS = 0.2
_WAIT_SECONDS = 600.0


class _Batch:
    """One run against a model of its own."""

    def __init__(self, folder: Path, prompts: int, url: str, *more: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.prompts = prompts
        self.memory_mb: list[tuple[float, float]] = []  # done, resident
        self._url = url
        self._more = more
        lines = (json.dumps({"id": str(number), "prompt": f"prompt {number}"}) for number in range(prompts))
        (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")

    def start(self, *more: str) -> "subprocess.Popen[bytes]":
        model = {"HERMES_MODEL": "bench", "OPENAI_BASE_URL": f"{self._url}/v1", "OPENAI_API_KEY": KEY}
        sizes = (f"--num-workers={_WORKERS}", f"--batch-size={_AT_ONCE}", "--toolsets=file,todo")
        run = ("batch", "--dataset-file=prompts.jsonl", "--run-name=r")
        # On Ray with the guard of the tests: it would ask the metadata address of cloud providers.
        guard = f":{ROOT / 'tests' / 'guard'}" if self._more else ""
        paths = {"PYTHONPATH": f"{ROOT}{guard}"}
        return subprocess.Popen(
            [*HERMES, *run, *sizes, *self._more, *more],
            cwd=self.folder,
            env=environment(self.folder / "home") | model | paths,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def measure(self) -> dict[str, float]:
        with urlopen(f"{self._url}/measure") as answer:  # our own server
            told: dict[str, float] = json.load(answer)
        return told

    def wait(self, process: "subprocess.Popen[bytes]", until: Callable[[float], bool] = lambda calls: False) -> bool:
        """Return True when the process has ended, False when so many calls were made."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_SECONDS)
                assert process.returncode == 0, process.returncode
                return True
            calls = self.measure()["calls"]
            self.memory_mb.append((calls, _resident_mb(process.pid)))
            if until(calls):
                return False
        raise AssertionError("the batch did not end")

    def count_prompts(self) -> int:
        """Return how many prompts are in the combined file, each exactly once."""
        lines = (self.folder / "data" / "r" / "trajectories.jsonl").read_text().splitlines()
        counts = Counter(json.loads(line)["task_id"] for line in lines)
        assert set(counts) == {str(number) for number in range(self.prompts)}
        assert set(counts.values()) == {1}
        return len(counts)


def measure(size: Size, folder: Path) -> list[Row]:
    prompts = _PROMPTS[size]
    rows = [*_steady(folder / "steady", prompts), *_killed(folder / "killed", prompts)]
    if importlib.util.find_spec("ray") and size != "tiny":
        rows += _on_ray(folder / "ray", prompts)
    return rows


def _steady(folder: Path, prompts: int) -> Iterator[Row]:
    with _model(folder.parent) as url:
        batch = _Batch(folder, prompts, url)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        batch.wait(batch.start())
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        told = batch.measure()
        assert told["calls"] == prompts * CALLS_PER_PROMPT
        batch.count_prompts()
    yield from _rates("batch, model calls", told["rate"])
    cpu = (spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime) * 1000 / told["calls"]
    yield Row(what="batch, processor time for a model call, all processes", samples=[cpu], unit="CPU-ms")
    early, late = (_median_memory(batch.memory_mb, share, told["calls"]) for share in (0.3, 0.9))
    floor = Row(what="floor: resident at 30 % of the calls", samples=[early], unit="MB")
    yield Row(what="batch, resident at 90 % of the calls, all processes", samples=[late], unit="MB", floor=floor)


def _killed(folder: Path, prompts: int) -> Iterator[Row]:
    with _model(folder.parent) as url:
        batch = _Batch(folder, prompts, url)
        process = batch.start()
        kills = 0
        for quarter in (1, 2, 3):
            target = prompts * CALLS_PER_PROMPT * quarter / 4
            if batch.wait(process, lambda calls, target=target: calls >= target):  # type: ignore[misc]
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            process = batch.start("--resume")
        batch.wait(process)
        again = batch.measure()["calls"] - prompts * CALLS_PER_PROMPT
        once = batch.count_prompts()
    yield Row(what=f"batch, prompts exactly once after {kills} kill -9", samples=[once], unit="prompts")
    yield Row(what=f"batch, model calls made again after {kills} kill -9", samples=[max(again, 0.001)], unit="calls")


def _on_ray(folder: Path, prompts: int) -> Iterator[Row]:
    with _model(folder.parent) as url:
        batch = _Batch(folder, prompts, url, "--engine=ray")
        process = batch.start()
        batch.wait(process, lambda calls: calls >= prompts * CALLS_PER_PROMPT / 2)
        os.kill(children(process.pid, b"ray::BatchWorker")[0], signal.SIGKILL)
        batch.wait(process)
        told, once = batch.measure(), batch.count_prompts()
    yield from _rates("batch on Ray, one worker killed, model calls", told["rate"])
    yield Row(what="batch on Ray, prompts exactly once after a worker was killed", samples=[once], unit="prompts")


def _rates(what: str, rate: float) -> Iterator[Row]:
    floor = Row(what="bound: calls at once by latency", samples=[_BOUND], unit="calls/s")
    yield Row(what=what, samples=[max(rate, 0.001)], unit="calls/s", aim=0.8 * _BOUND, floor=floor)
    yield floor


@contextmanager
def _model(folder: Path) -> Iterator[str]:
    """Serve a model until the end of the block; give its address."""
    with running((sys.executable, "-m", "tests.bench.batch_model"), environment(folder)) as (_, lines):
        yield next(lines).strip()


def _median_memory(samples: Sequence[tuple[float, float]], share: float, calls: float) -> float:
    near = sorted(samples, key=lambda sample: abs(sample[0] - share * calls))[:3] or [(0.0, 0.001)]
    return sorted(resident for _, resident in near)[len(near) // 2]


def _resident_mb(pid: int) -> float:
    total = 0
    for one in (pid, *children(pid, b"process_worker")):
        with suppress(OSError, StopIteration):  # it has ended
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return max(total * 1024 / 1e6, 0.001)
