"""Shows a running turn in its chat: typing, reactions, progress, a draft. Best effort: the store has what counts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import structlog

from agent_core.conversation import ToolCall
from agent_core.events import (
    Done,
    Emit,
    Event,
    ReasoningDelta,
    Restarted,
    TextDelta,
    ToolFinished,
    ToolReported,
    ToolStarted,
    ToolWaiting,
    ignore,
)
from gateway.clock import now_ms
from gateway.errors import GatewayError
from gateway.messages import Address, Progress, Text, ToolProgress, ToolProgressMode, parse_tool_progress_mode
from gateway.outbound.drafts import Drafts, DraftState
from gateway.outbound.progress import DraftContent
from gateway.platforms.base import Mark, Reacts, ShowsTyping
from gateway.store.turns import Turn
from hermes_config.redaction import Redactor, Stream

log = structlog.get_logger()

Show = Callable[[Address, Progress], None]
Job = Callable[[], Awaitable[None]]

_LONGEST_TYPING_SECONDS = 3600.0  # a turn that hangs must not type for ever
_SETTLE_SECONDS = 2.0  # how long an answer waits for a change of its draft that is under way
_REACTION_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """The settings for how much is shown, and when."""

    tool_progress: ToolProgressMode = "new"  # in direct messages; in groups nothing, unless somebody asks for it
    typing_seconds: float = 4.0
    typing_after_seconds: float = 0.2  # an answer that is there at once needs no typing, and would be followed by it
    draft_after_seconds: float = 2.0
    seen_after_seconds: float = 1.0
    watching_seconds: float = 10.0  # whoever was answered so soon is still looking, and need not be rung


@dataclass(slots=True)
class ShownTurn:
    """A running turn that its chat can watch."""

    turn: Turn
    emit: Emit
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    waits_for_human: bool = False
    draft: DraftState | None = None
    is_marked: bool = False
    marking: asyncio.Lock = field(default_factory=asyncio.Lock)  # a reaction is removed only after it was added
    finishes_in_place: bool = False  # set when it has ended: the draft becomes the answer


@dataclass(slots=True)
class LiveReply:
    redactor: Redactor  # hides secrets in everything that is shown
    shows: Mapping[str, Show] = field(default_factory=dict)  # by account
    types: Mapping[str, ShowsTyping] = field(default_factory=dict)  # by account
    reacts: Mapping[str, Reacts] = field(default_factory=dict)  # by account
    drafts: Drafts | None = None
    showing: Showing = field(default_factory=Showing)
    _jobs: asyncio.Queue[tuple[str, Job]] = field(default_factory=asyncio.Queue)

    @asynccontextmanager
    async def watch(self, turn: Turn, verbosity: str = "") -> AsyncIterator[ShownTurn]:
        """Show the turn while the context is open. `verbosity`: the mode chosen in this conversation, if any."""
        loop = asyncio.get_running_loop()
        watched = self._start(turn, verbosity)
        timers = [loop.call_later(after, self._jobs.put_nowait, job) for after, job in self._list_jobs(watched)]
        show: Show = self.shows.get(turn.address.account) or (lambda _address, _progress: None)
        show(turn.address, Progress(turn=turn.id, what="started"))
        failed = False
        try:
            yield watched
        except Exception:
            failed = True
            raise
        finally:
            watched.ended.set()
            for timer in timers:
                timer.cancel()
            show(turn.address, Progress(turn=turn.id, what="ended"))
            # A turn that is resumed after a crash may carry a reaction from before.
            if watched.is_marked or ((failed or turn.resumes) and self._gets_reactions(turn)):
                self._jobs.put_nowait(("mark", lambda: self._mark(watched, "failed" if failed else "")))
            await self._settle(watched)

    async def run(self) -> None:
        """Run the jobs of all turns, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.drafts is not None:
                group.create_task(self.drafts.tidy(), name="delete drafts")
            while True:
                name, job = await self._jobs.get()
                group.create_task(_run_contained(name, job), name=name)

    def _start(self, turn: Turn, verbosity: str) -> ShownTurn:
        address = turn.address
        watched = ShownTurn(turn, ignore)
        show = self.shows.get(address.account)
        style = self.drafts.style(address) if self.drafts is not None else None
        if style is not None:
            usual: ToolProgressMode = "off" if turn.is_shared else self.showing.tool_progress
            content = DraftContent(parse_tool_progress_mode(verbosity) or usual)
            watched.draft = DraftState(
                turn_id=turn.id, address=address, style=style, content=content, ended=watched.ended
            )

        def tell(event: Event) -> None:
            if isinstance(event, ToolWaiting):
                watched.waits_for_human = event.waits
            if watched.draft is not None:
                watched.draft.content.take(event)
            if show is not None and (progress := _progress(turn.id, event)):
                show(address, progress)

        watched.emit = RedactingEmitter(self.redactor, tell)
        return watched

    def _list_jobs(self, watched: ShownTurn) -> list[tuple[float, tuple[str, Job]]]:
        """Return what is shown of a turn that takes its time, each with the seconds after which it starts."""
        address, showing = watched.turn.address, self.showing
        jobs: list[tuple[float, tuple[str, Job]]] = []
        if address.account in self.types:
            jobs.append((showing.typing_after_seconds, (f"typing {address.chat}", lambda: self._type(watched))))
        if self._gets_reactions(watched.turn):
            jobs.append((showing.seen_after_seconds, (f"seen {address.chat}", lambda: self._mark(watched, "seen"))))
        if self.drafts is not None and (state := watched.draft) is not None:
            show = self.drafts.show_until_end
            jobs.append((showing.draft_after_seconds, (f"draft {address.chat}", lambda: show(state))))
        return jobs

    def _gets_reactions(self, turn: Turn) -> bool:
        return turn.is_shared and turn.address.account in self.reacts

    async def _settle(self, watched: ShownTurn) -> None:
        """Wait until no change of the draft can overtake the answer."""
        state = watched.draft
        if state is None or self.drafts is None:
            return
        if watched.turn.resumes:
            self.drafts.tidy_soon()  # an earlier run of this turn may have left one
        if state.is_begun:
            try:
                async with asyncio.timeout(_SETTLE_SECONDS):
                    await state.is_settled.wait()
            except TimeoutError:
                log.info("draft still being sent", account=state.address.account)
        # A late edit cannot restore a deleted draft, but would overwrite an answer.
        is_safe = not state.is_begun or (state.is_settled.is_set() and not state.is_in_doubt)
        is_soon = now_ms() - watched.turn.asked[-1].asked_ms < self.showing.watching_seconds * 1000
        watched.finishes_in_place = is_safe and (state.style.rings or is_soon)

    async def _mark(self, watched: ShownTurn, mark: Mark) -> None:
        if mark == "seen":
            if watched.ended.is_set():
                return
            watched.is_marked = True
        try:
            async with watched.marking, asyncio.timeout(_REACTION_SECONDS):
                await self.reacts[watched.turn.address.account].react(watched.turn.address, mark)
        except (GatewayError, TimeoutError) as error:  # nobody relies on it
            log.debug("reaction not shown", account=watched.turn.address.account, problem=str(error))

    async def _type(self, watched: ShownTurn) -> None:
        """Show "typing" while the turn runs and does not wait for a person."""
        address = watched.turn.address
        platform = self.types[address.account]
        try:
            async with asyncio.timeout(_LONGEST_TYPING_SECONDS):
                while not watched.ended.is_set():
                    try:
                        if not watched.waits_for_human:
                            async with asyncio.timeout(self.showing.typing_seconds):
                                await platform.show_typing(address)
                    except (GatewayError, TimeoutError) as error:  # nobody relies on it
                        log.debug("typing not shown", account=address.account, problem=str(error))
                    except Exception:  # contained: the next call may do better
                        log.exception("typing failed", account=address.account)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self.showing.typing_seconds):
                            await watched.ended.wait()
        except TimeoutError:
            log.info("typing for too long", chat=address.chat)


