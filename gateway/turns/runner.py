"""Runs the agent for a turn, in chats and at the terminal: its model, its tools, its prompt and what it costs."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from agent_core.compactor import Compactor
from agent_core.conversation import Message, system
from agent_core.model import HelperModels, Model, ask_once, look_at, make_panel, with_effort
from agent_core.result import TurnOutcome
from agent_core.turn import Joining, nobody_joins, run_turn
from gateway.memory.checks import find_false_claim
from gateway.memory.engine import MemoryEngine
from gateway.stopwatch import Stopwatch
from gateway.store import compactions, sessions, transcripts, turns
from gateway.store.compactions import History
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.memories import access_of_messages
from gateway.store.sessions import NO_CHOICE, SessionSettings
from gateway.store.turns import OpenedTurn, Turn
from gateway.turns.compacting import Compacting, Tell, describe, tell_nobody
from gateway.turns.delegation import Delegating, Equipment
from gateway.turns.direct_call import DirectCall
from gateway.turns.journal import StoreJournal
from gateway.turns.metering import Meter
from gateway.turns.prompts import Prompts
from hermes_config.settings import Settings
from tools.approval.gate import Gate, NobodyToAsk
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext
from tools.toolsets import OfferTools

FindWorkplace = Callable[[Turn], Awaitable[Workplace | None]]
"""Returns where the tools of a turn work; None where there can be no workplace."""

MakeGate = Callable[[Turn, Stopwatch], Gate]
"""Returns the gate that the risky calls of a turn must pass."""


async def _no_workplace(turn: Turn) -> None:
    """Offer no workplace, so that the turn has no tools that need one."""


def _deny_all(turn: Turn, watch: Stopwatch) -> Gate:
    return NobodyToAsk()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRunner:
    db: Database
    settings: Settings
    model: Model
    choose_model: Callable[[str], Model]  # by the name that was chosen in a conversation
    helpers: HelperModels = field(default_factory=HelperModels)
    offer_tools: OfferTools
    compacting: Compacting
    prompts: Prompts | None = None
    memory: MemoryEngine | None = None
    workplace: FindWorkplace = _no_workplace  # of a turn, or of a task that it delegates
    gate: MakeGate = _deny_all
    meter: Meter = field(default_factory=Meter)
    preferences: SessionSettings = NO_CHOICE  # of the owner, where a conversation has no choice of its own
    tool_slots: asyncio.Semaphore | None = None  # shared by all turns; None: no limit

    def load(self, tx: Transaction, turn: Turn, call: str = "") -> OpenedTurn:
        """Load the conversation of a turn, with its messages. `call` is the tool call that it makes, if any."""
        return OpenedTurn(
            history=compactions.read_history(tx, turn.session_id, turn_id=turn.id),
            started=transcripts.started_calls(tx, turn.id),
            stop_requested=turns.must_stop(tx, turn.id),
            prompt=sessions.prompt(tx, turn.session_id),
            settings=self.read_settings(tx, turn),
            call=call,
        )

    def read_settings(self, tx: Transaction, turn: Turn) -> SessionSettings:
        chosen = sessions.read_settings(tx, turn.session_id)
        return chosen.over(self.preferences) if turn.is_with_owner else chosen

    async def run(
        self,
        turn: Turn,
        opened: OpenedTurn,
        workplace: Workplace | None,
        stopwatch: Stopwatch,
        *,
        tell: Tell,
        user_wrote: asyncio.Event | None = None,
        joining: Joining = nobody_joins,
    ) -> TurnOutcome:
        """Bring the turn to its last answer; raises ModelError. `tell` says that the conversation was shortened."""
        tools = await self._find_tools(turn, opened.settings, workplace)
        prompt = await self._build_prompt(turn, opened, tools)
        vision = self.find_vision(turn)
        chosen = self._choose_model(opened.settings)
        model = self._meter(turn, with_effort(chosen, opened.settings.reasoning))
        return await run_turn(
            model=DirectCall(opened.call) if opened.call else model,
            tools=tools,
            messages=[*prompt, *opened.history.messages],
            journal=StoreJournal(
                db=self.db, turn=turn, stopwatch=stopwatch, settle=lambda tx: self.meter.settle(tx, turn)
            ),
            context=ToolContext(
                task_id=turn.session_id,
                timezone=self.settings.user.timezone if turn.is_with_owner else "",
                workplace=workplace,
                user_wrote=user_wrote,
                gate=self.gate(turn, stopwatch),
                ask=partial(ask_once, self._find_auxiliary(turn)),
                see=partial(look_at, vision) if vision is not None else None,
                delegate=self._make_delegate(turn, opened, workplace),
                panel=make_panel(
                    [self._meter(turn, one) for one in self.helpers.panel],
                    self._meter(turn, self.helpers.aggregator or chosen),
                ),
            ),
            emit=stopwatch,
            max_iterations=self.settings.agent.max_iterations,
            max_result_chars=self.settings.agent.max_tool_result_chars,
            started=opened.started,
            tool_slots=self.tool_slots,
            max_tool_runs=self.settings.gateway.max_tool_runs_per_turn,
            joining=joining,
            asking=None if opened.call else self._open_compactor(turn, opened, len(prompt), workplace, tell),
            review=find_false_claim if any(tool.name == "memory" for tool in tools) else None,
        )

    async def compress(self, turn: Turn, opened: OpenedTurn, workplace: Workplace | None, target_tokens: int) -> str:
        """Shorten the conversation because somebody asked for it; return what to tell them."""
        tools = await self._find_tools(turn, opened.settings, workplace)
        prompt = await self._build_prompt(turn, opened, tools)
        compactor = self._open_compactor(turn, opened, len(prompt), workplace, tell_nobody)
        shown = [*prompt, *opened.history.messages]
        _, report = await compactor.compress(shown, tools, target_tokens=target_tokens)
        return describe(report, target_tokens)

    async def look_back(self, turn: Turn, *, at_last: bool = False) -> None:
        """Have the auxiliary model note facts of the conversation, at the cost of whoever asked in this turn."""
        if self.memory is None:
            return
        access = await self.db.read(lambda tx: access_of_messages(tx, turn.messages))
        auxiliary = self._find_auxiliary(turn)
        settle = partial(self.meter.settle, turn=turn)
        await self.memory.look_back(turn.session_id, access, auxiliary, settle, at_last=at_last)

    def find_model(self, turn: Turn, settings: SessionSettings) -> Model:
        return self._meter(turn, self._choose_model(settings))

    def find_vision(self, turn: Turn) -> Model | None:
        return self._meter(turn, self.helpers.vision) if self.helpers.vision is not None else None

    def _find_auxiliary(self, turn: Turn) -> Model:
        """Return the model for summaries and other small tasks of a turn."""
        return self._meter(turn, self.helpers.auxiliary or self.model)

    def _choose_model(self, settings: SessionSettings) -> Model:
        return self.choose_model(settings.model) if settings.model else self.model

    def _meter(self, turn: Turn, model: Model) -> Model:
        return self.meter.model_for(turn, model, self.db)

    async def _find_tools(self, turn: Turn, settings: SessionSettings, workplace: Workplace | None) -> list[Tool]:
        """Return the tools that this platform, conversation and person are offered."""
        roles = {message.role for message in turn.asked}
        offered = await self.offer_tools(
            turn.asked[-1].key.platform,
            settings.toolsets,
            turn.session_id,
            roles == {"owner"},
            self.compacting.window_of(self._choose_model(settings).name),
        )
        return [
            tool
            for tool in offered
            if (workplace is not None or not tool.needs_workplace)
            and (tool.for_guests or "guest" not in roles)
            and not (turn.run is not None and tool.toolset == "cron")  # a job cannot make jobs
        ]

    async def _build_prompt(self, turn: Turn, opened: OpenedTurn, tools: list[Tool]) -> list[Message]:
        prompt = opened.prompt
        if prompt is None and self.prompts is not None:
            await self.look_back(turn, at_last=True)
            prompt = await self.prompts.fix(
                turn.session_id,
                turn.asked[-1].key.account_name,
                tools,
                with_owner=turn.is_with_owner,
                personality=opened.settings.personality,
            )
        return [system(prompt)] if prompt else []

    def _make_delegate(self, turn: Turn, opened: OpenedTurn, workplace: Workplace | None) -> Delegating:
        chosen = with_effort(self._choose_model(opened.settings), opened.settings.reasoning)

        async def equip(task: Turn, history: History) -> Equipment:
            place = await self.workplace(task)
            if len(history.messages) == 1 and place is not None and workplace is not None:
                # Its shell begins where that of its parent is, and stays its own.
                place.current_folder, place.environment = workplace.current_folder, dict(workplace.environment)
                await place.keep_shell(place)
            begun = replace(opened, history=history)
            asking = self._open_compactor(task, begun, 1, place or workplace, tell_nobody, paid_by=turn)
            model = self.meter.model_for(turn, chosen, self.db, session_id=task.session_id)
            return Equipment(model=model, workplace=place, asking=asking)

        return Delegating(
            db=self.db,
            turn=turn,
            equip=equip,
            settle=lambda tx: self.meter.settle(tx, turn),  # of all its tasks
            rules=self.settings.delegation,
            tool_slots=self.tool_slots,
            max_tool_runs=self.settings.gateway.max_tool_runs_per_turn,
            max_result_chars=self.settings.agent.max_tool_result_chars,
        )

    def _open_compactor(
        self,
        turn: Turn,
        opened: OpenedTurn,
        prompt_messages: int,
        workplace: Workplace | None,
        tell: Tell,
        *,
        paid_by: Turn | None = None,
    ) -> Compactor:
        """`paid_by` is the turn that has delegated this one."""
        payer = paid_by or turn
        return self.compacting.open(
            turn.session_id,
            turn.id,
            opened.history,
            model=self._choose_model(opened.settings),
            auxiliary=self._find_auxiliary(payer),
            prompt_messages=prompt_messages,
            workplace=workplace,
            settle=lambda tx: self.meter.settle(tx, payer),
            tell=tell,
        )
