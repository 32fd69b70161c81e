"""One turn: accepted messages in, one agent turn, one commit.

The commit point is `_answer`: the end of the transcript, the reply's outbox row and the inbox rows' end are
one transaction. Before it a crash resumes the turn; after it the outbox owns the reply.
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
    """A turn that can be seen while it runs."""

    @property
    def emit(self) -> Emit: ...

    @property
    def finishes_in_place(self) -> bool:
        """Asked when it is over: whether the draft that was seen becomes the answer, or makes room for it."""


Watch = Callable[[Turn, str], AbstractAsyncContextManager[VisibleTurn]]
"""A turn, and how much of its tools shall be told, if anybody has said."""


Work = Callable[[Turn], Awaitable[Workplace | None]]
"""Where the tools of a turn work; None where they cannot."""


async def _nowhere(turn: Turn) -> None:
    """For turns without such tools."""


Ask = Callable[[Turn, Stopwatch], Gate]
"""Who is asked before a call of a turn does harm."""


def _nobody(turn: Turn, watch: Stopwatch) -> Gate:
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
    workplace: Work = _nowhere
    gate: Ask = _nobody
    timezone: str = ""
    max_tool_result_chars: int = 100_000
    resets: Resets = NEVER
    changes: Changes = field(default_factory=Changes)
    meter: Meter = field(default_factory=Meter)
    steers: bool = True  # what somebody says while a turn of theirs runs is added to it

    def open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        """Writes down what was said and looks up what went before; None when files must be fetched first."""
        return self._write_down(tx, turn, turn.messages) if not has_outside_files(turn.messages) else None

    async def respond(
        self, turn: Turn, opened: OpenedTurn | None = None, user_wrote: asyncio.Event | None = None
    ) -> None:
        """`opened`: what `open` gave when the turn was begun; `user_wrote`: set while messages wait behind it."""
        if turn.resumes > self.max_resumes:
            log.error("turn given up", resumes=turn.resumes)
            await self._explain(turn, "given_up", _gave_up(turn))
            return
        if turn.resumes:
            log.info("turn resumed", resumes=turn.resumes)
        if opened is None:
            opened = await self._fetch_and_open(turn)
        if opened.stop_requested:
            await self.stopped(turn)
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

    async def failed(self, turn: Turn) -> None:
        """After a bug of ours, which is in the log."""
        await self._explain(
            turn,
            "failed",
            f"Something went wrong inside Hermes, and this was not finished. Please try again. (Turn {turn.id}, "
            "in the gateway's log.)",
        )

    async def stopped(self, turn: Turn) -> None:
        """The command that stopped it has told the chat; what interrupted it is answered next, and this with it."""

        def unit(tx: Transaction) -> None:
            if turns.is_interrupted(tx, turn.id):
                self._end_interrupted(tx, turn)
            else:
                _end_stopped(tx, turn)

        await self._end(turn, unit)

    async def paused(self, turn: Turn) -> None:
        def unit(tx: Transaction) -> None:
            if turns.pause(tx, turn.id) and not approvals.waiting_for(tx, turn.id):
                text = "I am being restarted and will go on with this when I am back."
                outbox.add_notice(tx, _where(tx, turn), text, topic="paused", turn_id=turn.id)

        await self._end(turn, unit)

    async def _end(self, turn: Turn, unit: Callable[[Transaction], None]) -> None:
        """However a turn ends, what it used is settled in the same commit."""

        def settled(tx: Transaction) -> None:
            unit(tx)
            self.meter.settle(tx, turn)  # behind the reply: it may bring a notice
            if turns.is_over(tx, turn.id):
                decisions.withdraw(tx, turn.id)

        await self.db.write_when_possible(settled)
        self.meter.close(turn)

    async def _fetch_and_open(self, turn: Turn) -> OpenedTurn:
        def tell(tx: Transaction, text: str) -> None:
            outbox.add_notice(tx, _where(tx, turn), text, topic="files", turn_id=turn.id)

        model = self.meter.model_for(turn, self.model, self.db)
        messages = await self.attachments.bring_in(turn.messages, tell, model)
        self.changes.notify("outbox", account=turn.address.account)  # of what could not be read, if anything
        return await self.db.write_when_possible(lambda tx: self._write_down(tx, turn, messages))

    def _write_down(self, tx: Transaction, turn: Turn, messages: Sequence[Accepted]) -> OpenedTurn:
        # Once only: what was overheard after a crash is for the next turn, this one has been written down.
        is_open = bool(transcripts.turn(tx, turn.session_id, turn.id))
        meanwhile = "" if is_open else chats.take(tx, turn.session_key)
        for message in messages:
            said = Message(role="user", parts=render_for_model(message, meanwhile))
            transcripts.append(tx, turn.session_id, said, turn_id=turn.id, inbox_id=message.id)
            meanwhile = ""
        trail.record(tx, "opened", turn_id=turn.id)
        return OpenedTurn(
            history=transcripts.recent(tx, turn.session_id, limit=self.history_messages, turn_id=turn.id),
            started=transcripts.started_calls(tx, turn.id),
            stop_requested=turns.stop_requested(tx, turn.id) or turns.is_interrupted(tx, turn.id),
            prompt=sessions.prompt(tx, turn.session_id),
            verbosity=sessions.verbosity(tx, turn.session_id),
        )

    async def _system(self, turn: Turn, opened: OpenedTurn, tools: Sequence[Tool]) -> list[Message]:
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
            messages=[*await self._system(turn, opened, tools), *opened.history],
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
        """The commit point. `call`: the one that brought it, for the trail."""
        parts: tuple[Part, ...] = outcome.final.parts
        if not outcome.final.text.strip():
            parts = (Text(text="The model gave an empty answer. Please try again or put it differently."),)
        if self.enclosures is not None:
            parts = await self.enclosures.enclose(turn, parts)

        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):  # the chat was told that it stopped, just before us
                _end_stopped(tx, turn)
                return
            transcripts.append(tx, turn.session_id, outcome.final, turn_id=turn.id)
            if turn.asked[0].kind == "message":
                sessions.set_title(tx, turn.session_id, title_of(_words(turn.asked[0])))
            media.record_parts(tx, parts)
            self._reply(tx, turn, parts, in_place=in_place)
            record_model_reply(tx, turn, call)
            turns.finish(tx, turn.id, inbox.of_turn(tx, turn.id), "answered")

        self.changes.notify(
            "outbox", account=turn.address.account
        )  # at once: delivery claims the reply in the same commit
        await self._end(turn, unit)

    async def _explain(
        self, turn: Turn, outcome: Outcome, text: str, *, in_place: bool = False, problem: str | None = None
    ) -> None:
        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):  # by its user, or because access was taken back: nothing may follow
                _end_stopped(tx, turn)
            elif not turns.is_over(tx, turn.id):
                # In the transcript too: a request left open there would be taken up with the next message.
                transcripts.append(tx, turn.session_id, assistant(text), turn_id=turn.id)
                self._reply(tx, turn, [Text(text=text)], in_place=in_place)
                turns.finish(tx, turn.id, inbox.of_turn(tx, turn.id), outcome, problem=problem)

        await self._end(turn, unit)

    def _end_interrupted(self, tx: Transaction, turn: Turn) -> None:
        """Left to the turn of the newer message, which has all of this before it and answers both."""
        if turns.is_over(tx, turn.id):
            return
        is_followed = inbox.waiting(tx, str(turns.as_it_stands(tx, turn).asked[-1].key))
        if is_followed:
            _close(tx, turn, interrupted_by_message, "(Interrupted by a newer message, and not answered yet.)")
        else:  # taken back before this turn had really ended
            text = "I stopped working on this for a message that is gone. Please send it again if you still need it."
            _close(tx, turn, interrupted_by_message, text)
            self._reply(tx, turn, [Text(text=text)], in_place=False)
        outcome: Outcome = "superseded" if is_followed else "stopped"
        turns.finish(tx, turn.id, inbox.of_turn(tx, turn.id), outcome)

    def _reply(self, tx: Transaction, turn: Turn, parts: Sequence[Part], *, in_place: bool) -> None:
        draft = drafts.take_over(tx, turn.id)
        answered = (*turns.superseded_by(tx, turn), *turns.as_it_stands(tx, turn).asked)
        outbox.add(
            tx,
            _where(tx, turn),
            parts,
            answers=[message.message_id for message in answered if message.kind == "message"],
            turn_id=turn.id,
            edits=draft if in_place else "",
            replaces="" if in_place else draft,
            age_limit_ms=self.age_limit_ms,
        )
        self._tell_of_reset(tx, turn)

    def _tell_of_reset(self, tx: Transaction, turn: Turn) -> None:
        """With the first reply after the last conversation ended by itself."""
        before = sessions.untold_end(tx, turn.session_id)
        if before is None:
            return
        why = in_words(before.reason, self.resets.policy(before.platform, before.kind))
        text = f"This is a new conversation: {why}. /resume takes you back to an old one."
        choices = (Choice(label="Continue the old one", action=f"continue:{before.id}"),)
        outbox.add_notice(tx, _where(tx, turn), text, topic="session reset", turn_id=turn.id, choices=choices)
        sessions.mark_told(tx, before.id)


def _end_stopped(tx: Transaction, turn: Turn) -> None:
    if turns.is_over(tx, turn.id):
        return
    _close(tx, turn, stopped_by_user, "(Stopped by the user.)")
    turns.finish(tx, turn.id, inbox.of_turn(tx, turn.id), "stopped")


def _close(tx: Transaction, turn: Turn, settle: Callable[[ToolCall], Message], last_words: str) -> None:
    """Every call has a result and every request an answer: what stood open would be taken up with the next message."""
    for call in open_calls(transcripts.turn(tx, turn.session_id, turn.id)):
        transcripts.append(tx, turn.session_id, settle(call), turn_id=turn.id)
    transcripts.append(tx, turn.session_id, assistant(last_words), turn_id=turn.id)


def _where(tx: Transaction, turn: Turn) -> Address:
    return turns.as_it_stands(tx, turn).address


def _words(message: Accepted) -> str:
    """What was said; the names of the files when nothing was."""
    return message.said or message.text


def _gave_up(turn: Turn) -> str:
    return (
        f"I was restarted {turn.resumes} times while working on this and have given it up. "
        "Please send it again if you still need it."
    )
