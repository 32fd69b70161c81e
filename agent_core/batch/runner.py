"""Run a batch: from tasks to rows on disk, on processes of this machine or on Ray. From Python: `BatchRunner`."""

import asyncio
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from agent_core.batch.process_worker import ProcessLink
from agent_core.batch.run_folder import RunFolder
from agent_core.batch.tasks import BatchTask, Key, make_tasks
from agent_core.batch.worker import BatchOptions, WorkerLost, begin_row
from agent_core.trajectory import InputRefused, Row, append, dump
from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import Settings
from tools.backends.base import BackendFailed
from tools.backends.remote.places import REMOTE, check_backend
from tools.distributions import find_distribution
from tools.loading import load_builtin
from tools.task_workplace import NOT_APART, end_tasks
from tools.toolsets import check_names
from tools.workplaces import sandbox_problem

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_LOSSES = 4  # of one task, before it counts as the reason
MAX_FAILED_STARTS = 8  # workers in a row that ended before their first outcome
_METRICS = (
    *("completed", "partial", "error", "api_calls", "attempts", "input_tokens", "output_tokens", "cost_micros"),
    *("seconds", "model", "provider", "toolsets", "tool_stats"),
)


class WorkerLink(Protocol):
    """The connection to a worker: a process here, or an actor on some machine."""

    async def run(self, task: BatchTask) -> Row:
        """Return the outcome; raises WorkerLost."""

    async def close(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class BatchProgress:
    """Counts of a run. Money and tokens include earlier processes of it, calls and time do not."""

    total: int
    done_before: int = 0
    done: int = 0  # by this process
    failed: int = 0
    api_calls: int = 0
    tokens: int = 0
    cost_micros: int = 0
    is_over_budget: bool = False
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> int:
        return self.total - self.done_before - self.done

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def calls_per_second(self) -> float:
        return self.api_calls / max(self.seconds, 0.001)

    def spend(self, row: Row) -> None:
        self.tokens += row["input_tokens"] + row["output_tokens"]
        self.cost_micros += row["cost_micros"]

    def add(self, row: Row) -> None:
        self.spend(row)
        self.done += 1
        self.failed += bool(row["error"])
        self.api_calls += row["api_calls"]


Show = Callable[[BatchProgress], None]


def check_options(settings: Settings, options: BatchOptions) -> None:
    """Raise ToolsetError for an unknown toolset or distribution, InputRefused when commands could not run."""
    check_names(options.toolsets, load_builtin())
    if not options.toolsets:
        find_distribution(options.distribution)
    terminal = settings.terminal
    if terminal.backend == "sandbox" and (problem := sandbox_problem()):
        raise InputRefused(f"{problem} Fix that, or let commands run on this machine: TERMINAL_ENV=local")
    if terminal.backend == "ssh":
        raise InputRefused(f"{NOT_APART} Choose another place for them: TERMINAL_ENV=sandbox")
    if terminal.backend in REMOTE:
        try:
            asyncio.run(check_backend(terminal, terminal.backend, Home.locate()))
        except BackendFailed as error:
            raise InputRefused(f"{error} `hermes doctor` says what to do.") from error


def run_batch(
    tasks: Sequence[BatchTask], folder: RunFolder, settings: Settings, options: BatchOptions, *, show: Show
) -> tuple[BatchProgress, dict[str, Any]]:
    """Run what is left of the tasks; return the progress and the statistics of the whole run.

    Rows are on disk before they are shown as done. Stopped by an exception, Ctrl-C too, it combines what there is.
    """
    home = Home.locate()
    with folder.lock():
        asyncio.run(end_tasks(folder.work, settings.terminal, home=home))  # of a process that was killed
        progress, done = BatchProgress(total=len(tasks)), set[Key]()
        for key, row in folder.read():
            progress.spend(row)
            if not row["error"]:
                done.add(key)
        left = deque(task for task in tasks if task.key not in done)
        progress.done_before = len(tasks) - len(left)
        try:
            if left:
                run = _Run(left, folder, options, settings.model.name, progress, show)
                if run.is_over_budget():
                    raise InputRefused(
                        "The run has spent its budget already. Raise --max-cost or --max-total-tokens to continue."
                    )
                with _open_engine(settings, options, folder.work) as open_worker:
                    asyncio.run(run.run(open_worker))
        finally:
            asyncio.run(end_tasks(folder.work, settings.terminal, home=home))
            statistics = folder.combine()
    return progress, statistics


def _open_engine(
    settings: Settings, options: BatchOptions, work: Path
) -> AbstractContextManager[Callable[[], WorkerLink]]:
    if options.engine == "ray":
        from agent_core.batch.ray_engine import ray_workers

        return ray_workers(settings, options)
    return nullcontext(partial(ProcessLink, settings, options, work))


@dataclass
class _Run:
    """Keeps workers busy: each has so many tasks at once; one that is lost is replaced, and its tasks run again."""

    left: deque[BatchTask]
    folder: RunFolder
    options: BatchOptions
    model: str
    progress: BatchProgress
    show: Show
    _losses: Counter[Key] = field(default_factory=Counter)
    _failed_starts: int = 0
    _outcomes: asyncio.Queue[tuple[BatchTask, Row] | None] = field(default_factory=asyncio.Queue)

    def is_over_budget(self) -> bool:
        most_micros, most_tokens = self.options.max_cost_usd * 1_000_000, self.options.max_tokens
        return 0 < most_micros <= self.progress.cost_micros or 0 < most_tokens <= self.progress.tokens

    async def run(self, open_worker: Callable[[], WorkerLink]) -> None:
        """Return when no task is left, or the budget is spent."""
        storing = asyncio.create_task(self._store())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.options.workers, len(self.left))):
                    group.create_task(self._keep_worker(open_worker))
        finally:
            self._outcomes.put_nowait(None)
            await storing

    async def _keep_worker(self, open_worker: Callable[[], WorkerLink]) -> None:
        while self.left:
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise RuntimeError("Workers end as soon as they start.")
            link = open_worker()
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self.options.batch_size, len(self.left))):
                        group.create_task(self._work(link))
            except* WorkerLost as lost:
                self._failed_starts += 1
                log.warning("batch worker lost", problem=str(lost.exceptions[0]), waiting=len(self.left))
            finally:
                await link.close()

    async def _work(self, link: WorkerLink) -> None:
        while self.left:
            task = self.left.popleft()
            try:
                row = await link.run(task)
            except BaseException:  # also when a neighbour found out first
                self._losses[task.key] += 1
                if self._losses[task.key] < MAX_LOSSES:
                    self.left.appendleft(task)
                else:
                    row = begin_row(task, self.model, Redactor()) | {"error": "Its worker died each time."}
                    self._outcomes.put_nowait((task, row))
                raise
            self._outcomes.put_nowait((task, row))
            self._failed_starts = 0

    async def _store(self) -> None:
        """Write what has come meanwhile with one sync for each file."""
        is_open = True
        while is_open:
            outcomes = [await self._outcomes.get()]
            while not self._outcomes.empty():
                outcomes.append(self._outcomes.get_nowait())
            is_open = None not in outcomes
            finished = [outcome for outcome in outcomes if outcome is not None]
            await asyncio.to_thread(self.folder.append, finished)
            for _, row in finished:
                self.progress.add(row)
            if self.left and self.is_over_budget():
                self.progress.is_over_budget = True
                self.left.clear()
            self.show(self.progress)


