"""Runs one turn: accepted messages in, one agent turn, one commit.

The commit point is `Responder._answer`: it ends the transcript, adds the reply to the outbox and finishes the inbox
rows in one transaction. Before it a crash resumes the turn, after it the outbox owns the reply.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from agent_core.conversation import Message, ToolCall, assistant, system
from agent_core.events import Emit, ignore
from agent_core.history import interrupted_by_message, open_calls, stopped_by_user
from agent_core.model import Model, ModelError
from agent_core.result import TurnOutcome
from agent_core.turn import nobody_joins, run_turn
from gateway.approvals import decisions
from gateway.changes import Changes
from gateway.media.incoming import Attachments, has_outside_files
from gateway.media.outgoing import Enclosures
from gateway.messages import Address, Choice, Part, Text
from gateway.policies.resets import NEVER, Resets, in_words
from gateway.stopwatch import ModelCall, Stopwatch
from gateway.store import approvals, chats, drafts, inbox, media, outbox, sessions, trail, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.sessions import title_of
from gateway.store.trail import TrailEvent
from gateway.store.turns import OpenedTurn, Outcome, Turn
from gateway.turns.joining import Joining
from gateway.turns.journal import StoreJournal, record_model_reply
from gateway.turns.metering import Meter
from gateway.turns.prompts import Prompts
from gateway.turns.transcript_text import render_for_model
from tools.approval.gate import Gate, NobodyToAsk
from tools.backends.base import Workplace
from tools.base import Tool, ToolContext

log = structlog.get_logger()


class VisibleTurn(Protocol):
    """A running turn that its chat can watch."""

    @property
    def emit(self) -> Emit: ...

    @property
    def finishes_in_place(self) -> bool:
        """Return, once the turn is over, whether the draft becomes the answer instead of being replaced by it."""


Watch = Callable[[Turn, str], AbstractAsyncContextManager[VisibleTurn]]
"""Shows a turn. The second argument is the verbosity chosen in the conversation, or empty."""


FindWorkplace = Callable[[Turn], Awaitable[Workplace | None]]
"""Returns where the tools of a turn work; None where there can be no workplace."""


async def _no_workplace(turn: Turn) -> None:
    """Offer no workplace, so that the turn has no tools that need one."""


MakeGate = Callable[[Turn, Stopwatch], Gate]
"""Returns the gate that the risky calls of a turn must pass."""


def _deny_all(turn: Turn, watch: Stopwatch) -> Gate:
    return NobodyToAsk()


@dataclass(frozen=True, slots=True)
class _Unwatched:
    emit: Emit = ignore
    finishes_in_place: bool = False


@asynccontextmanager
async def _unwatched(turn: Turn, verbosity: str) -> AsyncIterator[_Unwatched]:
    yield _Unwatched()


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
    max_tool_runs_per_turn: int = 8
    watch: Watch = _unwatched
    prompts: Prompts | None = None
    enclosures: Enclosures | None = None
    workplace: FindWorkplace = _no_workplace
    gate: MakeGate = _deny_all
    timezone: str = ""
    max_tool_result_chars: int = 100_000
    resets: Resets = NEVER
    changes: Changes = field(default_factory=Changes)
    meter: Meter = field(default_factory=Meter)
    steers: bool = True  # a message of somebody whose turn runs joins that turn

    def open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        """Write the messages into the transcript and load it; None when files must be fetched first."""
        return None if has_outside_files(turn.messages) else self._write_messages(tx, turn, turn.messages)

    async def respond(
        self, turn: Turn, opened: OpenedTurn | None = None, user_wrote: asyncio.Event | None = None
    ) -> None:
        """Run the turn and commit its answer. `opened` is the result of `open`, if that was called before."""
        if turn.resumes > self.max_resumes:
            log.error("turn given up", resumes=turn.resumes)
            text = f"I was restarted {turn.resumes} times while working on this, so I gave up. Send it again to retry."
            await self._explain(turn, "given_up", text)
            return
        if turn.resumes:
            log.info("turn resumed", resumes=turn.resumes)
        if opened is None:
            opened = await self._fetch_and_open(turn)
        if opened.stop_requested:
            await self.stop(turn)
            return
        watched: VisibleTurn = _Unwatched()
        try:
            workplace = await self.workplace(turn)
            async with self.watch(turn, opened.verbosity) as watched:
                stopwatch = Stopwatch(watched.emit)
                outcome = await self._run(turn, opened, workplace, stopwatch, user_wrote or asyncio.Event())
                last_call = stopwatch.model_replied()
        except ModelError as error:
            log.warning("model could not answer", problem=str(error))
            kind = type(error).__name__
            await self._explain(turn, "failed", str(error), in_place=watched.finishes_in_place, problem=kind)
            return
        await self._answer(turn, outcome, last_call, in_place=watched.finishes_in_place)

    async def fail(self, turn: Turn) -> None:
        """End the turn after a bug of ours, which is in the log."""
        await self._explain(
            turn,
            "failed",
            "Something went wrong inside Hermes, so this is not finished. Please try again. "
            f"(Details are in the gateway's log, turn {turn.id}.)",
        )

    async def stop(self, turn: Turn) -> None:
        """End a turn that /stop or a newer message ended early. The chat has its answer from those."""

        def unit(tx: Transaction) -> None:
            if turns.is_interrupted(tx, turn.id):
                self._end_interrupted(tx, turn)
            else:
                _end_stopped(tx, turn)

        await self._end(turn, unit)

    async def pause(self, turn: Turn) -> None:
        """Leave the turn to the next start, and say so in the chat unless it waits for a decision anyway."""

        def unit(tx: Transaction) -> None:
            if turns.pause(tx, turn.id) and not approvals.waiting_for(tx, turn.id):
                text = "I am restarting and will continue with this when I am back."
                outbox.add_notice(tx, _find_address(tx, turn), text, topic="paused", turn_id=turn.id)

        await self._end(turn, unit)

    async def _end(self, turn: Turn, unit: Callable[[Transaction], None]) -> None:
        """Commit the end of a turn together with what it used, however it ends."""

        def settle(tx: Transaction) -> None:
            unit(tx)
            self.meter.settle(tx, turn)  # after the reply: it may add a notice
            if turns.is_over(tx, turn.id):
                decisions.withdraw(tx, turn.id)

        await self.db.write_when_possible(settle)
        self.meter.close(turn)

    async def _fetch_and_open(self, turn: Turn) -> OpenedTurn:
        def tell(tx: Transaction, text: str) -> None:
            outbox.add_notice(tx, _find_address(tx, turn), text, topic="files", turn_id=turn.id)

        model = self.meter.model_for(turn, self.model, self.db)
        messages = await self.attachments.bring_in(turn.messages, tell, model)
        self.changes.notify("outbox", account=turn.address.account)  # about files that could not be read, if any
        return await self.db.write_when_possible(lambda tx: self._write_messages(tx, turn, messages))

    def _write_messages(self, tx: Transaction, turn: Turn, messages: Sequence[Accepted]) -> OpenedTurn:
        # Once only: what was overheard after a crash belongs to the next turn.
        is_open = bool(transcripts.turn(tx, turn.session_id, turn.id))
        overheard = "" if is_open else chats.take_overheard(tx, turn.session_key)
        for message in messages:
            said = Message(role="user", parts=render_for_model(message, overheard))
            transcripts.append(tx, turn.session_id, said, turn_id=turn.id, inbox_id=message.id)
            overheard = ""
        trail.record(tx, TrailEvent.OPENED, turn_id=turn.id)
        return OpenedTurn(
            history=transcripts.recent(tx, turn.session_id, limit=self.history_messages, turn_id=turn.id),
            started=transcripts.started_calls(tx, turn.id),
            stop_requested=turns.stop_requested(tx, turn.id) or turns.is_interrupted(tx, turn.id),
            prompt=sessions.prompt(tx, turn.session_id),
            verbosity=sessions.verbosity(tx, turn.session_id),
        )

    async def _system_prompt(self, turn: Turn, opened: OpenedTurn, tools: Sequence[Tool]) -> list[Message]:
        prompt = opened.prompt
        if prompt is None and self.prompts is not None:
            account = turn.address.account
            prompt = await self.prompts.fix(turn.session_id, account, tools, with_owner=turn.is_with_owner)
        return [system(prompt)] if prompt else []

    async def _run(
        self,
        turn: Turn,
        opened: OpenedTurn,
        workplace: Workplace | None,
        stopwatch: Stopwatch,
        user_wrote: asyncio.Event,
    ) -> TurnOutcome:
        with_guest = any(message.role == "guest" for message in turn.asked)
        tools = [
            tool
            for tool in self.tools
            if (workplace is not None or not tool.needs_workplace) and (tool.for_guests or not with_guest)
        ]
        return await run_turn(
            model=self.meter.model_for(turn, self.model, self.db),
            tools=tools,
            messages=[*await self._system_prompt(turn, opened, tools), *opened.history],
            journal=StoreJournal(
                db=self.db, turn=turn, stopwatch=stopwatch, settle=lambda tx: self.meter.settle(tx, turn)
            ),
            context=ToolContext(
                task_id=turn.session_id,
                timezone=self.timezone if turn.is_with_owner else "",
                workplace=workplace,
                user_wrote=user_wrote,
                gate=self.gate(turn, stopwatch),
            ),
            emit=stopwatch,
            max_iterations=self.max_iterations,
            max_result_chars=self.max_tool_result_chars,
            started=opened.started,
            tool_slots=self.tool_slots,
            max_tool_runs=self.max_tool_runs_per_turn,
            joining=Joining(db=self.db, turn=turn, user_wrote=user_wrote) if self.steers else nobody_joins,
        )

    async def _answer(self, turn: Turn, outcome: TurnOutcome, call: ModelCall, *, in_place: bool) -> None:
        """Commit the answer. `call` is the model call that brought it, for the trail."""
        parts: tuple[Part, ...] = outcome.final.parts
        if not outcome.final.text.strip():
            parts = (Text(text="The model returned an empty answer. Please try again or rephrase your message."),)
        if self.enclosures is not None:
            parts = await self.enclosures.enclose(turn, parts)

        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):  # the chat has just been told that the turn stopped
                _end_stopped(tx, turn)
                return
            transcripts.append(tx, turn.session_id, outcome.final, turn_id=turn.id)
            if turn.asked[0].kind == "message":
                sessions.set_title(tx, turn.session_id, title_of(turn.asked[0].said or turn.asked[0].text))
            media.record_parts(tx, parts)
            self._reply(tx, turn, parts, in_place=in_place)
            record_model_reply(tx, turn, call)
            turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), "answered")

        self.changes.notify(
            "outbox", account=turn.address.account
        )  # at once: delivery claims the reply in the same commit
        await self._end(turn, unit)

    async def _explain(
        self, turn: Turn, outcome: Outcome, text: str, *, in_place: bool = False, problem: str | None = None
    ) -> None:
        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):  # by its user, or because access was revoked: nothing may follow
                _end_stopped(tx, turn)
            elif not turns.is_over(tx, turn.id):
                # In the transcript too: the model would return to an unanswered request with the next message.
                transcripts.append(tx, turn.session_id, assistant(text), turn_id=turn.id)
                self._reply(tx, turn, [Text(text=text)], in_place=in_place)
                turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), outcome, problem=problem)

        await self._end(turn, unit)

    def _end_interrupted(self, tx: Transaction, turn: Turn) -> None:
        """Leave the answer to the turn of the newer message, which sees all of this and answers both."""
        if turns.is_over(tx, turn.id):
            return
        is_followed = inbox.count_waiting(tx, str(turns.reload(tx, turn).asked[-1].key))
        if is_followed:
            _close(tx, turn, interrupted_by_message, "(Interrupted by a newer message; not answered yet.)")
        else:  # deleted before this turn had ended
            text = "I stopped working on this for a newer message that is gone. Send it again if you still need it."
            _close(tx, turn, interrupted_by_message, text)
            self._reply(tx, turn, [Text(text=text)], in_place=False)
        outcome: Outcome = "superseded" if is_followed else "stopped"
        turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), outcome)

    def _reply(self, tx: Transaction, turn: Turn, parts: Sequence[Part], *, in_place: bool) -> None:
        draft = drafts.take_over(tx, turn.id)
        answered = (*turns.read_superseded(tx, turn), *turns.reload(tx, turn).asked)
        outbox.add(
            tx,
            _find_address(tx, turn),
            parts,
            answers=[message.message_id for message in answered if message.kind == "message"],
            turn_id=turn.id,
            edits=draft if in_place else "",
            replaces="" if in_place else draft,
            age_limit_ms=self.age_limit_ms,
        )
        self._announce_reset(tx, turn)

    def _announce_reset(self, tx: Transaction, turn: Turn) -> None:
        """Add a notice to the first reply after the last conversation ended by itself."""
        before = sessions.find_untold_end(tx, turn.session_id)
        if before is None:
            return
        why = in_words(before.reason, self.resets.policy(before.platform, before.kind))
        text = f"This is a new conversation: {why}. Use /resume to go back to an old one."
        choices = (Choice(label="Continue the old one", action=f"continue:{before.id}"),)
        outbox.add_notice(tx, _find_address(tx, turn), text, topic="session reset", turn_id=turn.id, choices=choices)
        sessions.mark_told(tx, before.id)


def _end_stopped(tx: Transaction, turn: Turn) -> None:
    if turns.is_over(tx, turn.id):
        return
    _close(tx, turn, stopped_by_user, "(Stopped by the user.)")
    turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), "stopped")


def _close(tx: Transaction, turn: Turn, settle: Callable[[ToolCall], Message], last_words: str) -> None:
    """Give every open call a result and the request an answer, or the model would return to them later."""
    for call in open_calls(transcripts.turn(tx, turn.session_id, turn.id)):
        transcripts.append(tx, turn.session_id, settle(call), turn_id=turn.id)
    transcripts.append(tx, turn.session_id, assistant(last_words), turn_id=turn.id)


def _find_address(tx: Transaction, turn: Turn) -> Address:
    return turns.reload(tx, turn).address
