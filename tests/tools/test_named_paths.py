"""Every parameter with which a model names a file, tried with paths that have broken checks before.

In a member's walled workplace: what lies beside it is neither told nor touched. The way out of a file has its own table
in tests/gateway/media/test_enclosures.py.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermes_config.places import Home
from hermes_config.settings import TerminalSettings
from tests.programs import needs
from tests.thorough import a_few_of
from tests.tools.test_media import nasty_paths, told
from tools.approval.gate import NobodyNeedsToBeAsked
from tools.base import Tool, ToolContext, ToolFailed
from tools.loading import load_builtin
from tools.workplaces import build_workplace

CANARY = "the canary"
MINE = "my canary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    needed: dict[str, Any] = field(default_factory=dict)
    fine: str = "notes.txt"  # a path that is theirs to name
    says: str = MINE
    count: int = 100  # fewer where each try takes a sandbox of its own


NAMING = {
    ("file_read", "path"): Tried(),
    ("file_write", "path"): Tried(needed={"content": "mine"}, says="bytes_written", count=50),
    ("file_patch", "path"): Tried(needed={"old_string": "canary", "new_string": "parrot"}),
    ("file_search", "path"): Tried(needed={"pattern": "canary"}, count=15),
    ("terminal", "workdir"): Tried(needed={"command": "cat *.txt; ls -a"}, fine=".", count=4),
}
# Files of a skill, whoever asks: tests/skills/test_library.py and tests/gateway/skills/test_proposals.py try these. A
# sound file and an upload are read by the workplace's own files, as file_read does it, and need more than a path.
ELSEWHERE = {("skill_view", "file"), ("skill_manage", "file"), ("transcribe_audio", "path"), ("browser_click", "file")}
_LIKE_A_PATH = re.compile(r"(?:^|_)(?:path|file|filename|folder|dir|directory|workdir|cwd|root|location)s?(?:$|_)")
_BATCHES = 5


def test_every_parameter_that_names_a_file_is_in_the_table() -> None:
    """Whoever adds one adds a line here, and so has it tried."""
    assert {(tool.name, name) for tool in load_builtin() for name in parameters_like_paths(tool)} == set(
        NAMING
    ) | ELSEWHERE


@needs("bubblewrap")
@pytest.mark.parametrize(
    ("naming", "batch"),
    a_few_of([(naming, batch) for naming in NAMING for batch in range(_BATCHES)], len(NAMING)),
)
async def test_no_path_however_nasty_reaches_beside_a_members_workspace(
    tmp_path: Path, naming: tuple[str, str], batch: int
) -> None:
    home = Home(tmp_path / "home")
    mine, theirs = home.workspaces / "ada", home.workspaces / "bob"
    (mine / "plots").mkdir(parents=True)
    theirs.mkdir()
    secret = theirs / "secret.txt"
    secret.write_text(CANARY)
    (mine / "notes.txt").write_text(MINE)
    (mine / "link.txt").symlink_to(secret)
    (mine / "folder").symlink_to(theirs)
    place = build_workplace(TerminalSettings(), mine, home=home, private=home.private / "ada" / "box", is_owner=False)
    context = ToolContext(task_id="fuzz", workplace=place, gate=NobodyNeedsToBeAsked())
    (tool,) = (one for one in load_builtin() if one.name == naming[0])
    tried = NAMING[naming]
    beside = files_beside(tmp_path, mine, home.private)
    assert tried.says in await answer(tool, {naming[1]: tried.fine, **tried.needed}, context)
    for path in (*chosen(secret, home), *nasty_paths(mine, secret, count=tried.count, seed=batch)):
        output = await answer(tool, {naming[1]: path, **tried.needed}, context)
        assert CANARY not in output, path
        assert files_beside(tmp_path, mine, home.private) == beside, path


def parameters_like_paths(tool: Tool) -> list[str]:
    properties = tool.schema.get("properties", {})
    return [name for name, schema in properties.items() if schema.get("type") == "string" and _LIKE_A_PATH.search(name)]


def chosen(secret: Path, home: Home) -> tuple[str, ...]:
    return (
        str(secret),
        str(secret.parent),
        "link.txt",
        "folder",
        "folder/secret.txt",
        "../bob",
        str(home.root),
        "~/..",
    )


def files_beside(root: Path, *own: Path) -> dict[Path, bytes]:
    """All that is not the member's, with its content."""
    others = (path for path in root.rglob("*") if path.is_file() and not any(map(path.is_relative_to, own)))
    return {path: path.read_bytes() for path in others}


async def answer(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> str:
    try:
        return told(await tool.run(json.dumps(arguments), context))
    except ToolFailed as failure:
        return str(failure)
