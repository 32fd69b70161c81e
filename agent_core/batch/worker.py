"""Run the tasks of a batch: many at once in one event loop, over one model, each in a workplace of its own."""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import structlog

from agent_core.agent import AIAgent
from agent_core.batch.tasks import BatchTask
from agent_core.events import Event, Usage
from agent_core.model import ModelError, NoEndpoint, ProviderError
from agent_core.models.factory import ModelOptions, open_model
from agent_core.models.providers import choose
from agent_core.result import final_text
from agent_core.services import open_services
from agent_core.trajectory import Row, make_row
from hermes_config.accounts import account_tokens
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import Settings
from tools.distributions import find_distribution
from tools.errors import ToolFailed
from tools.task_workplace import end_tasks, task_workplace

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_FIRST_WAIT_SECONDS = 2.0  # before a task is tried again; doubles each time


class WorkerLost(Exception):
    """A worker has ended by itself; what it was working on must be run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How tasks are run and spread out, and what they may spend.

    With `toolsets` every task is offered these, else a sample of the distribution.
    """

    distribution: str = "default"
    toolsets: Sequence[str] = ()
    seed: int = 0
    max_iterations: int = 60
    timeout_seconds: float = 1_800  # for a task, with all its calls and tools
    attempts: int = 3  # of a task whose model could not be reached
    workers: int = 4
    batch_size: int = 20  # tasks that a worker has at once, and rows of a batch file
    engine: Literal["processes", "ray"] = "processes"
    address: str = ""  # of a Ray cluster; empty: one on this machine
    max_cost_usd: float = 0.0  # 0: no limit
    max_tokens: int = 0


class BatchWorker:
    """Runs tasks, each in a place of its own below the folder; without one, below a temporary folder."""

    def __init__(self, settings: Settings, options: BatchOptions, folder: Path | None = None) -> None:
        self._settings, self._options = settings, options
        self._is_own_folder = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="hermes-batch-"))
        chosen, keys = settings.model, settings.secrets.by_variable()
        browser = settings.browser.model_copy(update={"max_browsers": options.batch_size})  # one for each task
        self._services = open_services(
            lambda: settings.model_copy(update={"browser": browser}),
            options.toolsets or find_distribution(options.distribution).chances,
        )
        self._model = open_model(
            chosen.name,
            base_url=chosen.base_url,
            keys=keys,
            fallbacks=chosen.fallbacks,
            options=ModelOptions.of(chosen, load_media=self._services.load_media),
        )
        self._provider = "demo" if chosen.name == "demo" else ""
        with suppress(NoEndpoint):  # told by the first question
            self._provider = self._provider or choose(chosen.name, chosen.base_url, keys).provider
        self._redactor = Redactor((*keys.values(), *account_tokens(settings).values()))
        self._home = Home.locate()

    async def aclose(self) -> None:
        """Close the model's connections, and end what runs in a folder of its own."""
        await self._services.aclose()
        if close := getattr(self._model, "aclose", None):
            await close()
        if self._is_own_folder:
            await end_tasks(self._folder, self._settings.terminal, home=self._home)

    async def run(self, task: BatchTask) -> Row:
        """Run a task to its end, however it ends; never raises but when it is cancelled."""
        options, began = self._options, time.monotonic()
        row = begin_row(task, self._model.name, self._redactor)
        row["provider"] = self._provider
        row["toolsets"] = list(options.toolsets) or list(
            find_distribution(options.distribution).sample(":".join(map(str, task.key)), seed=options.seed)
        )
        while True:
            row |= {"attempts": row["attempts"] + 1, "success": False}
            error = await self._try(task, row)
            may_help = isinstance(error, ProviderError) and error.retryable
            if not may_help or row["attempts"] >= options.attempts:
                break
            wait = _FIRST_WAIT_SECONDS * 2.0 ** (row["attempts"] - 1)
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))  # noqa: S311 - spreads retries, guards nothing
        has_spoken = any(turn["from"] == "gpt" for turn in row["conversations"])
        return row | {
            "partial": has_spoken and not row["completed"],
            "error": self._redactor.clean(str(error) or type(error).__name__) if error else "",
            "seconds": round(time.monotonic() - began, 3),
        }

    async def _try(self, task: BatchTask, row: Row) -> Exception | None:
        """Run a task once, and note in its row how far it came; return why it did not come to an end."""
        options, settings = self._options, self._settings
        digest, sample = task.key
        folder = self._folder / f"{digest[:16]}-{sample}"
        try:
            async with task_workplace(settings.terminal, folder, home=self._home) as place:
                agent = AIAgent(
                    self._model,
                    enabled_toolsets=row["toolsets"],
                    max_iterations=options.max_iterations,
                    context_tokens=settings.model.context_tokens,
                    on_event=partial(_count, row),
                    workplace=place,
                    services=self._services,
                )
                try:
                    async with asyncio.timeout(options.timeout_seconds):
                        result = await agent.run(task.prompt, task_id=folder.name)
                finally:
                    row |= agent.trajectory_row(self._redactor) | {"model": row["model"]}
                answer = final_text(result.messages)
                row["success"] = result.finished_naturally and contains_expected(answer, task.expected_output)
        except TimeoutError:
            return TimeoutError(f"It took longer than {options.timeout_seconds:g} seconds.")
        except (ModelError, ToolFailed) as error:
            return error
        except Exception as error:  # contained: one broken task must not end the others
            log.exception("batch task broke", task=task.id)
            return error
        return None


def _count(row: Row, event: Event) -> None:
    if isinstance(event, Usage):
        row["model"] = event.model or row["model"]
        row["api_calls"] += 1
        row["input_tokens"] += event.input_tokens
        row["output_tokens"] += event.output_tokens
        row["cost_micros"] += event.cost_micros or 0


def begin_row(task: BatchTask, model: str, redactor: Redactor) -> Row:
    """Return the row of a task that has not been tried."""
    asked = [{"from": "human", "value": redactor.clean(task.prompt)}]
    digest, sample = task.key
    return make_row(asked, (), model=model, completed=False) | {
        "provider": "",
        "task_id": task.id,
        "prompt_sha256": digest,  # not the prompt itself, which may hold a secret
        "sample": sample,
        "expected_output": redactor.clean(task.expected_output),
        "toolsets": [],
        "success": False,
        "partial": False,
        "error": "",
        "seconds": 0.0,
        **dict.fromkeys(("attempts", "api_calls", "input_tokens", "output_tokens", "cost_micros"), 0),
    }


def contains_expected(answer: str, expected: str) -> bool:
    """Return whether an answer has the expected text in it, whatever its case and spaces; none is always in it."""
    squeezed, wanted = (" ".join(text.split()).casefold() for text in (answer, expected))
    return wanted in squeezed