class BatchRunner:
    """Runs lists of tasks on worker processes, or on Ray. Model and keys are those of the settings unless named."""

    def __init__(
        self,
        *,
        num_workers: int = 4,
        model: str = "",
        base_url: str = "",
        show: Show = lambda progress: None,
        **options: Any,
    ) -> None:
        """`options` are those of BatchOptions, such as `toolsets`, `distribution`, `seed` and `engine`."""
        self._options = BatchOptions(workers=num_workers, **options)
        self._flags = {"model.name": model or None, "model.base_url": base_url or None}
        self._show = show

    def run_tasks(self, tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Run tasks with `prompt` and perhaps `id` and `expected_output`; return for each, in order, `task_id`,
        `trajectory` (turns), `success` and `metrics`.

        A task succeeds when it ends with an answer that contains `expected_output`. Raises InputRefused, ToolsetError.
        """
        wanted, settings = make_tasks(tasks), load(Home.locate(), self._flags).settings
        check_options(settings, self._options)
        with tempfile.TemporaryDirectory(prefix="hermes-batch-") as parent:
            folder = RunFolder.open(Path(parent), "run", batch_size=self._options.batch_size, resume=False, facts={})
            run_batch(wanted, folder, settings, self._options, show=self._show)
            rows: dict[Key, Row] = dict(folder.read())
        return [
            {
                "task_id": row["task_id"],
                "trajectory": row["conversations"],
                "success": row["success"],
                "metrics": {name: row[name] for name in _METRICS},
            }
            for row in (rows[task.key] for task in wanted)
        ]

    def save_results(self, results: Iterable[Mapping[str, Any]], path: str | Path) -> None:
        """Write results as JSONL. Raises InputRefused when the file exists."""
        if Path(path).exists():
            raise InputRefused(f"{path} exists already. Name another file.")
        append(Path(path), map(dump, results))
