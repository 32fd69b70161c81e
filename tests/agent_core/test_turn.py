import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core.conversation import ListJournal, Message, assistant, tool_result, user
from agent_core.events import Done, Emit, Event, ToolFinished, ToolStarted, ignore
from agent_core.history import SUMMARY_REQUEST, open_calls
from agent_core.model import ModelError
from agent_core.result import TurnOutcome
from agent_core.turn import run_turn
from hermes_config.places import Home
from tests.agent_core.scripted import CONTEXT, ScriptedModel, answering, asks, call, plain_tool, raising
from tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from tools.content import Media, Part, Text
from tools.provenance import Passage, Provenance
from tools.registry import build_tool
from tools.workplaces import local_workplace

QUESTION = user("go on")
ANSWER = assistant("here you are")


async def turn(
    model: ScriptedModel,
    tools: Sequence[Tool] = (),
    messages: Sequence[Message] = (QUESTION,),
    journal: ListJournal | None = None,
    **options: Any,
) -> TurnOutcome:
    async with asyncio.timeout(10):
        return await run_turn(
            model=model, tools=tools, messages=messages, journal=journal or ListJournal(), context=CONTEXT, **options
        )


async def the_result(tool: Tool, arguments: str = "{}", name: str = "") -> Message:
    """What the model is told when it calls this tool."""
    model = ScriptedModel([asks(call(name or tool.name, arguments)), ANSWER])
    return (await turn(model, [tool])).messages[1]


async def test_an_answer_without_tools_is_returned_and_left_to_the_caller_to_journal() -> None:
    journal = ListJournal()
    outcome = await turn(ScriptedModel([ANSWER]), journal=journal)
    assert (outcome.final, outcome.messages) == (ANSWER, (ANSWER,))
    assert journal == ListJournal()


async def test_calls_and_results_are_journalled_and_the_model_is_asked_again_with_them() -> None:
    journal = ListJournal()
    asking = asks(call("look"))
    model = ScriptedModel([asking, ANSWER])
    outcome = await turn(model, [answering("look", {"seen": "ä"})], journal=journal)
    told = tool_result(call("look"), '{"seen": "ä"}')
    assert journal.messages == [asking, told]
    assert journal.started == ["call_look"]
    assert model.asked[1] == (QUESTION, asking, told)
    assert outcome.messages == (asking, told, ANSWER)


async def test_a_system_message_stays_in_front() -> None:
    system = Message(role="system", parts=(Text(text="be kind"),))
    model = ScriptedModel([ANSWER])
    await turn(model, messages=[system, QUESTION])
    assert model.asked == [(system, QUESTION)]


async def test_calls_of_one_message_run_at_the_same_time() -> None:
    first_is_here, second_is_here = asyncio.Event(), asyncio.Event()

    async def first() -> str:
        first_is_here.set()
        await second_is_here.wait()
        return "first"

    async def second() -> str:
        second_is_here.set()
        await first_is_here.wait()
        return "second"

    model = ScriptedModel([asks(call("first"), call("second")), ANSWER])
    outcome = await turn(model, [plain_tool("first", first), plain_tool("second", second)])
    assert [message.text for message in outcome.messages[1:3]] == ["first", "second"]


async def test_results_stay_in_call_order_though_they_are_journalled_as_they_finish() -> None:
    journal = ListJournal()
    quick_is_written = asyncio.Event()

    async def slow() -> str:
        await quick_is_written.wait()
        return "slow"

    def watch(event: Event) -> None:
        if isinstance(event, ToolFinished):
            quick_is_written.set()

    model = ScriptedModel([asks(call("slow"), call("quick")), ANSWER])
    outcome = await turn(model, [plain_tool("slow", slow), answering("quick")], journal=journal, emit=watch)
    assert [message.tool_name for message in journal.messages[1:]] == ["quick", "slow"]
    assert [message.tool_name for message in outcome.messages[1:3]] == ["slow", "quick"]
    assert [message.tool_name for message in model.asked[1][2:]] == ["slow", "quick"]


