"""Delegated tasks as sessions of their own, journalled like any turn.

They run inside the call that waits for them, so they need no slot of their own, and whatever ends the turn ends them.
After a crash the call is run again: it finds its tasks by its id, and each goes on from its last committed step.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace

import structlog

from agent_core.compactor import Asking
from agent_core.conversation import Message, assistant
from agent_core.delegation import (
    TaskJournal,
    TaskProgress,
    make_task_context,
    open_task,
    run_tasks,
)
from agent_core.history import open_calls, stopped_by_user
from agent_core.model import Model
from agent_core.result import TurnOutcome
from agent_core.turn import run_turn
from gateway.stopwatch import Stopwatch
from gateway.store import compactions, delegations, transcripts, turns
from gateway.store.compactions import History
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.delegations import Delegation
from gateway.store.inbox import Outcome
from gateway.store.sessions import title_of
from gateway.store.turns import Turn
from gateway.turns.journal import StoreJournal, record_model_reply
from hermes_config.settings import DelegationSettings
from tools.backends.base import Workplace
from tools.base import ToolContext
from tools.delegated import DelegatedResult, DelegatedTask

_OUTCOMES = {"completed": Outcome.ANSWERED, "partial": Outcome.GIVEN_UP, "failed": Outcome.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """The model and the workplace of a task's turn."""

    model: Model
    workplace: Workplace | None = None
    asking: Asking | None = None


Equip = Callable[[Turn, History], Awaitable[Equipment]]
"""Returns the equipment of a task, given its turn and what it has done so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegating:
    """Implements `tools.delegated.Delegate` for the calls of one turn."""

    db: Database
    turn: Turn
    equip: Equip
    settle: Callable[[Transaction], None]  # records what the model calls of the turn and its tasks used
    rules: DelegationSettings
    tool_slots: asyncio.Semaphore | None = None
    max_tool_runs: int = 8
    max_result_chars: int = 100_000

    async def __call__(self, tasks: Sequence[DelegatedTask], call: ToolContext) -> list[DelegatedResult]:
        def unit(tx: Transaction) -> list[Delegation]:
            known = delegations.find(tx, self.turn.id, call.call_id)
            titles = [title_of(task.goal) for task in tasks]
            return known or delegations.begin(tx, turns.reload(tx, self.turn), call.call_id, titles)

        found = await self.db.write_when_possible(unit)
        at_work = [
            _StoredTask(of=self, row=row, task=tasks[row.position - 1], call=call) for row in found if not row.result
        ]
        results = await run_tasks(
            lambda number, progress: at_work[number - 1].run(progress),
            len(at_work),
            call,
            self.rules,
            lambda number, result, last: at_work[number - 1].finish(result, last),
        )
        ended = {task.row.position: result for task, result in zip(at_work, results, strict=True)}
        return [ended.get(row.position) or _load_result(row.result) for row in found]


@dataclass(slots=True, kw_only=True)
class _StoredTask:
    """A task at work."""

    of: Delegating
    row: Delegation
    task: DelegatedTask
    call: ToolContext
    _record: Callable[[Transaction], None] = lambda tx: None  # the model call that brought the answer

    async def run(self, progress: TaskProgress) -> TurnOutcome:
        of, prompt = self.of, open_task(self.task)

        def unit(tx: Transaction) -> tuple[Turn, History, frozenset[str], int]:
            turn = delegations.read_turn(tx, of.turn, self.row)
            if not transcripts.turn(tx, turn.session_id, turn.id):
                transcripts.append(tx, turn.session_id, prompt[1], turn_id=turn.id)
            history = compactions.read_history(tx, turn.session_id, turn_id=turn.id)
            used = tx.count("SELECT total_tokens FROM sessions WHERE id = ?", turn.session_id)
            return turn, history, transcripts.started_calls(tx, turn.id), used

        turn, history, started, progress.tokens = await of.db.write_when_possible(unit)
        progress.messages = list(history.messages)
        equipment = await of.equip(turn, history)
        context = make_task_context(self.call, self.row.position, progress, task_id=turn.session_id)
        stopwatch = Stopwatch(progress)
        journal = StoreJournal(db=of.db, turn=turn, stopwatch=stopwatch, settle=of.settle)
        with structlog.contextvars.bound_contextvars(session=turn.session_id, turn=turn.id):
            outcome = await run_turn(
                model=equipment.model,
                tools=self.task.tools,
                messages=[prompt[0], *history.messages],
                journal=TaskJournal(journal=journal, progress=progress),
                context=replace(context, workplace=equipment.workplace or context.workplace),
                emit=stopwatch,
                max_iterations=of.rules.max_iterations,
                max_result_chars=of.max_result_chars,
                started=started,
                tool_slots=of.tool_slots,
                max_tool_runs=of.max_tool_runs,
                asking=equipment.asking,
            )
        last_call = stopwatch.model_replied()
        self._record = lambda tx: record_model_reply(tx, turn, last_call)
        return outcome

    async def finish(self, result: DelegatedResult, last: Message | None) -> None:
        def unit(tx: Transaction) -> None:
            turn_id, session_id = self.row.turn_id, self.row.session_id
            for call in open_calls(transcripts.turn(tx, session_id, turn_id)):
                transcripts.append(tx, session_id, stopped_by_user(call), turn_id=turn_id)
            transcripts.append(tx, session_id, last or assistant(result.problem), turn_id=turn_id)
            if last is not None:
                self._record(tx)
            self.of.settle(tx)
            stored = json.dumps(asdict(result), ensure_ascii=False)
            delegations.finish(tx, self.of.turn.id, turn_id, _OUTCOMES[result.status], stored)

        await self.of.db.write_when_possible(unit)


def _load_result(stored: str) -> DelegatedResult:
    found = json.loads(stored)
    if not found:  # ended with an earlier run of the turn
        return DelegatedResult(status="failed", summary="", problem="It was stopped.")
    return DelegatedResult(**found | {"files_written": tuple(found["files_written"])})
