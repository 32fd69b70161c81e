import json
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from structlog.testing import capture_logs

from tools.base import BadArguments, Tool, ToolContext, ToolOutput
from tools.registry import DuplicateTool, Registry, build_tool, why_unavailable

CONTEXT = ToolContext(task_id="task", call_id="call")


class Step(BaseModel):
    goal: str


async def everything(
    context: ToolContext,
    path: Annotated[str, Field(description="Which file")],
    limit: Annotated[int, Field(ge=1)] = 500,
    ident: str | int | None = None,
    steps: list[Step] | None = None,
    schema: str = "",
) -> dict[str, Any]:
    """Do everything
    at once.

    And more.
    """
    return {"path": path, "limit": limit, "ident": ident, "schema": schema, "call": context.call_id}


async def roll() -> str:
    """Roll a die."""
    return "4"


async def echo(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
    """Say it again."""
    return {**arguments, "task": context.task_id}


def test_the_schema_comes_from_the_parameters_and_the_docstring() -> None:
    tool = build_tool(everything, toolset="test")
    assert (tool.name, tool.description) == ("everything", "Do everything at once.\n\nAnd more.")
    properties = tool.schema["properties"]
    assert list(properties) == ["path", "limit", "ident", "steps", "schema"]
    assert properties["path"] == {"type": "string", "description": "Which file"}
    assert properties["limit"] == {"type": "integer", "default": 500, "minimum": 1}
    assert tool.schema["required"] == ["path"]
    assert tool.schema["additionalProperties"] is False
    assert '"title"' not in json.dumps(tool.schema)


async def test_arguments_arrive_typed_with_defaults_and_the_context() -> None:
    tool = build_tool(everything, toolset="test")
    assert await tool.run('{"path": "a", "limit": "3", "schema": "s"}', CONTEXT) == {
        "path": "a",
        "limit": 3,
        "ident": None,
        "schema": "s",
        "call": "call",
    }


async def test_no_arguments_at_all_count_as_an_empty_object() -> None:
    assert await build_tool(roll, toolset="test").run(" ", CONTEXT) == "4"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path"', "not valid JSON: Expecting ':' delimiter at character 7"),
        ("null", "must be one JSON object"),
        ("{}", "'path' is missing"),
        ('{"path": "a", "limits": 1}', "'limits' is not a parameter (did you mean 'limit'?)"),
        ('{"path": "a", "colour": 1}', "'colour' is not a parameter."),
        ('{"path": 7}', "'path' should be a valid string"),
        ('{"path": "a", "limit": 0}', "'limit' should be greater than or equal to 1"),
        ('{"path": "a", "ident": []}', "'ident' should be a valid string or should be a valid integer"),
        ('{"path": "a", "steps": [{}]}', "'steps.0.goal' is missing"),
        ('{"limit": "x", "b": 1}', "'path' is missing; 'limit' should be a valid integer"),
        ('{"path": "a", "context": {}}', "'context' is not a parameter"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_in_plain_words(arguments: str, words: str) -> None:
    with pytest.raises(BadArguments) as refused:
        await build_tool(everything, toolset="test").run(arguments, CONTEXT)
    assert words in str(refused.value)


def test_a_parameter_without_a_type_is_refused_when_the_tool_is_built() -> None:
    async def untyped(thing) -> str:  # type: ignore[no-untyped-def]
        return str(thing)

    with pytest.raises(TypeError, match="'thing' needs a type"):
        build_tool(untyped, toolset="test")


async def test_the_decorator_signs_up_and_leaves_the_function_alone() -> None:
    registry = Registry()
    decorated = registry.tool(toolset="dice", name="dice")(roll)
    assert decorated is roll
    assert [(tool.name, tool.toolset) for tool in registry] == [("dice", "dice")]


def test_a_second_tool_of_the_same_name_is_refused_naming_both_modules() -> None:
    registry = Registry()
    registry.tool(toolset="dice")(roll)
    with pytest.raises(
        DuplicateTool, match=r"'roll' of other\.dice is not registered: tests\.tools\.test_registry has"
    ):
        registry.add(build_tool(roll, toolset="dice"), module="other.dice")


def test_tools_come_in_order_of_their_names() -> None:
    registry = Registry()
    for name in ("b", "c", "a"):
        registry.tool(toolset="dice", name=name)(roll)
    assert [tool.name for tool in registry] == ["a", "b", "c"]


ECHO_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}, "loud": {}}, "required": ["text"]}


async def test_a_tool_registered_by_schema_gets_its_arguments_as_a_dict() -> None:
    tool = Registry().register("echo", "test", ECHO_SCHEMA, echo)
    assert tool.description == "Say it again."
    assert await tool.run('{"text": "hi"}', CONTEXT) == {"text": "hi", "task": "task"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "one JSON object"),
        ("{}", "'text' is missing"),
        ('{"text": "", "texts": 1}', "'texts' is not a parameter (did you mean 'text'?)"),
    ],
)
async def test_a_tool_registered_by_schema_refuses_missing_and_unknown_names(arguments: str, words: str) -> None:
    with pytest.raises(BadArguments) as refused:
        await Registry().register("echo", "test", ECHO_SCHEMA, echo).run(arguments, CONTEXT)
    assert words in str(refused.value)


async def test_a_schema_that_allows_more_gets_more() -> None:
    tool = Registry().register("echo", "test", {**ECHO_SCHEMA, "additionalProperties": True}, echo)
    assert await tool.run('{"text": "", "more": 1}', CONTEXT) == {"text": "", "more": 1, "task": "task"}


def unavailable_tool(**options: Any) -> Tool:
    return build_tool(roll, toolset="dice", **options)


def test_a_tool_says_which_variables_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DICE_KEY", raising=False)
    monkeypatch.setenv("DICE_URL", "http://127.0.0.1")
    tool = unavailable_tool(requires_env=("DICE_KEY", "DICE_URL"))
    assert why_unavailable(tool) == "DICE_KEY is not set"
    monkeypatch.setenv("DICE_KEY", "secret")
    assert why_unavailable(tool) == ""


def test_a_tool_says_itself_why_it_cannot_be_used() -> None:
    assert why_unavailable(unavailable_tool(unavailable=lambda: "there is no table")) == "there is no table"


@pytest.mark.parametrize(("passes", "reason"), [(True, ""), (False, "its own check")])
def test_a_registered_check_decides(passes: bool, reason: str) -> None:
    tool = Registry().register("echo", "test", ECHO_SCHEMA, echo, check_fn=lambda: passes)
    assert why_unavailable(tool).startswith(reason)
    assert bool(why_unavailable(tool)) is not passes


def test_a_broken_check_takes_out_its_own_tool_only() -> None:
    def broken() -> str:
        raise OSError("no such file")

    with capture_logs() as logs:
        assert why_unavailable(unavailable_tool(unavailable=broken)) == "its own check raised OSError"
    assert [entry["event"] for entry in logs] == ["tool_check_broke"]
