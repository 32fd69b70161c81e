"""One turn: accepted messages in, one agent turn, one commit.

The commit point is `_answer`: the end of the transcript, the reply's outbox row and the inbox rows' end are
one transaction. Before it a crash resumes the turn; after it the outbox owns the reply.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import structlog

from agent_core.conversation import Message, ToolCall, assistant, system
from agent_core.events import Emit, ignore
from agent_core.history import open_calls, stopped_by_user
from agent_core.model import Model, ModelError
from agent_core.result import TurnOutcome
from agent_core.turn import run_turn
from gateway.attachments import Attachments
from gateway.messages import Media, Part, Text, text_of
from gateway.prompts import Prompts
from gateway.store import outbox, sessions, trail, transcripts, turns
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.inbox import Accepted
from gateway.store.turns import Outcome, Turn
from gateway.titles import title_of
from tools.base import Tool, ToolContext

log = structlog.get_logger()

_SHARED_KINDS = {"group", "channel", "thread"}


def _unwatched(turn: Turn) -> AbstractContextManager[Emit]:
    return nullcontext(ignore)


@dataclass(frozen=True, slots=True, kw_only=True)
class Responder:
    db: Database
    model: Model
    tools: Sequence[Tool]
    attachments: Attachments
    tool_slots: asyncio.Semaphore
    max_iterations: int
    max_resumes: int
    history_messages: int
    age_limit_ms: int
    watch: Callable[[Turn], AbstractContextManager[Emit]] = _unwatched
    prompts: Prompts | None = None
    timezone: str = ""
    max_tool_result_chars: int = 100_000

    async def respond(self, turn: Turn) -> None:
        if turn.resumes > self.max_resumes:
            log.error("turn given up", resumes=turn.resumes)
            await self._explain(turn, "given_up", _gave_up(turn))
            return
        if turn.resumes:
            log.info("turn resumed", resumes=turn.resumes)
        opened = await self._open(turn)
        if opened.stop_requested:
            await self.stopped(turn)
            return
        try:
            with self.watch(turn) as emit:
                outcome = await run_turn(
                    model=self.model,
                    tools=self.tools,
                    messages=[*await self._system(turn, opened), *opened.history],
                    journal=_StoreJournal(self.db, turn),
                    context=ToolContext(task_id=turn.session_id, timezone=self.timezone),
                    emit=emit,
                    max_iterations=self.max_iterations,
                    max_result_chars=self.max_tool_result_chars,
                    started=opened.started,
                    tool_slots=self.tool_slots,
                )
        except ModelError as error:
            log.warning("model could not answer", problem=str(error))
            await self._explain(turn, "failed", str(error))
            return
        await self._answer(turn, outcome)

    async def failed(self, turn: Turn) -> None:
        """After a bug of ours, which is in the log."""
        await self._explain(
            turn,
            "failed",
            f"Something went wrong inside Hermes, and this was not finished. Please try again. (Turn {turn.id}, "
            "in the gateway's log.)",
        )

    async def stopped(self, turn: Turn) -> None:
        """The command that stopped it has told the chat."""
        await self.db.write_when_possible(lambda tx: _end_stopped(tx, turn))

    async def paused(self, turn: Turn) -> None:
        def unit(tx: Transaction) -> None:
            if turns.pause(tx, turn.id):
                text = "I am being restarted and will go on with this when I am back."
                outbox.add_notice(tx, turn.messages[-1].address, text, topic="paused", turn_id=turn.id)

        await self.db.write_when_possible(unit)

    async def _open(self, turn: Turn) -> "_Opened":
        messages = [await self.attachments.bring_in(message) for message in turn.messages]

        def write_down(tx: Transaction) -> None:
            for message in messages:
                spoken = Message(role="user", parts=_as_spoken(message))
                transcripts.append(tx, turn.session_id, spoken, turn_id=turn.id, inbox_id=message.id)
            trail.record(tx, "opened", turn_id=turn.id)

        def look(tx: Transaction) -> _Opened:
            return _Opened(
                history=transcripts.recent(tx, turn.session_id, limit=self.history_messages, turn_id=turn.id),
                started=transcripts.started_calls(tx, turn.id),
                stop_requested=turns.stop_requested(tx, turn.id),
                prompt=sessions.prompt(tx, turn.session_id),
            )

        await self.db.write_when_possible(write_down)
        return await self.db.read_when_possible(look)

    async def _system(self, turn: Turn, opened: "_Opened") -> list[Message]:
        prompt = opened.prompt
        if prompt is None and self.prompts is not None:
            prompt = await self.prompts.fix(turn.session_id, turn.messages[0].key.account_name)
        return [system(prompt)] if prompt else []

    async def _answer(self, turn: Turn, outcome: TurnOutcome) -> None:
        """The commit point."""
        parts: tuple[Part, ...] = outcome.final.parts
        if not outcome.final.text.strip():
            parts = (Text(text="The model gave an empty answer. Please try again or put it differently."),)

        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):  # the chat was told that it stopped, just before us
                _end_stopped(tx, turn)
                return
            transcripts.append(tx, turn.session_id, outcome.final, turn_id=turn.id)
            sessions.add_usage(tx, turn.session_id, outcome.usage)
            sessions.set_title(tx, turn.session_id, title_of(_words(turn.messages[0])))
            self._reply(tx, turn, parts)
            turns.finish(tx, turn.id, turn.messages, "answered")

        await self.db.write_when_possible(unit)

    async def _explain(self, turn: Turn, outcome: Outcome, text: str) -> None:
        def unit(tx: Transaction) -> None:
            if not turns.is_over(tx, turn.id):
                # In the transcript too: a request left open there would be taken up with the next message.
                transcripts.append(tx, turn.session_id, assistant(text), turn_id=turn.id)
                self._reply(tx, turn, [Text(text=text)])
                turns.finish(tx, turn.id, turn.messages, outcome)

        await self.db.write_when_possible(unit)

    def _reply(self, tx: Transaction, turn: Turn, parts: Sequence[Part]) -> None:
        outbox.add(
            tx,
            turn.messages[-1].address,
            parts,
            answers=[message.message_id for message in turn.messages],
            turn_id=turn.id,
            age_limit_ms=self.age_limit_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What a turn finds when it begins."""

    history: list[Message]
    started: frozenset[str]
    stop_requested: bool
    prompt: str | None


