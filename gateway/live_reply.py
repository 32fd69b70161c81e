"""Shows a running turn to whoever watches its chat. Promises nothing: what counts is in the store."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from agent_core.events import Emit, Event, ReasoningDelta, Restarted, TextDelta, ToolFinished, ToolStarted
from gateway.errors import GatewayError
from gateway.messages import Address, Progress, ToolProgress
from gateway.platforms.base import ShowsTyping
from gateway.store.turns import Turn

log = structlog.get_logger()

Show = Callable[[Address, Progress], None]

_LONGEST_TYPING_SECONDS = 3600.0  # a turn that hangs must not type for ever


@dataclass(slots=True)
class LiveReply:
    shows: Mapping[str, Show]  # by account: those that can show progress
    types: Mapping[str, ShowsTyping] = field(default_factory=dict)  # by account: those that can show typing
    typing_seconds: float = 4.0
    typing_after_seconds: float = 0.2  # an answer that is there at once needs no typing, and would be followed by it
    _started: asyncio.Queue[tuple[Address, asyncio.Event]] = field(default_factory=asyncio.Queue)

    @contextmanager
    def watch(self, turn: Turn) -> Iterator[Emit]:
        address = turn.address
        show = self.shows.get(address.account, _shown_nowhere)
        ended = asyncio.Event()
        typing: asyncio.TimerHandle | None = None
        if address.account in self.types:
            later = asyncio.get_running_loop().call_later
            typing = later(self.typing_after_seconds, self._started.put_nowait, (address, ended))

        def emit(event: Event) -> None:
            if progress := _progress(turn.id, event):
                show(address, progress)

        show(address, Progress(turn=turn.id, what="started"))
        try:
            yield emit if show is not _shown_nowhere else _nobody_watches
        finally:
            ended.set()
            if typing is not None:
                typing.cancel()
            show(address, Progress(turn=turn.id, what="ended"))

    async def run(self) -> None:
        """Says "typing" for every turn as long as it runs, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                address, ended = await self._started.get()
                group.create_task(self._type(address, ended), name=f"typing {address.chat}")

    async def _type(self, address: Address, ended: asyncio.Event) -> None:
        platform = self.types[address.account]
        try:
            async with asyncio.timeout(_LONGEST_TYPING_SECONDS):
                while not ended.is_set():
                    await self._type_once(platform, address)
                    try:
                        async with asyncio.timeout(self.typing_seconds):
                            await ended.wait()
                    except TimeoutError:
                        continue
        except TimeoutError:
            log.info("typing for too long", chat=address.chat)

    async def _type_once(self, platform: ShowsTyping, address: Address) -> None:
        try:
            async with asyncio.timeout(self.typing_seconds):
                await platform.show_typing(address)
        except (GatewayError, TimeoutError) as error:  # the next call may do better, and nobody relies on it
            log.debug("typing not shown", account=address.account, problem=str(error))
        except Exception:  # contained: inside this TaskGroup it would end everybody's typing, and the gateway
            log.exception("typing failed", account=address.account)


def _shown_nowhere(address: Address, progress: Progress) -> None:
    pass


def _nobody_watches(event: Event) -> None:
    pass


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
