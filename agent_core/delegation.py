"""Run delegated tasks: a few at once, each in a conversation of its own and ended when it makes no progress.

Where a task is journalled, and what it costs whom, is up to whoever performs it. Its calls are judged as if the agent
that gave the task made them: they go through the same gate, and what that agent heard counts as heard here.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from agent_core.conversation import Journal, Message, ToolCall, system
from agent_core.events import Event, Restarted, TextDelta, ToolFinished, ToolStarted, Usage
from agent_core.model import ModelError
from agent_core.prompt import Layers, build_prompt
from agent_core.result import TurnOutcome
from hermes_config.settings import DelegationSettings
from tools.approval.gate import Gate, NobodyNeedsToBeAsked, Question
from tools.base import ToolContext
from tools.content import Text
from tools.delegated import DelegatedResult, DelegatedTask, TaskStatus
from tools.provenance import HERMES

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_RULES = """\
# Task
You do one task for another agent. Nobody reads along and nobody can answer questions: decide yourself, and say what you
assumed. Your last message is all that the other agent gets. Make it a summary: what you did, what you found, the paths
of the files you wrote, and what is left to do."""
_WRITING = ("file_write", "file_patch")
_MAX_PARTIAL_CHARS = 4_000
_BROKEN = "Something went wrong inside Hermes; details are in its log."


@dataclass(slots=True, kw_only=True)
class TaskProgress:
    """The progress of a task. It takes the events of the task's turn, each of which postpones the deadline."""

    idle_seconds: float
    changed: Callable[[], None] = lambda: None
    messages: list[Message] = field(default_factory=list)  # of the task's conversation, as far as they are journalled
    tokens: int = 0
    deadline: asyncio.Timeout | None = None
    now: str = ""  # the tool that was used last
    _unfinished: list[str] = field(default_factory=list)  # text of the reply that is being written
    _asking: int = 0  # calls that wait for a human

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._unfinished.append(event.text)
            case Restarted():
                self._unfinished.clear()
            case ToolStarted():
                self._unfinished.clear()
                self.now = event.call.name
            case Usage():
                self.tokens += event.total_tokens
        if isinstance(event, ToolStarted | ToolFinished | Usage):
            self.changed()
        self._postpone()

    def wait_for_human(self, *, begins: bool) -> None:
        self._asking += 1 if begins else -1
        self._postpone()

    def _postpone(self) -> None:
        if self.deadline is not None and not self.deadline.expired():
            now = asyncio.get_running_loop().time()
            self.deadline.reschedule(None if self._asking else now + self.idle_seconds)

    def conclude(self, status: TaskStatus, problem: str = "", last: Message | None = None) -> DelegatedResult:
        """Return the result: the last answer or, without one, what the task had until then."""
        said = [message.text for message in self.messages if message.role == "assistant"]
        had = "\n".join(filter(None, [*said, "".join(self._unfinished)]))[-_MAX_PARTIAL_CHARS:]
        return DelegatedResult(
            status=status,
            summary=last.text if last is not None and last.text else had or "(It had said nothing yet.)",
            problem=problem,
            files_written=_find_written(self.messages),
            tools_used=sum(message.role == "tool" for message in self.messages),
            tokens=self.tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJournal:
    """Tells a task's progress what another journal has stored."""

    journal: Journal
    progress: TaskProgress

    async def append(self, message: Message) -> None:
        await self.journal.append(message)
        self.progress.messages.append(message)

    async def tool_started(self, call: ToolCall) -> None:
        await self.journal.tool_started(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskGate:
    """Asks where the agent asks that gave the task. The ids of a task's calls are unique only within it."""

    gate: Gate
    prefix: str
    progress: TaskProgress

    async def ask(self, question: Question, call_id: str) -> None:
        self.progress.wait_for_human(begins=True)
        try:
            await self.gate.ask(question, f"{self.prefix}/{call_id}")
        finally:
            self.progress.wait_for_human(begins=False)

    async def use(self, question: Question, call_id: str) -> None:
        await self.gate.use(question, f"{self.prefix}/{call_id}")


def make_task_context(call: ToolContext, number: int, progress: TaskProgress, *, task_id: str) -> ToolContext:
    """Return the surroundings of a task's calls, given the call that delegates it. Its shell is a copy."""
    gate, place = call.gate, call.workplace
    if not isinstance(gate, NobodyNeedsToBeAsked):
        gate = _TaskGate(gate=gate, prefix=f"{call.call_id}/{number}", progress=progress)
    if place is not None:
        place = replace(place, environment=dict(place.environment))
    return replace(call, task_id=task_id, gate=gate, workplace=place, user_wrote=None, delegate=None)


def open_task(task: DelegatedTask) -> list[Message]:
    """Return the messages with which a task's conversation begins."""
    own, *_ = build_prompt(Layers(tools=tuple(tool.name for tool in task.tools)))
    words = f"{task.goal}\n\nContext:\n{task.context}" if task.context else task.goal
    asked = Message(role="user", parts=(Text(text=words, origin=HERMES),))  # nobody's own words, nor from outside
    return [system(f"{own.text}\n\n{_RULES}"), asked]


async def run_tasks(
    perform: Callable[[int, TaskProgress], Awaitable[TurnOutcome]],
    total: int,
    call: ToolContext,
    rules: DelegationSettings,
    finish: Callable[[int, DelegatedResult, Message | None], Awaitable[None]] | None = None,
) -> list[DelegatedResult]:
    """Run the tasks of a call, numbered from 1; return their results in order. Cancelling ends all of them.

    `perform` brings a task to its last answer, or raises ModelError. `finish` stores how it ended, and the answer.
    """
    slots = asyncio.Semaphore(rules.at_once)
    done: list[int] = []
    used = [TaskProgress(idle_seconds=rules.idle_timeout_seconds) for _ in range(total)]

    async def run(number: int, progress: TaskProgress) -> DelegatedResult:
        def changed() -> None:
            doing = f" · task {number}: {progress.now}" if progress.now else ""
            call.report(f"{len(done)} of {total} done · {sum(one.tokens for one in used):,} tokens{doing}")

        progress.changed = changed
        async with slots:
            result, last = await _conclude(perform(number, progress), progress, rules)
            if finish is not None:
                await finish(number, result, last)
        done.append(number)
        changed()
        return result

    async with asyncio.TaskGroup() as group:
        jobs = [group.create_task(run(number, progress)) for number, progress in enumerate(used, 1)]
    return [job.result() for job in jobs]


async def _conclude(
    task: Awaitable[TurnOutcome], progress: TaskProgress, rules: DelegationSettings
) -> tuple[DelegatedResult, Message | None]:
    """Return how a task ended, and its last answer if there is one."""
    try:
        async with asyncio.timeout(rules.idle_timeout_seconds) as progress.deadline:
            outcome = await task
        if outcome.finished_naturally:
            return progress.conclude("completed", "", outcome.final), outcome.final
        spent = f"It used up its {rules.max_iterations} steps."
        return progress.conclude("partial", spent, outcome.final), outcome.final
    except TimeoutError:
        if progress.deadline is None or not progress.deadline.expired():
            raise
        why = (
            f"It made no progress for {rules.idle_timeout_seconds:g} seconds and was ended; the summary is what it had."
        )
        return progress.conclude("partial", why), None
    except ModelError as error:
        has_begun = any(message.role == "assistant" for message in progress.messages)
        return progress.conclude("partial" if has_begun else "failed", str(error)), None
    except Exception:  # contained: inside the TaskGroup one failed task would cancel the others
        log.exception("delegated task failed")
        return progress.conclude("failed", _BROKEN), None


def _find_written(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the files that calls of the file tools wrote to."""
    worked = {message.tool_call_id for message in messages if message.role == "tool" and not message.is_error}
    written: dict[str, None] = {}
    for call in (call for message in messages for call in message.tool_calls):
        if call.name in _WRITING and call.id in worked:
            try:
                written[str(json.loads(call.arguments)["path"])] = None
            except (ValueError, KeyError, TypeError):
                continue
    return tuple(written)