@dataclass(frozen=True, slots=True)
class _StoreJournal:
    """Writes a turn into the transcript as it happens, with its trail."""

    db: Database
    turn: Turn

    async def append(self, message: Message) -> None:
        def unit(tx: Transaction) -> None:
            transcripts.append(tx, self.turn.session_id, message, turn_id=self.turn.id)
            if message.role == "tool":
                trail.record(tx, "tool_finished", turn_id=self.turn.id, tool=message.tool_name, error=message.is_error)
            else:
                tools = ", ".join(call.name for call in message.tool_calls)
                trail.record(tx, "model_replied", turn_id=self.turn.id, tools=tools)

        await self.db.write_when_possible(unit)

    async def tool_started(self, call: ToolCall) -> None:
        def unit(tx: Transaction) -> None:
            transcripts.mark_tool_started(tx, self.turn.id, call.id)
            trail.record(tx, "tool_started", turn_id=self.turn.id, tool=call.name)

        await self.db.write_when_possible(unit)


def _end_stopped(tx: Transaction, turn: Turn) -> None:
    if turns.is_over(tx, turn.id):
        return
    for call in open_calls(transcripts.turn(tx, turn.session_id, turn.id)):
        transcripts.append(tx, turn.session_id, stopped_by_user(call), turn_id=turn.id)
    transcripts.append(tx, turn.session_id, assistant("(Stopped by the user.)"), turn_id=turn.id)
    turns.finish(tx, turn.id, turn.messages, "stopped")


def _as_spoken(message: Accepted) -> tuple[Part, ...]:
    """In a shared conversation the speaker's name stands before the text."""
    if message.key.kind not in _SHARED_KINDS or message.key.user:
        return message.parts
    return (Text(text=f"{message.sender_name or message.sender_id}:"), *message.parts)


def _words(message: Accepted) -> str:
    """What was said; the names of the files when nothing was."""
    return text_of(part for part in message.parts if not isinstance(part, Media)) or message.text


def _gave_up(turn: Turn) -> str:
    return (
        f"I was restarted {turn.resumes} times while working on this and have given it up. "
        "Please send it again if you still need it."
    )
