"""Tells a reply that may have to be begun again, so that nobody shows a text twice."""

from agent_core.events import Emit, Event, ReasoningDelta, Restarted, TextDelta


class RestartableEmit:
    """Passes events on. After `restart`, what was told is taken back before anything new is told.

    It is taken back as late as possible: half an answer stays on the screen until there is a better one.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._told = False
        self._take_back = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Restarted):
            self.restart()
            self.settle()
            return
        if isinstance(event, TextDelta | ReasoningDelta):
            self.settle()
            self._told = True
        self._emit(event)

    def restart(self) -> None:
        self._take_back = self._told

    def settle(self) -> None:
        """Takes back what is still to be taken back; called once the reply is complete."""
        if self._take_back:
            self._emit(Restarted())
            self._told = self._take_back = False
