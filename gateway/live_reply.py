"""Shows a running turn to whoever watches its chat. Promises nothing: what counts is in the store."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from agent_core.events import Emit, Event, ReasoningDelta, Restarted, TextDelta, ToolFinished, ToolStarted
from gateway.messages import Address, Progress, ToolProgress
from gateway.store.turns import Turn

Show = Callable[[Address, Progress], None]


@dataclass(frozen=True, slots=True)
class LiveReply:
    shows: Mapping[str, Show]  # by account: those that can show progress

    @contextmanager
    def watch(self, turn: Turn) -> Iterator[Emit]:
        address = turn.messages[-1].address
        show = self.shows.get(address.account)
        if show is None:
            yield _nobody_watches
            return

        def emit(event: Event) -> None:
            if progress := _progress(turn.id, event):
                show(address, progress)

        show(address, Progress(turn=turn.id, what="started"))
        try:
            yield emit
        finally:
            show(address, Progress(turn=turn.id, what="ended"))


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