async def _run_contained(name: str, job: Job) -> None:
    try:
        await job()
    except Exception:  # contained: inside this TaskGroup it would end the gateway
        log.exception("not shown", what=name)


class RedactingEmitter:
    """Passes events on without the secrets in them, before anything is truncated: half a secret is one too many."""

    def __init__(self, redactor: Redactor, emit: Emit) -> None:
        self._redactor = redactor
        self._emit = emit
        self._text, self._reasoning = Stream(redactor), Stream(redactor)

    def __call__(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._emit_delta(TextDelta(text=self._text.feed(event.text)))
            case ReasoningDelta():
                self._emit_delta(ReasoningDelta(text=self._reasoning.feed(event.text)))
            case Restarted():
                self._text.forget()
                self._reasoning.forget()
                self._emit(event)
            case ToolStarted(call=call):
                self._flush()
                self._emit(replace(event, call=_clean_call(self._redactor, call)))
            case ToolFinished(call=call, result=result):
                text = self._redactor.clean_json(result.text)
                cleaned = result if text == result.text else replace(result, parts=(Text(text=text),))
                self._emit(replace(event, call=_clean_call(self._redactor, call), result=cleaned))
            case ToolReported():
                line = self._redactor.clean(event.line)
                self._emit(replace(event, call=_clean_call(self._redactor, event.call), line=line))
            case Done():
                self._flush()
                self._emit(event)
            case _:
                self._emit(event)

    def _emit_delta(self, delta: TextDelta | ReasoningDelta) -> None:
        if delta.text:
            self._emit(delta)

    def _flush(self) -> None:
        """Emit the text held back so far: the model has finished speaking."""
        self._emit_delta(ReasoningDelta(text=self._reasoning.rest()))
        self._emit_delta(TextDelta(text=self._text.rest()))


def _clean_call(redactor: Redactor, call: ToolCall) -> ToolCall:
    return replace(call, name=redactor.clean(call.name), arguments=redactor.clean_json(call.arguments))


def _progress(turn: str, event: Event) -> Progress | None:
    match event:
        case TextDelta():
            return Progress(turn=turn, what="text", text=event.text)
        case ReasoningDelta():
            return Progress(turn=turn, what="reasoning", text=event.text)
        case Restarted():
            return Progress(turn=turn, what="restart")
        case ToolStarted(call=call):
            tool = ToolProgress(id=call.id, name=call.name, arguments=call.arguments)
            return Progress(turn=turn, what="tool", tool=tool)
        case ToolFinished(call=call, result=result):
            tool = ToolProgress(
                id=call.id, name=call.name, arguments=call.arguments, result=result.text, error=result.is_error
            )
            return Progress(turn=turn, what="tool", tool=tool)
        case _:
            return None
