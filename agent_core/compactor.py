"""Ask a model with a conversation that fits its window: shorten the conversation before, when it must be.

What is shortened how is decided in `compaction`. Here the summaries are asked for, one chunk of messages at a time, and
each is committed before the next, so that a crash loses at most one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from agent_core import compaction
from agent_core.compaction import Cut, Summary, measure
from agent_core.conversation import Message
from agent_core.events import Emit, Event, Usage, ignore
from agent_core.model import ContextTooLong, Model, ModelError
from agent_core.tokens import estimate_tools
from tools.backends.base import Workplace
from tools.base import Tool

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MIN_SAVING = 0.2  # less than that is not worth the loss: wait until the conversation has grown
_LARGEST_CHUNK_TOKENS = 40_000
_MIN_DENSITY, _MAX_DENSITY = 0.4, 3.0  # a count beyond these is a mistake
_SMALLEST_CHUNK_TOKENS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    threshold: float = 0.85  # the share of the window at which a conversation is shortened
    target_tokens: int = 50_000
    keep_turns: int = 15
    max_messages: int = 400
    timeout_seconds: float = 60.0  # of one summary


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStep:
    """One committed step. Messages are counted without results of tools, from the first one behind the summary."""

    summary: Summary
    head: int = 0  # the first messages of the session, which stay before the summary; given once
    covers: int = 0
    pinned: tuple[int, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    tokens_before: int
    tokens_after: int
    by_model: bool = True  # False when the summary is an extract that no model wrote
    is_worth_it: bool = True

    @property
    def changed(self) -> bool:
        return self.tokens_after < self.tokens_before


class Ledger(Protocol):
    """Remembers how a conversation was shortened. Each call returns once it is durable."""

    async def replace_results(self, stubs: Mapping[str, Message]) -> None:
        """Replace results of tools, by call, in what models are shown."""

    async def commit(self, step: CompactionStep) -> None: ...

    async def finish(self, report: CompactionReport) -> None: ...


class Asking(Protocol):
    """Asks the model of a turn."""

    async def ask(
        self, model: Model, conversation: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> tuple[Sequence[Message], Message]:
        """Return the conversation as the model was shown it, and the model's reply; raises ModelError."""


