"""A tool that asks first: what is asked, when, and what a yes lets through."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tools.approval.gate import Gate, NobodyNeedsToBeAsked, NobodyToAsk, NotApproved, Question, bound_to
from tools.approval.wrapper import asks_first, needs_approval
from tools.base import BadArguments, Tool, ToolContext
from tools.registry import Registry, build_tool

WHY = "it changes the production board"


@dataclass
class Human:
    """Says yes to everything, and remembers to what. A yes is good once, and for exactly that."""

    asked: list[tuple[str, Question]] = field(default_factory=list)
    allowed: list[tuple[str, str]] = field(default_factory=list)

    async def ask(self, question: Question, call_id: str) -> None:
        self.asked.append((call_id, question))
        self.allowed.append((call_id, question.binding))

    async def use(self, question: Question, call_id: str) -> None:
        if (call_id, question.binding) not in self.allowed:
            raise NotApproved("it is not what was approved")
        self.allowed.remove((call_id, question.binding))


@dataclass
class Board:
    moved: list[tuple[str, int]] = field(default_factory=list)

    def tool(self) -> Tool:
        async def move(card: str, column: int = 1) -> str:
            """Move a card."""
            self.moved.append((card, column))
            return "moved"

        return build_tool(move, toolset="board")


def context(gate: Gate, call_id: str = "c1") -> ToolContext:
    return ToolContext(task_id="t", call_id=call_id, gate=gate)


def always(question: Question | None) -> Callable[[dict[str, object], ToolContext], Awaitable[Question | None]]:
    async def about(arguments: dict[str, object], context: ToolContext) -> Question | None:
        return question

    return about


QUESTION = Question(tool="move", action="move", reasons=("why",), binding="b")


# What a wrapper does


async def test_it_is_asked_before_the_call_and_the_yes_taken_when_it_begins() -> None:
    board, human = Board(), Human()
    tool = needs_approval(board.tool(), always(QUESTION))
    await tool.admit('{"card": "a"}', context(human))
    assert (human.asked, board.moved) == ([("c1", QUESTION)], [])
    assert await tool.run('{"card": "a"}', context(human)) == "moved"
    assert (human.allowed, board.moved) == ([], [("a", 1)])


async def test_whoever_calls_it_without_asking_first_does_nothing() -> None:
    board = Board()
    tool = needs_approval(board.tool(), always(QUESTION))
    for gate in (Human(), NobodyToAsk()):
        with pytest.raises(NotApproved):
            await tool.run('{"card": "a"}', context(gate))
    assert board.moved == []


async def test_what_is_found_when_it_begins_must_be_what_was_approved() -> None:
    board, human, binding = Board(), Human(), ["first"]

    async def about(arguments: dict[str, object], context: ToolContext) -> Question:
        return replace(QUESTION, binding=binding[-1])

    tool = needs_approval(board.tool(), about)
    await tool.admit('{"card": "a"}', context(human))
    binding.append("second")
    with pytest.raises(NotApproved):
        await tool.run('{"card": "a"}', context(human))
    assert board.moved == []


async def test_where_nothing_speaks_against_it_nobody_is_asked() -> None:
    board, human = Board(), Human()
    tool = needs_approval(board.tool(), always(None))
    await tool.admit('{"card": "a"}', context(human))
    await tool.run('{"card": "a"}', context(human))
    assert (human.asked, board.moved) == ([], [("a", 1)])


async def test_what_is_never_done_is_not_even_asked() -> None:
    board = Board()
    tool = needs_approval(board.tool(), always(replace(QUESTION, is_blocked=True)))
    for step in (tool.admit, tool.run):
        with pytest.raises(NotApproved, match="never allowed, whoever asks"):
            await step('{"card": "a"}', context(NobodyNeedsToBeAsked()))
    assert board.moved == []


async def test_arguments_that_cannot_be_read_are_the_tools_own_affair() -> None:
    human = Human()
    tool = needs_approval(Board().tool(), always(QUESTION))
    await tool.admit('{"card"', context(human))
    assert human.asked == []
    with pytest.raises(BadArguments, match="not valid JSON"):
        await tool.run('{"card"', context(human))


async def test_two_wrappers_both_ask() -> None:
    board, human = Board(), Human()
    tool = asks_first(needs_approval(board.tool(), always(QUESTION)), WHY)
    await tool.admit('{"card": "a"}', context(human))
    assert [question.reasons for _, question in human.asked] == [("why",), (WHY,)]
    await tool.run('{"card": "a"}', context(human))
    assert (human.allowed, board.moved) == ([], [("a", 1)])


# A tool that always asks


async def test_a_marked_tool_shows_its_name_and_arguments_and_asks_an_owner_for_this_once() -> None:
    human = Human()
    tool = asks_first(Board().tool(), WHY)
    await tool.admit('{"column": 2, "card": "köln"}', context(human))
    [(call_id, question)] = human.asked
    assert call_id == "c1"
    assert question == Question(
        tool="move",
        action='move {\n  "column": 2,\n  "card": "köln"\n}',
        reasons=(WHY,),
        rules=(),
        binding=bound_to("move", {"card": "köln", "column": 2}),
        decider="owner",
    )


@pytest.mark.parametrize("later", [{"card": "b"}, {"card": "a", "column": 2}, {}])
async def test_a_yes_is_for_these_arguments_alone(later: dict[str, Any]) -> None:
    board, human = Board(), Human()
    tool = asks_first(board.tool(), WHY)
    await tool.admit('{"card": "a"}', context(human))
    with pytest.raises(NotApproved):
        await tool.run(json.dumps(later), context(human))
    await tool.run('{ "card":"a" }', context(human))
    assert board.moved == [("a", 1)]


async def test_a_yes_is_for_this_tool_alone() -> None:
    human = Human()
    one, other = (asks_first(replace(Board().tool(), name=name), WHY) for name in ("one", "other"))
    await one.admit('{"card": "a"}', context(human))
    with pytest.raises(NotApproved):
        await other.run('{"card": "a"}', context(human))


async def test_a_call_without_arguments_is_its_name() -> None:
    human = Human()
    await asks_first(Board().tool(), WHY).admit("", context(human))
    assert human.asked[0][1].action == "move"


async def test_what_nobody_can_read_is_not_asked_and_not_done() -> None:
    board = Board()
    tool = asks_first(board.tool(), WHY)
    arguments = json.dumps({"card": "a" * 8_000})
    for step in (tool.admit, tool.run):
        with pytest.raises(NotApproved, match="more than 8,000 characters"):
            await step(arguments, context(Human()))
    assert board.moved == []
    await tool.run(arguments, context(NobodyNeedsToBeAsked()))  # where the operator wants nobody to read it
    assert len(board.moved) == 1


async def test_as_much_as_a_human_is_shown_can_be_asked() -> None:
    human = Human()
    tool = asks_first(Board().tool(), WHY)
    around = len('move {\n  "card": ""\n}')
    await tool.admit(json.dumps({"card": "a" * (8_000 - around)}), context(human))
    assert len(human.asked[0][1].action) == 8_000
    with pytest.raises(NotApproved, match="more than 8,000 characters"):
        await tool.admit(json.dumps({"card": "a" * (8_001 - around)}), context(human))


# Gates, and what they are given


async def test_where_there_is_nobody_to_ask_nothing_is_done_and_the_model_is_told_what_to_do() -> None:
    for step in (NobodyToAsk().ask, NobodyToAsk().use):
        with pytest.raises(NotApproved) as refused:
            await step(QUESTION, "c1")
        assert str(refused.value) == (
            "This was not done: why. Do not try to do the same in another way. "
            "Say what you would do and why, so that the user can do it themselves."
        )


def test_a_question_says_nothing_of_a_place_that_nobody_named() -> None:
    assert (QUESTION.where, QUESTION.rules, QUESTION.decider, QUESTION.is_blocked) == ("", (), "owner", False)


def test_a_yes_is_bound_to_every_fact_even_to_bytes_that_are_no_text() -> None:
    facts: list[tuple[Any, ...]] = [("a",), ("b",), ("a", "b"), ("ab",), ({"a": 1},), ("\udcff",), ("\udcfe",), ("ü",)]
    assert len({bound_to(*one) for one in facts}) == len(facts)
    assert bound_to({"a": 1, "b": 2}) == bound_to({"b": 2, "a": 1})


async def test_a_tool_is_marked_where_it_signs_up() -> None:
    registry, board, human = Registry(), Board(), Human()

    @registry.tool(toolset="board", asks=WHY)
    async def decorated(card: str) -> str:
        """Move a card."""
        board.moved.append((card, 1))
        return "moved"

    async def handler(arguments: dict[str, Any], context: ToolContext) -> str:
        board.moved.append((arguments["card"], 2))
        return "moved"

    schema = {"type": "object", "properties": {"card": {"type": "string"}}}
    given = registry.register("given", "board", schema, handler, asks=WHY)
    unmarked = registry.register("unmarked", "board", schema, handler)
    assert [tool.name for tool in registry] == ["decorated", "given", "unmarked"]
    assert given in registry
    for tool in registry:
        await tool.admit('{"card": "a"}', context(human))
    assert [question.tool for _, question in human.asked] == ["decorated", "given"]
    assert board.moved == []
    for tool in registry:
        await tool.run('{"card": "a"}', context(human))
    assert board.moved == [("a", 1), ("a", 2), ("a", 2)]
    assert await decorated("b") == "moved"  # called by its own code it is a function like any other
    assert unmarked.name == "unmarked"
