import sys
from pathlib import Path

import pytest

from tools import builtin
from tools.loading import load_builtin
from tools.registry import Registry
from tools.toolsets import TOOLSETS, Toolset, ToolsetError, resolve, select, why_not

SETS = {
    "dice": Toolset(description=""),
    "cards": Toolset(description=""),
    "games": Toolset(description="", includes=("dice", "cards")),
    "all": Toolset(description="", includes=("games", "dice")),
}


@pytest.fixture
def registry() -> Registry:
    registry = Registry()

    async def play() -> str:
        return ""

    registry.tool(toolset="dice", name="roll")(play)
    registry.tool(toolset="cards", name="deal")(play)
    registry.tool(toolset="cards", name="cheat", unavailable=lambda: "the sleeve is empty")(play)
    registry.tool(toolset="mine", name="own")(play)
    return registry


@pytest.mark.parametrize(
    ("enabled", "disabled", "names"),
    [
        ([], [], []),
        (["dice"], [], ["roll"]),
        (["games"], [], ["deal", "roll"]),
        (["all"], [], ["deal", "roll"]),
        (["all"], ["cards"], ["roll"]),
        (["dice"], ["games"], []),
        (["mine", "dice"], [], ["own", "roll"]),
    ],
)
def test_the_tools_of_a_choice_of_sets(
    registry: Registry, enabled: list[str], disabled: list[str], names: list[str]
) -> None:
    assert [tool.name for tool in select(registry, enabled, disabled, toolsets=SETS)] == names


def test_each_tool_that_is_left_out_says_why(registry: Registry) -> None:
    assert why_not(registry, ["games"], ["dice"], toolsets=SETS) == {
        "cheat": "the sleeve is empty",
        "deal": "",
        "own": "toolset mine is not enabled",
        "roll": "toolset dice is disabled",
    }


@pytest.mark.parametrize("disabled", [True, False])
def test_an_unknown_set_is_refused_with_the_nearest_name(registry: Registry, disabled: bool) -> None:
    with pytest.raises(ToolsetError, match=r"no toolset named 'card'\. Did you mean 'cards'\? There are: all, cards"):
        select(registry, [] if disabled else ["card"], ["card"] if disabled else [], toolsets=SETS)


def test_sets_that_include_each_other_are_refused() -> None:
    circle = {
        "a": Toolset(description="", includes=("b",)),
        "b": Toolset(description="", includes=("a",)),
    }
    with pytest.raises(ToolsetError, match="a includes itself: a -> b -> a"):
        resolve(["a"], circle)


def test_a_set_that_includes_an_unknown_one_is_refused() -> None:
    with pytest.raises(ToolsetError, match="'b'"):
        resolve(["a"], {"a": Toolset(description="", includes=("b",))})


def test_the_default_set_holds_every_tool_that_comes_with_hermes_and_reaches_nobody_else() -> None:
    registry = load_builtin()
    others = ("messaging", "session", "web", "browser", "vision", "image", "speech", "delegate", "moa", "code")
    assert select(registry, ["core"], has_workplace=True) == [one for one in registry if one.toolset not in others]
    assert [tool.name for tool in select(registry, ["core"])] == [
        "clock",
        "cronjob",
        "memory",
        "skill_manage",
        "skill_view",
        "skills_categories",
        "skills_list",
        "todo",
    ]
    assert {tool.toolset for tool in registry} <= set(TOOLSETS)
    assert load_builtin() is registry


def test_every_tool_that_comes_with_hermes_describes_itself_and_its_parameters() -> None:
    for tool in load_builtin():
        assert tool.description
        assert all(parameter.get("description") for parameter in tool.schema["properties"].values())


def test_every_module_of_the_builtin_folder_is_loaded() -> None:
    load_builtin()
    folder = Path(builtin.__file__ or "").parent
    names = {f"tools.builtin.{file.stem}" for file in folder.glob("[a-z]*.py")}
    assert names
    assert names <= sys.modules.keys()
