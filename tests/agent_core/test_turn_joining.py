"""What is said while a turn runs comes between the tools and the model's next word."""

from collections.abc import Sequence

from agent_core.conversation import ListJournal, Message, tool_result, user
from agent_core.history import iterations_used
from tests.agent_core.scripted import ScriptedModel, answering, asks, call
from tests.agent_core.test_turn import ANSWER, QUESTION, turn

ALSO = user("also the logs")


class Doorway:
    """Where people stand who want to join."""

    def __init__(self, *comes: Sequence[Message]) -> None:
        self.comes = list(comes)
        self.looks = 0

    async def __call__(self) -> Sequence[Message]:
        self.looks += 1
        return self.comes.pop(0) if self.comes else ()


async def test_it_stands_behind_the_results_when_the_model_is_asked_again() -> None:
    asking, journal = asks(call("look")), ListJournal()
    model = ScriptedModel([asking, ANSWER])
    outcome = await turn(model, [answering("look")], journal=journal, joining=Doorway([ALSO]))
    told = tool_result(call("look"), "done")
    assert model.asked[1] == (QUESTION, asking, told, ALSO)
    assert outcome.messages == (asking, told, ALSO, ANSWER)
    assert ALSO not in journal.messages, "whoever brings it has written it down"


async def test_nobody_is_let_in_before_the_first_tools_or_after_the_last_word() -> None:
    doorway = Doorway([ALSO])
    await turn(ScriptedModel([ANSWER]), joining=doorway)
    assert doorway.looks == 0


async def test_it_is_asked_for_after_every_batch_of_tools() -> None:
    doorway = Doorway((), [ALSO])
    model = ScriptedModel([asks(call("a"), call("b")), asks(call("a", call_id="2")), ANSWER])
    await turn(model, [answering("a"), answering("b")], joining=doorway)
    assert doorway.looks == 2
    assert (ALSO in model.asked[1], ALSO in model.asked[2]) == (False, True)


async def test_after_a_restart_it_is_asked_for_before_the_model() -> None:
    cut = (asks(call("a")), tool_result(call("a"), "1"))
    model = ScriptedModel([ANSWER])
    await turn(model, [answering("a")], (QUESTION, *cut), joining=Doorway([ALSO]))
    assert model.asked == [(QUESTION, *cut, ALSO)]


async def test_steps_are_counted_since_it_came_as_they_would_be_after_a_restart() -> None:
    steps = [asks(call("a", call_id=str(number))) for number in range(3)]
    model = ScriptedModel([*steps, ANSWER])
    outcome = await turn(model, [answering("a")], joining=Doorway([ALSO]), max_iterations=2)
    assert model.free == [True, True, True, False]
    assert iterations_used([QUESTION, *outcome.messages]) == 2


async def test_at_the_limit_the_model_sums_up_what_it_was_asked_and_no_more() -> None:
    doorway = Doorway([ALSO])
    model = ScriptedModel([asks(call("a")), ANSWER])
    await turn(model, [answering("a")], joining=doorway, max_iterations=1)
    assert doorway.looks == 0