async def test_tools_wait_for_a_slot_unmarked_and_the_model_needs_none() -> None:
    slots = asyncio.Semaphore(1)
    journal = ListJournal()
    marks_seen: list[list[str]] = []

    async def run() -> str:
        assert slots.locked()
        marks_seen.append(list(journal.started))
        return "done"

    class Watching(ScriptedModel):
        async def reply(
            self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
        ) -> Message:
            assert not slots.locked()
            return await super().reply(messages, tools, emit, may_call=may_call)

    model = Watching([asks(call("a"), call("b")), ANSWER])
    await turn(model, [plain_tool("a", run), plain_tool("b", run)], journal=journal, tool_slots=slots)
    assert marks_seen == [["call_a"], ["call_a", "call_b"]]


async def test_one_turn_leaves_slots_to_the_others_and_what_waits_for_it_is_unmarked() -> None:
    slots, journal, go, running = asyncio.Semaphore(4), ListJournal(), asyncio.Event(), 0

    async def run() -> str:
        nonlocal running
        running += 1
        await go.wait()
        return "done"

    model = ScriptedModel([asks(*(call(name) for name in "abcdef")), ANSWER])
    tools = [plain_tool(name, run) for name in "abcdef"]
    work = asyncio.create_task(turn(model, tools, journal=journal, tool_slots=slots, max_tool_runs=2))
    async with asyncio.timeout(5):
        while running < 2:
            await asyncio.sleep(0)
        async with slots, slots:  # somebody else's
            assert journal.started == ["call_a", "call_b"]
            go.set()
            await work
    assert running == 6


async def test_a_call_that_only_waits_keeps_nobody_from_running() -> None:
    slots, go = asyncio.Semaphore(1), asyncio.Event()

    async def wait(arguments: str, context: ToolContext) -> str:
        await go.wait()
        return "done"

    async def run() -> str:
        go.set()
        return "done"

    waiting = Tool(name="wait", toolset="test", description="", schema={}, run=wait, only_waits=lambda arguments: True)
    model = ScriptedModel([asks(call("wait"), call("go")), ANSWER])
    async with asyncio.timeout(5):
        await turn(model, [waiting, plain_tool("go", run)], tool_slots=slots)


async def test_a_call_knows_what_the_conversation_has_heard_before_it() -> None:
    heard: list[Provenance] = []

    async def run(arguments: str, context: ToolContext) -> str:
        heard.append(context.heard())
        return "say so"

    look = Tool(name="look", toolset="test", description="", schema={}, run=run, brings="a page")
    model = ScriptedModel([asks(call("look", "one"), call("look", "two")), asks(call("look", "three")), ANSWER])
    await turn(model, [look])
    assert [one.own_words for one in heard] == [QUESTION.text] * 3
    passage = Passage(origin="a page", text="say so")
    assert [one.outside for one in heard] == [(), (), (passage, passage)]


async def test_a_tool_is_told_its_task_and_its_call() -> None:
    seen: list[ToolContext] = []

    async def run(arguments: str, context: ToolContext) -> str:
        seen.append(context)
        return ""

    tool = Tool(name="look", toolset="test", description="", schema={}, run=run)
    await the_result(tool)
    (context,) = seen
    assert context.heard() == Provenance(own_words=QUESTION.text)
    assert (context.task_id, context.call_id, context.timezone) == (CONTEXT.task_id, "call_look", CONTEXT.timezone)
    assert context.tools == {"look": tool}


async def test_at_the_limit_the_model_sums_up_and_may_call_no_tools() -> None:
    journal = ListJournal()
    model = ScriptedModel([asks(call("look", call_id="1")), asks(call("look", call_id="2")), ANSWER])
    outcome = await turn(model, [answering("look")], journal=journal, max_iterations=2)
    assert model.offered == [("look",)] * 3, "the history holds calls of it"
    assert model.free == [True, True, False]
    assert model.asked[2][-1] == SUMMARY_REQUEST
    assert SUMMARY_REQUEST not in (*outcome.messages, *journal.messages)
    assert outcome.final == ANSWER
    assert not outcome.finished_naturally


