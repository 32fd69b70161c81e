"""What a turn's calls took, with a clock that moves when it is told to."""

from dataclasses import dataclass

import pytest

from agent_core.events import Event, TextDelta, Usage
from gateway.stopwatch import ModelCall, Stopwatch


@dataclass
class Hands:
    """Stands in for the module `time`."""

    seconds: float = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr("gateway.stopwatch.time", hands)
    return hands


def test_a_turn_call_by_call(hands: Hands) -> None:
    seen: list[Event] = []
    watch = Stopwatch(seen.append)
    hands.seconds += 0.5
    events: list[Event] = [
        TextDelta(text="a"),
        Usage(input_tokens=10, output_tokens=1),
        Usage(input_tokens=5, output_tokens=2),
    ]
    for event in events:
        watch(event)
    assert watch.model_replied() == ModelCall(ms=500, input_tokens=15, output_tokens=3, context_tokens=7)
    assert seen == events

    watch.tool_started("a")
    hands.seconds += 0.25
    watch.tool_started("b")
    hands.seconds += 0.25
    assert watch.tool_finished("a") == 500
    assert watch.tool_finished("b") == 250
    hands.seconds += 1
    assert watch.model_replied() == ModelCall(ms=1_000)  # from the tools' end on, and without the first call's tokens


def test_a_tool_of_an_earlier_process_has_no_time(hands: Hands) -> None:
    assert Stopwatch(lambda event: None).tool_finished("a") is None
