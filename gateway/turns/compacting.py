"""Shortens long conversations of the gateway and of the terminal: the store's side of `agent_core.compactor`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from agent_core.compactor import CompactionReport, CompactionRules, CompactionStep, Compactor
from agent_core.conversation import Message
from agent_core.model import Model
from gateway.store import compactions, trail
from gateway.store.compactions import Boundary, History
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.trail import TrailEvent
from tools.backends.base import Workplace

log = structlog.get_logger()

Tell = Callable[[Transaction, str], None]
"""Adds a silent note to the chat, in the transaction of what it is about."""

NOT_WORTH_IT = (
    "This conversation is nearly full, and summarising it has saved little ({before:,} → {after:,} tokens). "
    "/new starts a fresh one."
)
SHORTENED = (
    "To make room, I summarised the older part of this conversation ({before:,} → {after:,} tokens). "
    "All of it stays stored and searchable."
)


def describe(report: CompactionReport, target_tokens: int) -> str:
    """Return the answer to somebody who asked for a compaction."""
    before, after = report.tokens_before, report.tokens_after
    if report.changed:
        extract = "" if report.by_model else " The model wrote no summary, so an extract takes its place."
        return f"Compressed: about {before:,} tokens before, {after:,} after.{extract} All messages stay stored."
    if before <= target_tokens:
        shorter = f" /compress {before // 2} makes it shorter." if before >= 2_000 else ""
        return f"This conversation has about {before:,} tokens, less than the target of {target_tokens:,}.{shorter}"
    return f"Nothing could be compressed: the last turns alone have about {before:,} tokens. /new starts a fresh one."


def tell_nobody(tx: Transaction, text: str) -> None:
    """Say nothing: whoever asked for the compaction reads its report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting:
    """Builds the compactor of a turn."""

    db: Database
    window_of: Callable[[str], int] = lambda model: 128_000  # in tokens, by the model's name
    rules: CompactionRules = field(default_factory=CompactionRules)

    def open(
        self,
        session_id: str,
        turn_id: str,
        history: History,
        *,
        model: Model,
        auxiliary: Model,
        prompt_messages: int,
        workplace: Workplace | None,
        settle: Callable[[Transaction], None],
        tell: Tell,
    ) -> Compactor:
        """Return the compactor for a conversation of the history behind so many messages of a prompt."""
        return Compactor(
            window_tokens=self.window_of(model.name),
            auxiliary=auxiliary,
            auxiliary_window_tokens=self.window_of(auxiliary.name),
            ledger=_StoreLedger(self.db, session_id, turn_id, history.boundary, settle, tell),
            workplace=workplace,
            rules=self.rules,
            may_keep_head=history.is_whole,
            lead=history.lead + prompt_messages,
            summary=history.summary,
            counted=history.counted + prompt_messages if history.counted else 0,
            counted_tokens=history.counted_tokens,
            stuck_tokens=history.stuck_tokens,
        )


@dataclass(slots=True)
class _StoreLedger:
    """Implements `agent_core.compactor.Ledger`."""

    _db: Database
    _session_id: str
    _turn_id: str
    _at: Boundary
    _settle: Callable[[Transaction], None]
    _tell: Tell
    _has_steps: bool = False

    async def replace_results(self, stubs: Mapping[str, Message]) -> None:
        upto = min((self._at.upto, *self._at.pinned))
        await self._db.write_when_possible(lambda tx: compactions.replace_results(tx, self._session_id, upto, stubs))

    async def commit(self, step: CompactionStep) -> None:
        def unit(tx: Transaction) -> Boundary:
            moved = compactions.append(tx, self._session_id, self._at, step)
            self._settle(tx)
            return moved

        self._at = await self._db.write_when_possible(unit)
        self._has_steps = True

    async def finish(self, report: CompactionReport) -> None:
        """Record the end of a compaction, from which hooks are told, and tell the chat once."""
        before, after = report.tokens_before, report.tokens_after

        def unit(tx: Transaction) -> None:
            first = compactions.count(tx, self._session_id) <= (1 if self._has_steps else 0)
            was_stuck = compactions.is_stuck(tx, self._session_id)
            if not self._has_steps:
                compactions.note_size(tx, self._session_id, self._at, before=before, after=after)
            trail.record(
                tx,
                TrailEvent.COMPACTED,
                turn_id=self._turn_id,
                tokens_before=before,
                tokens_after=after,
                by_model=report.by_model,
            )
            if not report.is_worth_it and (self._has_steps or not was_stuck):
                self._tell(tx, NOT_WORTH_IT.format(before=before, after=after))
            elif report.is_worth_it and first:
                self._tell(tx, SHORTENED.format(before=before, after=after))
            self._settle(tx)

        await self._db.write_when_possible(unit)
        log.info("conversation shortened", before=before, after=after, by_model=report.by_model)