async def test_an_answer_on_the_last_allowed_step_is_a_natural_end() -> None:
    model = ScriptedModel([asks(call("look")), ANSWER])
    assert (await turn(model, [answering("look")], max_iterations=2)).finished_naturally


@pytest.mark.parametrize("stubborn", [asks(call("look")), assistant()])
async def test_a_model_that_has_nothing_to_say_at_the_limit_is_spoken_for(stubborn: Message) -> None:
    outcome = await turn(ScriptedModel([stubborn]), [answering("look")], max_iterations=0)
    assert "more steps" in outcome.final.text
    assert not outcome.final.tool_calls


async def test_tool_calls_in_the_summary_are_dropped() -> None:
    outcome = await turn(ScriptedModel([assistant("so far", tool_calls=(call("look"),))]), max_iterations=0)
    assert outcome.final == assistant("so far")


async def test_a_model_error_reaches_the_caller() -> None:
    with pytest.raises(ModelError, match="key is wrong"):
        await turn(ScriptedModel([ModelError("The key is wrong.")]))


async def test_events_tell_the_story() -> None:
    events: list[Event] = []
    model = ScriptedModel([asks(call("look")), ANSWER])
    await turn(model, [answering("look")], emit=events.append)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["TextDelta", "Usage", "ToolStarted", "ToolFinished", "TextDelta", "Usage", "Done"]
    assert events[-1] == Done(finished_naturally=True)


# Failures that the model is told about


async def greet(name: str, times: int = 1) -> str:
    """Say hello."""
    return " ".join([f"hello {name}"] * times)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"name": ', "not valid JSON"),
        ('["Felix"]', "one JSON object"),
        ("[" * 100_000, "JSON"),
        ("", "'name' is missing"),
        ("{}", "'name' is missing"),
        ('{"nam": "Felix", "name": "Felix"}', "'nam' is not a parameter (did you mean 'name'?)"),
        ('{"name": "Felix", "times": "often"}', "'times' should be a valid integer"),
    ],
)
async def test_bad_arguments_come_back_as_an_error_that_names_the_parameters(arguments: str, words: str) -> None:
    result = await the_result(build_tool(greet, toolset="test"), arguments)
    told = json.loads(result.text)
    assert words in told["error"]
    assert (told["parameters"], told["required"]) == (["name", "times"], ["name"])
    assert result.is_error


async def test_an_unknown_tool_comes_back_with_the_nearest_name() -> None:
    result = await the_result(answering("todo"), name="todos")
    assert json.loads(result.text)["did_you_mean"] == "todo"
    assert result.is_error


async def test_an_unknown_tool_like_no_other_comes_back_with_all_names() -> None:
    result = await the_result(answering("todo"), name="browser")
    assert json.loads(result.text)["available_tools"] == ["todo"]


async def test_a_failure_that_the_tool_foresaw_is_told_in_its_words() -> None:
    result = await the_result(raising("todo", ToolFailed("The list is full.")))
    assert json.loads(result.text) == {"error": "The list is full."}
    assert result.is_error


async def test_a_broken_tool_is_contained_and_logged_without_the_arguments() -> None:
    with capture_logs() as logs:
        result = await the_result(raising("todo", ZeroDivisionError("sesame")), '{"password": "sesame"}')
    assert "ZeroDivisionError" in json.loads(result.text)["error"]
    assert [(entry["event"], entry["tool"]) for entry in logs] == [("tool_broke", "todo")]
    assert "password" not in str(logs)
    assert "ZeroDivisionError('sesame')" not in str(logs)


@pytest.mark.parametrize("error", [SystemExit(2), SystemExit()])
async def test_a_tool_that_wants_to_end_the_process_is_contained(error: BaseException) -> None:
    with capture_logs():
        result = await the_result(raising("todo", error))
    assert "SystemExit" in json.loads(result.text)["error"]


