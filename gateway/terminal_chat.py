"""A conversation at the terminal, in this process: same store and loop, but no delivery.

It has a session of its own. Its messages have inbox rows only for the trail: no gateway picks them up.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_core.conversation import Message, system
from agent_core.events import Emit, ignore
from agent_core.history import open_calls, stopped_by_user
from agent_core.model import Model, ModelError
from agent_core.turn import run_turn
from gateway.clock import new_id
from gateway.commands.registry import CommandCall, Commands, parse
from gateway.errors import CommandRefused
from gateway.messages import SessionKey
from gateway.policies.budgets import Budgets
from gateway.processes.terminal import LocalProcesses
from gateway.stopwatch import Stopwatch
from gateway.store import sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.processes import AT_TERMINAL
from gateway.store.sessions import title_of
from gateway.store.turns import Outcome, Turn
from gateway.turns.journal import StoreJournal, record_model_reply
from gateway.turns.metering import meter_terminal
from gateway.turns.prompts import Prompts
from tools.approval.gate import Gate, NobodyToAsk
from tools.backends.base import ProcessBackends, Workplace
from tools.base import Tool, ToolContext
from tools.content import Text
from tools.provenance import STDIN


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChat:
    db: Database
    model: Model
    tools: Sequence[Tool]
    commands: Commands
    max_iterations: int
    history_messages: int
    key: SessionKey
    prompts: Prompts
    workplace: Workplace
    backends: ProcessBackends
    gate: Callable[[SessionKey, str], Gate] = lambda key, session_id: NobodyToAsk()  # asked before a call does harm
    timezone: str = ""
    budgets: Budgets = field(default_factory=Budgets)
    max_tool_result_chars: int = 100_000
    _process_reports: list[Text] = field(default_factory=list, init=False)  # for the agent, with its next message

    async def say(self, text: str, emit: Emit = ignore, *, piped: str = "") -> str:
        """Return the answer to a message or a command; raises ModelError and CommandRefused.

        `piped` comes along with a message: text to be read, which is not the user's own words.
        """
        self._process_reports.extend(await LocalProcesses(self.db, self.backends).report_ends())
        if command := parse(text):
            return await self._run_command(*command)
        reports = tuple(self._process_reports)
        self._process_reports.clear()
        attached = (Text(text=f"Standard input:\n{piped}", origin=STDIN),) if piped else ()
        return await self._answer(
            Message(role="user", parts=(*reports, Text(text=text), *attached)), title_of(text), emit
        )

    async def _run_command(self, name: str, arguments: str) -> str:
        call = CommandCall(
            key=self.key,
            name=name,
            arguments=arguments,
            place="cli",
            model=self.model.name,
            processes_of=AT_TERMINAL,
        )
        reply = await self.db.write(lambda tx: self.commands.run(tx, call))
        if reply.refused:
            raise CommandRefused(reply.text)
        return "\n".join([reply.text, *await LocalProcesses(self.db, self.backends).end_requested()])

    async def _answer(self, message: Message, title: str, emit: Emit) -> str:
        def begin(tx: Transaction) -> tuple[Turn, list[Message]]:
            session = sessions.open_current(tx, self.key)
            turn = turns.begin_at_terminal(tx, self.key, session.id)
            transcripts.append(tx, session.id, message, turn_id=turn.id)
            sessions.set_title(tx, session.id, title)
            return turn, transcripts.recent(tx, session.id, limit=self.history_messages)

        turn, history = await self.db.write(begin)
        session_id = turn.session_id
        warnings: list[str] = []
        model = meter_terminal(self.model, self.db, self.budgets, session_id, warnings.append)
        stopwatch = Stopwatch(emit)

        def end(tx: Transaction, outcome: Outcome, problem: str | None = None) -> None:
            model.settle(tx)  # a failed or stopped turn costs, too
            turns.finish(tx, turn.id, turn.messages, outcome, problem=problem)

        try:
            fixed = await self.db.read(lambda tx: sessions.prompt(tx, session_id))
            if fixed is None:
                fixed = await self.prompts.fix(session_id, self.key.account_name, self.tools)
            outcome = await run_turn(
                model=model,
                tools=self.tools,
                messages=[system(fixed), *history],
                journal=StoreJournal(db=self.db, turn=turn, stopwatch=stopwatch, settle=model.settle),
                context=ToolContext(
                    task_id=session_id,
                    timezone=self.timezone,
                    workplace=self.workplace,
                    gate=self.gate(self.key, session_id),
                ),
                emit=stopwatch,
                max_iterations=self.max_iterations,
                max_result_chars=self.max_tool_result_chars,
            )
        except asyncio.CancelledError:
            await self.db.write(lambda tx: self._settle_calls(tx, session_id))
            await self.db.write(lambda tx: end(tx, "stopped"))
            raise
        except ModelError as error:
            problem = type(error).__name__
            await self.db.write(lambda tx: end(tx, "failed", problem))
            raise
        except BaseException:
            await self.db.write(lambda tx: end(tx, "failed"))
            raise

        last_call = stopwatch.model_replied()

        def answer(tx: Transaction) -> None:
            transcripts.append(tx, session_id, outcome.final, turn_id=turn.id)
            record_model_reply(tx, turn, last_call)
            end(tx, "answered")

        await self.db.write(answer)
        return "\n\n".join([outcome.final.text, *(f"({warning})" for warning in warnings)])

    def _settle_calls(self, tx: Transaction, session_id: str) -> None:
        """Tell the model that open calls were stopped on purpose, not cut off."""
        entries = transcripts.entries(tx, session_id, limit=self.history_messages)
        for call in open_calls([entry.message for entry in entries]):
            transcripts.append(tx, session_id, stopped_by_user(call))


def new_key() -> SessionKey:
    return SessionKey(platform="cli", chat=new_id()[:8])
