"""The real client against the strict model server, through real turns."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from agent_core.conversation import ListJournal, Message, user
from agent_core.events import Event, ReasoningDelta, Restarted, TextDelta, Usage
from agent_core.models.openai import OpenAIModel
from agent_core.models.providers import Endpoint
from agent_core.models.retries import Retries, Timeouts
from agent_core.result import TurnOutcome
from agent_core.turn import run_turn
from playground.model_server import ModelServer
from tests.agent_core.scripted import CONTEXT
from tools.base import Tool
from tools.content import Text

SYSTEM = Message(role="system", parts=(Text(text="You are a test."),))
AMPLE = Timeouts(connect_seconds=5, first_byte_seconds=60, idle_seconds=60, whole_seconds=60)
# Each short at one stage only, so that no other clock can do its work.
QUIET = replace(AMPLE, first_byte_seconds=0.5)
STALLING = replace(AMPLE, idle_seconds=0.5)
SLOW = replace(AMPLE, whole_seconds=0.6)


@dataclass
class Chat:
    """One session: what is said, what a screen shows of it, and what the waits would have been."""

    model: OpenAIModel
    tools: Sequence[Tool] = ()
    history: list[Message] = field(default_factory=lambda: [SYSTEM])
    events: list[Event] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    max_iterations: int = 60

    async def say(self, text: str) -> TurnOutcome:
        self.events.clear()
        self.history.append(user(text))
        journal = ListJournal()
        try:
            outcome = await run_turn(
                model=self.model,
                tools=self.tools,
                messages=self.history,
                journal=journal,
                context=CONTEXT,
                emit=self.events.append,
                max_iterations=self.max_iterations,
            )
        except BaseException:
            self.history += journal.messages
            raise
        self.history += outcome.messages
        return outcome

    @property
    def shown(self) -> str:
        """What somebody sees who follows the events of the last turn's last reply."""
        text = ""
        for event in self.events:
            match event:
                case TextDelta():
                    text += event.text
                case Restarted():
                    text = ""
        return text

    @property
    def thoughts(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def usages(self) -> list[Usage]:
        return [event for event in self.events if isinstance(event, Usage)]


def endpoint(server: ModelServer, **changes: Any) -> Endpoint:
    known = {"provider": "Playground", "model": server.models[0], "base_url": server.url, "key": server.api_key}
    return Endpoint(**(known | changes))


@asynccontextmanager
async def chatting(
    server: ModelServer,
    *,
    stream: bool = True,
    tools: Sequence[Tool] = (),
    timeouts: Timeouts = AMPLE,
    retries: Retries | None = None,
    at: Endpoint | None = None,
    **options: Any,
) -> AsyncGenerator[Chat]:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    model = OpenAIModel(
        at or endpoint(server), stream=stream, timeouts=timeouts, retries=retries or Retries(), sleep=note, **options
    )
    try:
        yield Chat(model=model, tools=tools, waits=waits)
    finally:
        await model.aclose()