@pytest.mark.parametrize(
    "tool",
    [
        answering("look", "a" * 60 + "x" * 1000 + "z" * 60),
        answering("look", {"seen": "a" * 60 + "x" * 1000 + "z" * 60}),
        answering("look", (Text(text="a" * 60 + "x" * 1000 + "z" * 60), Media(kind="image", sha256="ab"))),
        raising("look", ToolFailed("a" * 60 + "x" * 1000 + "z" * 60)),
    ],
    ids=["text", "data", "parts", "failure"],
)
async def test_a_result_that_is_too_long_keeps_its_head_and_tail_and_says_so(tool: Tool) -> None:
    journal = ListJournal()
    model = ScriptedModel([asks(call("look")), ANSWER])
    result = (await turn(model, [tool], journal=journal, max_result_chars=100)).messages[1]
    (text, *others) = result.parts
    assert isinstance(text, Text)
    head, line, tail = text.text.split("\n")
    assert (len(head), len(tail)) == (50, 50)
    assert "aaaa" in head
    assert "zzzz" in tail
    assert re.fullmatch(r"\[… 1,0\d\d characters omitted …\]", line)
    assert all(isinstance(part, Media) for part in others)
    assert result in journal.messages


async def test_all_of_a_result_that_is_too_long_can_be_read_where_there_are_files(tmp_path: Path) -> None:
    place = local_workplace(tmp_path, home=Home(tmp_path / "home"), outputs=tmp_path / "outputs")
    whole = "a" * 60 + "x" * 1000
    outcome = await run_turn(
        model=ScriptedModel([asks(call("look")), ANSWER]),
        tools=[answering("look", whole)],
        messages=[user("look")],
        journal=ListJournal(),
        context=ToolContext(task_id="t", workplace=place),
        max_result_chars=100,
    )
    found = re.search(r"omitted; the full text is in (\S+) …", outcome.messages[1].text)
    assert found is not None
    assert (await place.backend.files.read(found[1], max_bytes=10_000)).content.decode() == whole


async def test_a_result_of_the_longest_length_is_left_as_it_is() -> None:
    model = ScriptedModel([asks(call("look")), ANSWER])
    outcome = await turn(model, [answering("look", "x" * 100)], max_result_chars=100)
    assert outcome.messages[1].text == "x" * 100


async def test_a_result_that_is_no_json_is_contained() -> None:
    result = await the_result(answering("todo", {"when": object()}))
    assert result.is_error


async def test_a_tool_that_cancels_itself_still_gets_a_result() -> None:
    result = await the_result(raising("todo", asyncio.CancelledError()))
    assert "effect is unknown" in json.loads(result.text)["error"]


async def test_a_neighbour_of_a_broken_tool_finishes() -> None:
    model = ScriptedModel([asks(call("bad"), call("good")), ANSWER])
    with capture_logs():
        outcome = await turn(model, [raising("bad", RuntimeError()), answering("good")])
    assert [message.is_error for message in outcome.messages[1:3]] == [True, False]


async def test_parts_pass_through_as_they_are() -> None:
    parts: tuple[Part, ...] = (Text(text="a cat", origin="tool:look"), Media(kind="image", sha256="ab"))
    assert (await the_result(answering("look", parts))).parts == parts


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("old", "new")])
async def test_empty_and_repeated_call_ids_are_made_unique_before_they_are_journalled(ids: tuple[str, str]) -> None:
    past = (
        user("hi"),
        asks(call("look", call_id="old")),
        tool_result(call("look", call_id="old"), "x"),
        ANSWER,
        QUESTION,
    )
    journal = ListJournal()
    twice = asks(*(call("look", call_id=call_id) for call_id in ids))
    outcome = await turn(ScriptedModel([twice, ANSWER]), [answering("look")], past, journal)
    journalled = [made.id for made in journal.messages[0].tool_calls]
    assert len({*journalled, "old", ""}) == 4
    assert [message.tool_call_id for message in outcome.messages[1:3]] == journalled
    assert sorted(journal.started) == sorted(journalled)


# Cut in the middle, and resumed