class AskWhole:
    """Asks with the whole conversation, whatever its length."""

    async def ask(
        self, model: Model, conversation: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> tuple[Sequence[Message], Message]:
        return conversation, await model.reply(conversation, tools, emit, may_call=may_call)


@dataclass(slots=True, kw_only=True)
class Compactor:
    """Implements `Asking` for one turn. `lead` messages (the prompt, the first exchange, the summary) precede the rest
    of the conversation it is given; `counted` of its messages took `counted_tokens` with the prompt and the tools."""

    window_tokens: int
    auxiliary: Model
    auxiliary_window_tokens: int
    ledger: Ledger
    workplace: Workplace | None = None  # where long results are stored
    rules: CompactionRules = field(default_factory=CompactionRules)
    may_keep_head: bool = True
    lead: int = 0
    summary: Summary | None = None
    counted: int = 0
    counted_tokens: int = 0
    stuck_tokens: int = 0  # the size at which shortening last saved too little
    _density: float = 1.0  # tokens as counted by the provider, for each that we estimate
    _is_calibrated: bool = False
    _gave_up: bool = False  # on the auxiliary model, for this compaction

    async def ask(
        self, model: Model, conversation: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> tuple[Sequence[Message], Message]:
        shown = await self._fit(conversation, tools)
        usage = _LastUsage(emit)
        try:
            reply = await model.reply(shown, tools, usage, may_call=may_call)
        except ContextTooLong as error:
            log.warning("context too long", model=model.name, window=error.window_tokens)
            size = self._learn(error, shown, tools)
            smaller, report = await self.compress(shown, tools, target_tokens=min(self._target, size) // 2)
            if not report.changed:
                raise
            shown = smaller
            reply = await model.reply(shown, tools, usage, may_call=may_call)
        if usage.last and usage.last.input_tokens:
            self.counted, self.counted_tokens = len(shown), usage.last.input_tokens
            self._is_calibrated = False  # most turns end here and never need it
        return shown, reply

    async def compress(
        self, conversation: Sequence[Message], tools: Sequence[Tool], *, target_tokens: int | None = None
    ) -> tuple[Sequence[Message], CompactionReport]:
        """Shorten the conversation now; return it and what that saved."""
        self._gave_up = False
        before = self.size(conversation, tools)
        target = self._target if target_tokens is None else target_tokens
        shown = await self._replace_results(list(conversation))
        by_model = True
        if self.size(shown, tools) > target or len(shown) > self.rules.max_messages:
            shown, by_model = await self._summarise(shown, tools, target, before)
        after = self.size(shown, tools)
        worth = after <= before * (1 - MIN_SAVING)
        self.stuck_tokens = 0 if worth else after
        report = CompactionReport(tokens_before=before, tokens_after=after, by_model=by_model, is_worth_it=worth)
        if report.changed or before > target:
            await self.ledger.finish(report)
        return shown, report

    def size(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> int:
        """Return the tokens of a conversation: as the provider counted them, and estimated for what it never got."""
        sizes = [measure(message) for message in conversation]
        if self.counted and not self._is_calibrated:
            # Correct our estimates by what the provider has counted.
            estimated = max(sum(sizes[: self.counted]) + estimate_tools(tools), 1)
            self._density = min(max(self.counted_tokens / estimated, _MIN_DENSITY), _MAX_DENSITY)
            self._is_calibrated = True
        if not self.counted:
            return round((sum(sizes) + estimate_tools(tools)) * self._density)
        # Some servers count only what they had not cached.
        return round(max(self.counted_tokens + sum(sizes[self.counted :]) * self._density, sum(sizes) * _MIN_DENSITY))

    @property
    def _target(self) -> int:
        return min(self.rules.target_tokens, self.window_tokens // 2)

    async def _fit(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Sequence[Message]:
        size = self.size(conversation, tools)
        is_full = size > self.window_tokens * self.rules.threshold or len(conversation) > self.rules.max_messages
        if not is_full or size < self.stuck_tokens * (1 + MIN_SAVING):
            return conversation
        return (await self.compress(conversation, tools))[0]

    def _learn(self, error: ContextTooLong, shown: Sequence[Message], tools: Sequence[Tool]) -> int:
        """Correct the window, or else our measure, by the limit that the provider has just enforced; return the size.

        Its earlier counts are forgotten: they may be what was wrong.
        """
        self._forget_count()
        size = self.size(shown, tools)
        limit = error.window_tokens or size
        self.window_tokens = min(self.window_tokens, limit)
        if size < limit:
            self._density = min(self._density * limit / max(size, 1), _MAX_DENSITY)
        return self.size(shown, tools)

    def _forget_count(self) -> None:
        self.counted = self.counted_tokens = 0

    async def _replace_results(self, shown: list[Message]) -> list[Message]:
        results = compaction.choose_stubs(shown[self.lead :])
        if not results:
            return shown
        text, lines = compaction.write_kept_file(results)
        path = await self.workplace.keep_text(text) if self.workplace else ""

        def make_stubs() -> dict[str, Message]:
            return {one.tool_call_id: compaction.make_stub(one, path, lines[one.tool_call_id]) for one in results}

        stubs = await asyncio.to_thread(make_stubs)  # megabytes may be searched for facts
        await self.ledger.replace_results(stubs)
        self._forget_count()
        # By identity: before the tail, another call may have had the same id.
        replaced = {id(one): stubs[one.tool_call_id] for one in results}
        return [replaced.get(id(message), message) for message in shown]

    async def _summarise(
        self, shown: list[Message], tools: Sequence[Tool], target: int, before: int
    ) -> tuple[list[Message], bool]:
        fixed = (sum(map(measure, shown[: self.lead])) + estimate_tools(tools)) * self._density
        own = max(target // 6, 300)  # of a summary; the facts carried along with it may be as long again
        room = max(int((target - fixed) / self._density) - (0 if self.summary else 2 * own), target // 8)
        by_model = True
        while True:
            tail = shown[self.lead :]
            cut = compaction.choose_cut(
                tail,
                room_tokens=room,
                keep_turns=self.rules.keep_turns,
                may_keep_head=self.may_keep_head and self.summary is None,
            )
            if cut.covers <= len(cut.pinned) + cut.head:
                return shown, by_model
            chunk = self._next_chunk(tail, cut)
            covered = [tail[place] for place in range(chunk.head, chunk.covers) if place not in chunk.pinned]
            summary, written = await self._write_summary(covered, own)
            by_model = by_model and written
            shown = await self._commit(shown, chunk, summary, tools, before)
            if chunk.covers == cut.covers:
                return shown, by_model

    def _next_chunk(self, tail: Sequence[Message], cut: Cut) -> Cut:
        """Return the cut, or the first part of it, as large as the auxiliary model can read at once."""
        room = min(int(self.auxiliary_window_tokens * 0.5 / self._density), _LARGEST_CHUNK_TOKENS)
        end = (
            cut.head
            + compaction.split_chunks(tail[cut.head : cut.covers], max_tokens=max(room, _SMALLEST_CHUNK_TOKENS))[0]
        )
        if end >= cut.covers or end <= cut.head:
            return cut
        return replace(cut, covers=end, pinned=tuple(place for place in cut.pinned if place < end))

    async def _commit(
        self, shown: list[Message], cut: Cut, summary: Summary, tools: Sequence[Tool], before: int
    ) -> list[Message]:
        lead, tail = shown[: self.lead], shown[self.lead :]
        if self.summary is not None:
            lead = lead[:-1]
        lead = [*lead, *tail[: cut.head], summary.to_message()]
        rest = [*(tail[place] for place in cut.pinned), *tail[cut.covers :]]
        self._forget_count()
        shorter = [*lead, *rest]
        spoken = [place for place, message in enumerate(tail) if message.role != "tool"]
        step = CompactionStep(
            summary=summary,
            head=sum(place < cut.head for place in spoken),
            covers=sum(place < cut.covers for place in spoken),
            pinned=tuple(spoken.index(place) for place in cut.pinned),
            tokens_before=before,
            tokens_after=self.size(shorter, tools),
        )
        await self.ledger.commit(step)
        self.lead, self.summary = len(lead), summary
        return shorter

    async def _write_summary(self, messages: Sequence[Message], max_tokens: int) -> tuple[Summary, bool]:
        text = "" if self._gave_up else await self._ask_for_summary(messages, max_tokens)
        before = self.summary

        def write() -> Summary:
            told = text or compaction.extract(before, messages, max_tokens=max_tokens)
            return compaction.complete(before, told, messages, max_tokens=max_tokens)

        return await asyncio.to_thread(write), bool(text)

    async def _ask_for_summary(self, messages: Sequence[Message], max_tokens: int) -> str:
        """Return the auxiliary model's summary; empty when it failed in any way."""
        asked = compaction.request_summary(self.summary, messages, words=max_tokens // 2)
        try:
            async with asyncio.timeout(self.rules.timeout_seconds):
                text = (await self.auxiliary.reply(asked, (), ignore)).text.strip()
        except (ModelError, TimeoutError) as error:
            log.warning("summary failed", model=self.auxiliary.name, error=type(error).__name__)
            if isinstance(error, ContextTooLong):  # the next chunk is smaller
                window = min(error.window_tokens or self.auxiliary_window_tokens, self.auxiliary_window_tokens)
                self.auxiliary_window_tokens = window // 2
            else:
                self._gave_up = True  # the user is waiting
            return ""
        if not compaction.is_complete(text):
            log.warning("summary incomplete", model=self.auxiliary.name, chars=len(text))
            return ""
        return compaction.trim(text, max_tokens)


class _LastUsage:
    """Passes events on and remembers the last count."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.last: Usage | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Usage):
            self.last = event
        self._emit(event)
