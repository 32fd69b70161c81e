"""A chain of models: who is asked when, and what people see meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from agent_core.conversation import Message, assistant, user
from agent_core.events import Emit, Event, Restarted, TextDelta, Usage, ignore
from agent_core.model import (
    BrokenAnswer,
    ContextTooLong,
    Filtered,
    KeyRefused,
    ModelUnknown,
    NoCredit,
    NoEndpoint,
    Overloaded,
    ProviderError,
    RequestRefused,
    Unreachable,
)
from agent_core.models.fallback import FallbackModel
from playground.model_script import ModelRefusal, say
from playground.model_server import ModelServer
from tests.agent_core.served import chatting, endpoint
from tools.base import Tool


@dataclass
class Flaky:
    name: str
    errors: list[ProviderError | None] = field(default_factory=list)
    half: str = ""  # told before it fails
    asked: int = 0

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.asked += 1
        error = self.errors.pop(0) if self.errors else None
        if error:
            if self.half:
                emit(TextDelta(text=self.half))
            raise error
        emit(TextDelta(text=f"from {self.name}"))
        emit(Usage(input_tokens=1))
        return assistant(f"from {self.name}")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


async def _ask(chain: FallbackModel, emit: Emit = ignore) -> str:
    return (await chain.reply([user("hi")], (), emit)).text


@pytest.mark.parametrize(
    "kind", [Overloaded, Unreachable, NoCredit, KeyRefused, ModelUnknown, BrokenAnswer, NoEndpoint]
)
async def test_what_fails_the_model_fails_over(kind: type[ProviderError]) -> None:
    chain = FallbackModel([Flaky("a", [kind("no")]), Flaky("b")])
    assert await _ask(chain) == "from b"
    assert chain.name == "a"


@pytest.mark.parametrize(("kind", "level"), [(NoEndpoint, "error"), (KeyRefused, "error"), (Overloaded, "warning")])
async def test_what_only_the_operator_can_mend_is_logged_as_an_error(kind: type[ProviderError], level: str) -> None:
    with capture_logs() as logs:
        await _ask(FallbackModel([Flaky("a", [kind("no")]), Flaky("b")]))
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("model_out", level)]


@pytest.mark.parametrize("kind", [ContextTooLong, Filtered, RequestRefused])
async def test_what_fails_the_request_does_not(kind: type[ProviderError]) -> None:
    second = Flaky("b")
    with pytest.raises(kind):
        await _ask(FallbackModel([Flaky("a", [kind("no")]), second]))
    assert not second.asked


async def test_a_failed_model_rests_and_is_preferred_again_afterwards() -> None:
    clock, first = Clock(), Flaky("a", [Overloaded("no")])
    chain = FallbackModel([first, Flaky("b")], cooldown_seconds=60, clock=clock)
    assert await _ask(chain) == "from b"
    clock.now += 59
    assert await _ask(chain) == "from b"
    assert first.asked == 1
    clock.now += 2
    assert await _ask(chain) == "from a"


async def test_it_rests_as_long_as_it_asked_for() -> None:
    clock = Clock()
    chain = FallbackModel([Flaky("a", [Overloaded("no", retry_after_seconds=300)]), Flaky("b")], clock=clock)
    await _ask(chain)
    clock.now += 299
    assert await _ask(chain) == "from b"
    clock.now += 2
    assert await _ask(chain) == "from a"


async def test_a_resting_model_is_asked_rather_than_nobody() -> None:
    chain = FallbackModel([Flaky("a", [Overloaded("no")]), Flaky("b", [None, Unreachable("gone")])], clock=Clock())
    assert await _ask(chain) == "from b"
    assert await _ask(chain) == "from a"


async def test_when_all_fail_the_first_error_is_told() -> None:
    chain = FallbackModel([Flaky("a", [NoCredit("pay")]), Flaky("b", [Unreachable("gone")])])
    with pytest.raises(NoCredit, match="pay"):
        await _ask(chain)


async def test_half_an_answer_is_taken_back_before_another_model_speaks() -> None:
    events: list[Event] = []
    chain = FallbackModel([Flaky("a", [Unreachable("gone")], half="Hel"), Flaky("b")])
    assert await _ask(chain, events.append) == "from b"
    assert events == [TextDelta(text="Hel"), Restarted(), TextDelta(text="from b"), Usage(input_tokens=1)]


async def test_nothing_is_taken_back_when_nothing_was_told() -> None:
    events: list[Event] = []
    await _ask(FallbackModel([Flaky("a", [Unreachable("gone")]), Flaky("b")]), events.append)
    assert Restarted() not in events


async def test_a_chain_of_real_clients_tells_one_answer() -> None:
    async with ModelServer() as first, ModelServer() as second:
        cut = say("Hel", "lo", stops_before="lo", ending="cut")
        first.script(cut, cut, cut, ModelRefusal(status=503))
        second.script(say("Good ", "day"))
        async with chatting(first) as chat, chatting(second, at=endpoint(second)) as other:
            chain = FallbackModel([chat.model, other.model])
            chat.model = chain  # type: ignore[assignment]
            outcome = await chat.say("hi")
            assert outcome.final.text == chat.shown == "Good day"
            await chain.aclose()
