"""A conversation in this process, for the terminal: same store, same loop, but nobody to deliver to.

It has a session of its own and does not go through the inbox: whoever sits at the terminal sees for
themselves when it ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_core.conversation import Message, ToolCall, system
from agent_core.events import Emit, ignore
from agent_core.history import open_calls, stopped_by_user
from agent_core.model import Model
from agent_core.turn import run_turn
from gateway.budgets import Budgets
from gateway.clock import new_id
from gateway.commands.registry import CommandCall, Commands, parse
from gateway.local_processes import LocalProcesses
from gateway.messages import SessionKey
from gateway.metering import at_the_terminal
from gateway.prompts import Prompts
from gateway.store import sessions, transcripts
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.processes import AT_TERMINAL
from gateway.titles import title_of
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext
from tools.gate import Gate, NobodyToAsk
from tools.parts import Text


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
    gate: Callable[[SessionKey, str], Gate] = lambda key, session_id: NobodyToAsk()  # asked before a call does harm
    timezone: str = ""
    budgets: Budgets = field(default_factory=Budgets)
    max_tool_result_chars: int = 100_000
    _news: list[Text] = field(default_factory=list, init=False)  # for the agent, with the next message

    async def say(self, text: str, emit: Emit = ignore) -> str:
        """The answer to a message or a command; raises ModelError."""
        self._news.extend(await LocalProcesses(self.db).ends())
        if command := parse(text):
            return await self._obey(*command)
        news = tuple(self._news)
        self._news.clear()
        return await self._answer(Message(role="user", parts=(*news, Text(text=text))), title_of(text), emit)

    async def _obey(self, name: str, arguments: str) -> str:
        call = CommandCall(
            key=self.key,
            name=name,
            arguments=arguments,
            place="cli",
            model=self.model.name,
            processes_of=AT_TERMINAL,
        )
        reply = await self.db.write(lambda tx: self.commands.run(tx, call))
        return "\n".join([reply.text, *await LocalProcesses(self.db).end_those_asked_for()])

    async def _answer(self, message: Message, title: str, emit: Emit) -> str:
        def begin(tx: Transaction) -> tuple[str, list[Message]]:
            session = sessions.open_current(tx, self.key)
            transcripts.append(tx, session.id, message)
            sessions.set_title(tx, session.id, title)
            return session.id, transcripts.recent(tx, session.id, limit=self.history_messages)

        session_id, history = await self.db.write(begin)
        fixed = await self.db.read(lambda tx: sessions.prompt(tx, session_id))
        prompt = fixed if fixed is not None else await self.prompts.fix(session_id, self.key.account_name, self.tools)
        warnings: list[str] = []
        model = at_the_terminal(self.model, self.db, self.budgets, session_id, warnings.append)
        try:
            outcome = await run_turn(
                model=model,
                tools=self.tools,
                messages=[system(prompt), *history],
                journal=_Journal(self.db, session_id),
                context=ToolContext(
                    task_id=session_id,
                    timezone=self.timezone,
                    workplace=self.workplace,
                    gate=self.gate(self.key, session_id),
                ),
                emit=emit,
                max_iterations=self.max_iterations,
                max_result_chars=self.max_tool_result_chars,
            )
        except asyncio.CancelledError:
            await self.db.write(lambda tx: self._settle_calls(tx, session_id))
            await self.db.write(model.settle)
            raise
        except BaseException:
            await self.db.write(model.settle)  # one that failed or was stopped is paid for, too
            raise

        def end(tx: Transaction) -> None:
            transcripts.append(tx, session_id, outcome.final)
            model.settle(tx)

        await self.db.write(end)
        return "\n\n".join([outcome.final.text, *(f"({warning})" for warning in warnings)])

    def _settle_calls(self, tx: Transaction, session_id: str) -> None:
        """The model is told that they were stopped on purpose: else it would only know that they were cut short."""
        entries = transcripts.entries(tx, session_id, limit=self.history_messages)
        for call in open_calls([entry.message for entry in entries]):
            transcripts.append(tx, session_id, stopped_by_user(call))


def new_key() -> SessionKey:
    return SessionKey(platform="cli", chat=new_id()[:8])


@dataclass(frozen=True, slots=True)
class _Journal:
    db: Database
    session_id: str

    async def append(self, message: Message) -> None:
        await self.db.write(lambda tx: transcripts.append(tx, self.session_id, message))

    async def tool_started(self, call: ToolCall) -> None:
        """Not kept: a turn at the terminal is never resumed, so no call could run twice."""
