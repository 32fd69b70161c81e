"""Stores a turn while it happens: its transcript, its trail and what it used."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_core.conversation import Message, ToolCall
from gateway.stopwatch import ModelCall, Stopwatch
from gateway.store import compactions, trail, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.trail import TrailEvent
from gateway.store.turns import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreJournal:
    """Implements `agent_core.conversation.Journal`."""

    db: Database
    turn: Turn
    stopwatch: Stopwatch
    settle: Callable[[Transaction], None]  # records what the model calls used

    async def append(self, message: Message) -> None:
        record = self._tool_finished(message) if message.role == "tool" else self._model_replied(message)

        def unit(tx: Transaction) -> None:
            transcripts.append(tx, self.turn.session_id, message, turn_id=self.turn.id)
            record(tx)
            self.settle(tx)

        await self.db.write_when_possible(unit)

    async def tool_started(self, call: ToolCall) -> None:
        self.stopwatch.tool_started(call.id)

        def unit(tx: Transaction) -> None:
            transcripts.mark_tool_started(tx, self.turn.id, call.id)
            trail.record(tx, TrailEvent.TOOL_STARTED, turn_id=self.turn.id, tool=call.name, call=call.id)

        await self.db.write_when_possible(unit)

    # The stopwatch is read once, outside the unit, which may run again.

    def _model_replied(self, message: Message) -> Callable[[Transaction], None]:
        call, tools = self.stopwatch.model_replied(), ", ".join(call.name for call in message.tool_calls)
        return lambda tx: record_model_reply(tx, self.turn, call, tools)

    def _tool_finished(self, message: Message) -> Callable[[Transaction], None]:
        ms = self.stopwatch.tool_finished(message.tool_call_id)
        tool, call, error = message.tool_name, message.tool_call_id, message.is_error
        return lambda tx: trail.record(
            tx, TrailEvent.TOOL_FINISHED, turn_id=self.turn.id, tool=tool, call=call, error=error, ms=ms
        )


def record_model_reply(tx: Transaction, turn: Turn, call: ModelCall, tools: str = "") -> None:
    """Record a reply that is in the transcript already, and how long the conversation is with it."""
    if call.context_tokens:
        compactions.note_count(tx, turn.session_id, call.context_tokens)
    trail.record(
        tx,
        TrailEvent.MODEL_REPLIED,
        turn_id=turn.id,
        tools=tools,
        ms=call.ms,
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
    )
