"""Files that users drop in."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.approval.gate import NobodyNeedsToBeAsked, NotApproved
from tools.base import ToolContext
from tools.loading import load_builtin, load_folder
from tools.registry import registry

GOOD = '''
from tools.registry import tool


@tool(toolset="dice")
async def {name}(sides: int = 6) -> str:
    """Roll a die."""
    return str(sides)
'''


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    load_builtin()  # first: modules join once in a process, and would be gone with what a test adds
    before = registry.snapshot()
    yield
    registry.restore(before)


def test_a_dropped_in_tool_joins(tmp_path: Path) -> None:
    (tmp_path / "dice_one.py").write_text(GOOD.format(name="roll_one"))
    assert load_folder(tmp_path) == {}
    assert load_folder(tmp_path) == {}  # a second start in the same process
    assert "roll_one" in {tool.name for tool in registry}


async def test_a_dropped_in_tool_can_be_one_that_asks_first(tmp_path: Path) -> None:
    marked = GOOD.format(name="roll_gravely").replace('toolset="dice"', 'toolset="dice", asks="it decides about us"')
    (tmp_path / "dice_grave.py").write_text(marked)
    assert load_folder(tmp_path) == {}
    [tool] = [tool for tool in registry if tool.name == "roll_gravely"]
    with pytest.raises(NotApproved, match="it decides about us"):
        await tool.admit("{}", ToolContext(task_id="t"))
    with pytest.raises(NotApproved, match="it decides about us"):
        await tool.run("{}", ToolContext(task_id="t"))
    assert await tool.run("{}", ToolContext(task_id="t", gate=NobodyNeedsToBeAsked())) == "6"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("import sys; sys.exit(3)", "SystemExit"),
        (GOOD.format(name="half") + "\n1 / 0", "ZeroDivisionError"),
        (GOOD.format(name="clock"), "DuplicateTool"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
    ],
)
def test_a_broken_file_is_left_out_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    names = {tool.name for tool in registry}
    (tmp_path / "broken_file.py").write_text(text)
    (tmp_path / "dice_two.py").write_text(GOOD.format(name="roll_two"))
    problems = load_folder(tmp_path)
    assert reason in problems["broken_file.py"]
    assert {tool.name for tool in registry} == names | {"roll_two"}


def test_no_folder_is_no_problem(tmp_path: Path) -> None:
    assert load_folder(tmp_path / "nothing") == {}


@pytest.mark.parametrize("owned", ["the file", "the folder", "the target of a link"])
def test_code_that_another_user_can_change_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owned: str
) -> None:
    folder, file = tmp_path / "tools", tmp_path / "tools" / "dice_planted.py"
    folder.mkdir()
    file.write_text(GOOD.format(name="roll_planted"))
    if owned == "the target of a link":
        file.replace(tmp_path / "elsewhere.py")
        file.symlink_to(tmp_path / "elsewhere.py")
    if os.geteuid() == 0:
        os.chown(folder if owned == "the folder" else file, 12_345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    [problem] = load_folder(folder).values()
    assert "belongs to another user" in problem
    assert "roll_planted" not in {tool.name for tool in registry}


def test_code_that_everybody_may_write_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "dice_open.py").write_text(GOOD.format(name="roll_open"))
    (tmp_path / "dice_open.py").chmod(0o666)
    assert "everybody can write" in load_folder(tmp_path)["dice_open.py"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dice_pipe.py")
    assert load_folder(tmp_path) == {"dice_pipe.py": "it is no file"}