async def test_cancelled_in_a_tool_leaves_a_started_mark_and_no_result() -> None:
    journal = ListJournal()
    in_tool = asyncio.Event()

    async def hang() -> ToolOutput:
        in_tool.set()
        await asyncio.Event().wait()
        return "never"

    def watch(event: Event) -> None:
        if isinstance(event, ToolFinished):
            finished.set()

    finished = asyncio.Event()
    model = ScriptedModel([asks(call("quick"), call("hang"))])
    running = asyncio.create_task(
        turn(model, [answering("quick"), plain_tool("hang", hang)], journal=journal, emit=watch)
    )
    async with asyncio.timeout(10):
        await in_tool.wait()
        await finished.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert journal.started == ["call_quick", "call_hang"]
    assert [message.tool_name for message in journal.messages] == ["", "quick"]
    assert open_calls([QUESTION, *journal.messages]) == [call("hang")]


TWO_CALLS = asks(call("a"), call("b"))


async def resume(*cut: Message, started: tuple[str, ...] = ()) -> tuple[ListJournal, ScriptedModel, TurnOutcome]:
    journal, model = ListJournal(), ScriptedModel([ANSWER])
    outcome = await turn(model, [answering("a"), answering("b")], (QUESTION, *cut), journal, started=started)
    return journal, model, outcome


async def test_cut_before_any_tool_started_they_simply_run() -> None:
    journal, model, outcome = await resume(TWO_CALLS)
    assert sorted(journal.started) == ["call_a", "call_b"]
    assert [message.text for message in model.asked[0][2:]] == ["done", "done"]
    assert outcome.result.tool_errors == []


async def test_cut_in_a_tool_it_is_not_run_again_and_the_model_is_told() -> None:
    journal, model, outcome = await resume(TWO_CALLS, started=("call_a",))
    assert journal.started == ["call_b"]
    first, second = model.asked[0][2:]
    assert "interrupted by a restart" in first.text
    assert first.is_error
    assert second.text == "done"
    assert first in journal.messages
    assert [(error.turn, error.tool_name) for error in outcome.result.tool_errors] == [(0, "a")]


async def test_cut_between_two_results_only_the_missing_one_is_settled() -> None:
    journal, model, _ = await resume(TWO_CALLS, tool_result(call("b"), "was there"), started=("call_a", "call_b"))
    assert journal.started == []
    assert [message.tool_name for message in model.asked[0][2:]] == ["a", "b"]
    assert model.asked[0][3].text == "was there"
    assert len(journal.messages) == 1


async def test_cut_after_the_last_result_goes_on_with_the_model() -> None:
    results = (tool_result(call("a"), "1"), tool_result(call("b"), "2"))
    journal, model, outcome = await resume(TWO_CALLS, *results, started=("call_a", "call_b"))
    assert journal == ListJournal()
    assert model.asked == [(QUESTION, TWO_CALLS, *results)]
    assert outcome.messages == (ANSWER,)


async def test_a_message_that_came_after_the_cut_stays_behind_the_results() -> None:
    _, model, _ = await resume(TWO_CALLS, user("still there?"), started=("call_a", "call_b"))
    assert [message.role for message in model.asked[0]] == ["user", "assistant", "tool", "tool", "user"]


async def test_a_resumed_turn_does_not_get_a_new_budget() -> None:
    model = ScriptedModel([ANSWER])
    await turn(model, [answering("a"), answering("b")], (QUESTION, TWO_CALLS), max_iterations=1)
    assert model.free == [False]


async def test_a_started_mark_of_the_past_does_not_stop_a_new_call() -> None:
    journal = ListJournal()
    model = ScriptedModel([asks(call("a")), ANSWER])
    await turn(model, [answering("a")], journal=journal, started=("call_a",), emit=ignore)
    assert journal.started == ["call_a"]


async def test_started_and_finished_come_in_pairs_even_for_an_unknown_tool() -> None:
    events: list[Event] = []
    await turn(ScriptedModel([asks(call("nothing")), ANSWER]), emit=events.append)
    assert [type(event) for event in events if isinstance(event, ToolStarted | ToolFinished)] == [
        ToolStarted,
        ToolFinished,
    ]
