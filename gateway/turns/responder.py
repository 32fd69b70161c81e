"""Runs one turn: accepted messages in, one agent turn, one commit.

The commit point is `Responder._answer`: it ends the transcript, adds the reply to the outbox and finishes the inbox
rows in one transaction. Before it a crash resumes the turn, after it the outbox owns the reply.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from agent_core.conversation import Message, ToolCall, assistant
from agent_core.events import Emit, ignore
from agent_core.history import interrupted_by_message, open_calls, stopped_by_user
from agent_core.model import ModelError
from agent_core.models.providers import sees_images
from agent_core.result import TurnOutcome
from agent_core.turn import nobody_joins
from gateway.approvals import decisions
from gateway.changes import Changes
from gateway.commands.reasoning import quote_thoughts
from gateway.media.incoming import Attachments, has_outside_files
from gateway.media.outgoing import Enclosures
from gateway.messages import Address, Choice, Part, Text
from gateway.policies.resets import NEVER, Resets, in_words
from gateway.schedule.runs import conclude, is_nothing_to_tell, save_locally
from gateway.stopwatch import ModelCall, Stopwatch
from gateway.store import (
    approvals,
    chats,
    compactions,
    drafts,
    inbox,
    media,
    outbox,
    sessions,
    trail,
    transcripts,
    turns,
)
from gateway.store.db.connection import Transaction
from gateway.store.inbox import Accepted
from gateway.store.sessions import title_of
from gateway.store.trail import TrailEvent
from gateway.store.turns import OpenedTurn, Outcome, Turn
from gateway.turns.joining import Joining
from gateway.turns.journal import record_model_reply
from gateway.turns.runner import TurnRunner
from gateway.turns.transcript_text import render_for_model

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


@dataclass(frozen=True, slots=True)
class _Unwatched:
    emit: Emit = ignore
    finishes_in_place: bool = False


@asynccontextmanager
async def _unwatched(turn: Turn, verbosity: str) -> AsyncIterator[_Unwatched]:
    yield _Unwatched()


@dataclass(frozen=True, slots=True, kw_only=True)
class Responder:
    runner: TurnRunner
    attachments: Attachments
    enclosures: Enclosures | None = None
    job_files: Path | None = None  # where answers of scheduled jobs go that no chat gets
    watch: Watch = _unwatched
    resets: Resets = NEVER
    changes: Changes = field(default_factory=Changes)

    def open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        """Write the messages into the transcript and load it; None when files must be fetched first."""
        return None if has_outside_files(turn.messages) else self._write_messages(tx, turn, turn.messages)

    async def respond(
        self, turn: Turn, opened: OpenedTurn | None = None, user_wrote: asyncio.Event | None = None
    ) -> None:
        """Run the turn and commit its answer. `opened` is the result of `open`, if that was called before."""
        if turn.resumes > self.runner.settings.gateway.max_resumes:
            log.error("turn given up", resumes=turn.resumes)
            text = f"I was restarted {turn.resumes} times while working on this, so I gave up. Send it again to retry."
            await self._explain(turn, Outcome.GIVEN_UP, text)
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
            workplace = await self.runner.workplace(turn)
            if (target := _find_order(turn)) is not None:
                report = await self.runner.compress(turn, opened, workplace, target)
                if all(compactions.read_order(message) is not None for message in turn.asked):
                    await self._finish_order(turn, report)
                    return
                opened = await self._reopen(turn, report)
            watch = _unwatched if turn.is_in_background or turn.run else self.watch
            user_wrote = user_wrote or asyncio.Event()
            steers = self.runner.settings.gateway.busy_mode == "steer" and not opened.call
            joining = Joining(db=self.runner.db, turn=turn, user_wrote=user_wrote) if steers else nobody_joins
            async with watch(turn, opened.settings.verbosity) as watched:
                stopwatch = Stopwatch(watched.emit)
                outcome = await self.runner.run(
                    turn,
                    opened,
                    workplace,
                    stopwatch,
                    tell=lambda tx, text: _note_compaction(tx, turn, text),
                    user_wrote=user_wrote,
                    joining=joining,
                )
                last_call = stopwatch.model_replied()
        except ModelError as error:
            log.warning("model could not answer", problem=str(error))
            kind = type(error).__name__
            await self._explain(turn, Outcome.FAILED, str(error), in_place=watched.finishes_in_place, problem=kind)
            return
        await self._answer(turn, outcome, last_call, opened, in_place=watched.finishes_in_place)
        if not opened.call:
            try:
                await self.runner.look_back(turn)
            finally:
                self.runner.meter.close(turn)

    async def fail(self, turn: Turn) -> None:
        """End the turn after a bug of ours, which is in the log."""
        await self._explain(
            turn,
            Outcome.FAILED,
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
            if turns.pause(tx, turn.id) and not approvals.waiting_for(tx, turn.id) and turn.run is None:
                text = "I am restarting and will continue with this when I am back."
                outbox.add_notice(tx, _find_address(tx, turn), text, topic="paused", turn_id=turn.id)

        await self._end(turn, unit)

    async def _end(self, turn: Turn, unit: Callable[[Transaction], None]) -> None:
        """Commit the end of a turn together with what it used, however it ends."""

        def settle(tx: Transaction) -> None:
            unit(tx)
            self.runner.meter.settle(tx, turn)  # after the reply: it may add a notice
            if turns.is_over(tx, turn.id):
                decisions.withdraw(tx, turn.id)

        await self.runner.db.write_when_possible(settle)
        self.runner.meter.close(turn)

    async def _fetch_and_open(self, turn: Turn) -> OpenedTurn:
        def tell(tx: Transaction, text: str) -> None:
            outbox.add_notice(tx, _find_address(tx, turn), text, topic="files", turn_id=turn.id)

        settings = await self.runner.db.read(lambda tx: self.runner.read_settings(tx, turn))
        sees = sees_images(settings.model) if settings.model else None
        model, vision = self.runner.find_model(turn, settings), self.runner.find_vision(turn)
        messages = await self.attachments.bring_in(turn.messages, tell, model, sees=sees, vision=vision)
        self.changes.notify("outbox", account=turn.address.account)  # about files that could not be read, if any
        return await self.runner.db.write_when_possible(lambda tx: self._write_messages(tx, turn, messages))

    def _write_messages(self, tx: Transaction, turn: Turn, messages: Sequence[Accepted]) -> OpenedTurn:
        # Once only: what was overheard after a crash belongs to the next turn.
        is_open = bool(transcripts.turn(tx, turn.session_id, turn.id))
        overheard = "" if is_open else chats.take_overheard(tx, turn.session_key)
        for message in messages:
            if compactions.read_order(message) is not None:
                continue
            said = Message(role="user", parts=render_for_model(message, overheard))
            transcripts.append(tx, turn.session_id, said, turn_id=turn.id, inbox_id=message.id)
            overheard = ""
        trail.record(tx, TrailEvent.OPENED, turn_id=turn.id)
        return self.runner.load(tx, turn, inbox.read_call(tx, turn.asked[-1].id))

    async def _reopen(self, turn: Turn, report: str) -> OpenedTurn:
        """Report a compaction, and load what is left for the messages that waited with the order."""

        def unit(tx: Transaction) -> OpenedTurn:
            _note_compaction(tx, turn, report)
            return self._write_messages(tx, turn, turn.messages)

        return await self.runner.db.write_when_possible(unit)

    async def _finish_order(self, turn: Turn, report: str) -> None:
        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):
                _end_stopped(tx, turn)
                return
            self._reply(tx, turn, [Text(text=report)], in_place=False)
            turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), Outcome.ANSWERED)

        await self._end(turn, unit)

    async def _answer(
        self, turn: Turn, outcome: TurnOutcome, call: ModelCall, opened: OpenedTurn, *, in_place: bool
    ) -> None:
        """Commit the answer. `call` is the model call that brought it, for the trail."""
        parts: tuple[Part, ...] = outcome.final.parts
        if not outcome.final.text.strip():
            parts = (Text(text="The model returned an empty answer. Please try again or rephrase your message."),)
        if self.enclosures is not None:
            parts = await self.enclosures.enclose(turn, parts, voice=opened.settings.voice)
        thoughts = "\n\n".join(message.reasoning for message in outcome.messages if message.reasoning)
        if opened.settings.show_reasoning and thoughts:
            parts = (Text(text=f"{quote_thoughts(thoughts)}\n"), *parts)
        file = await self._save_locally(turn, parts)

        def unit(tx: Transaction) -> None:
            if turns.stop_requested(tx, turn.id):  # the chat has just been told that the turn stopped
                _end_stopped(tx, turn)
                return
            transcripts.append(tx, turn.session_id, outcome.final, turn_id=turn.id)
            if turn.asked[0].kind == "message":
                sessions.set_title(tx, turn.session_id, title_of(turn.asked[0].said or turn.asked[0].text))
            media.record_parts(tx, parts)
            self._reply(tx, turn, parts, in_place=in_place, file=file)
            record_model_reply(tx, turn, call)
            turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), Outcome.ANSWERED)

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
                self._reply(tx, turn, [Text(text=text)], in_place=in_place, failed=True)
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
        outcome = Outcome.SUPERSEDED if is_followed else Outcome.STOPPED
        turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), outcome)

    async def _save_locally(self, turn: Turn, parts: Sequence[Part]) -> str:
        """Write the answer of a job that goes to no chat into a file, before the commit that refers to it."""
        if turn.run is None or turn.run.address is not None or self.job_files is None or is_nothing_to_tell(parts):
            return ""
        return await asyncio.to_thread(save_locally, self.job_files, turn.run, parts)

    def _reply(
        self,
        tx: Transaction,
        turn: Turn,
        parts: Sequence[Part],
        *,
        in_place: bool,
        failed: bool = False,
        file: str = "",
    ) -> None:
        if (run := turns.reload(tx, turn).run) is not None:
            conclude(tx, turn, run, parts, failed=failed, file=file, age_limit_ms=self._age_limit_ms)
            return
        if turn.is_in_background:
            webhook = turn.asked[-1].key.webhook
            heading = f"**Webhook {webhook}**" if webhook else f"**In the background:** {title_of(turn.asked[0].said)}"
            parts = [Text(text=f"{heading}\n"), *parts]
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
            age_limit_ms=self._age_limit_ms,
        )
        self._announce_reset(tx, turn)

    @property
    def _age_limit_ms(self) -> int:
        return int(self.runner.settings.gateway.outbox_age_limit_hours * 3_600_000)

    def _announce_reset(self, tx: Transaction, turn: Turn) -> None:
        """Add a notice to the first reply after the last conversation ended by itself."""
        before = sessions.find_unannounced_end(tx, turn.session_id)
        if before is None:
            return
        why = in_words(before.reason, self.resets.policy(before.platform, before.kind))
        text = f"This is a new conversation: {why}. Use /resume to go back to an old one."
        choices = (Choice(label="Continue the old one", action=f"continue:{before.id}"),)
        outbox.add_notice(tx, _find_address(tx, turn), text, topic="session reset", turn_id=turn.id, choices=choices)
        sessions.mark_announced(tx, before.id)


def _find_order(turn: Turn) -> int | None:
    targets = (compactions.read_order(message) for message in turn.asked)
    return next((target for target in targets if target is not None), None)


def _note_compaction(tx: Transaction, turn: Turn, text: str) -> None:
    if turn.run is None:  # nobody reads along there
        outbox.add_notice(tx, _find_address(tx, turn), text, topic="compaction", turn_id=turn.id)


def _end_stopped(tx: Transaction, turn: Turn) -> None:
    if turns.is_over(tx, turn.id):
        return
    _close(tx, turn, stopped_by_user, "(Stopped by the user.)")
    turns.finish(tx, turn.id, inbox.read_turn(tx, turn.id), Outcome.STOPPED)


def _close(tx: Transaction, turn: Turn, settle: Callable[[ToolCall], Message], last_words: str) -> None:
    """Give every open call a result and the request an answer, or the model would return to them later."""
    for call in open_calls(transcripts.turn(tx, turn.session_id, turn.id)):
        transcripts.append(tx, turn.session_id, settle(call), turn_id=turn.id)
    transcripts.append(tx, turn.session_id, assistant(last_words), turn_id=turn.id)


def _find_address(tx: Transaction, turn: Turn) -> Address:
    return turns.reload(tx, turn).address
