"""The four file tools, as a model calls them."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_config.places import Home
from tools.approval.gate import NobodyNeedsToBeAsked
from tools.backends.base import Workplace
from tools.base import BadArguments, ToolContext, ToolFailed
from tools.builtin import files
from tools.loading import load_builtin
from tools.toolsets import select, why_not
from tools.workplaces import local_workplace

Ask = Callable[..., Awaitable[dict[str, Any]]]
TOOLS = {tool.name: tool for tool in load_builtin() if tool.toolset == "file"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    (folder / "src" / "main.py").write_text("def main():\n    return 1\n")
    return folder


@pytest.fixture
def workplace(folder: Path, tmp_path: Path) -> Workplace:
    return local_workplace(folder, home=Home(tmp_path / "home"), outputs=tmp_path / "outputs")


@pytest.fixture
def ask(workplace: Workplace) -> Ask:
    return asking(workplace)


def asking(workplace: Workplace, **context: Any) -> Ask:
    async def asked(name: str, **arguments: Any) -> dict[str, Any]:
        given = ToolContext(task_id="one", workplace=workplace, **context)
        output = await TOOLS[name].run(json.dumps(arguments), given)
        assert isinstance(output, dict)
        json.dumps(output, ensure_ascii=False).encode()  # as it goes to the model
        return output

    return asked


async def refusal(ask: Ask, name: str, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as refused:
        await ask(name, **arguments)
    return str(refused.value)


# Reading.


async def test_a_file_is_read_with_numbered_lines(ask: Ask) -> None:
    assert await ask("file_read", path="notes.txt") == {
        "content": "     1|one\n     2|two\n     3|three",
        "total_lines": 3,
        "offset": 1,
        "limit": 500,
    }


async def test_a_part_of_a_file_says_where_to_go_on(ask: Ask) -> None:
    assert await ask("file_read", path="notes.txt", offset=2, limit=1) == {
        "content": "     2|two",
        "total_lines": 3,
        "offset": 2,
        "limit": 1,
        "note": "The file goes on. Continue with offset=3.",
    }


async def test_an_offset_beyond_the_end_and_an_empty_file_are_said(ask: Ask, folder: Path) -> None:
    (folder / "empty").touch()
    beyond = await ask("file_read", path="notes.txt", offset=10)
    assert (beyond["content"], beyond["note"]) == ("", "The file has only 3 lines; line 10 is beyond its end.")
    assert (await ask("file_read", path="empty"))["note"] == "The file is empty."


@pytest.mark.parametrize("path", ["{folder}/notes.txt", "./src/../notes.txt", "~/notes.txt"])
async def test_paths_are_taken_as_people_write_them(ask: Ask, workplace: Workplace, folder: Path, path: str) -> None:
    workplace.backend.home = str(folder)  # type: ignore[misc]
    assert (await ask("file_read", path=path.format(folder=folder)))["total_lines"] == 3


async def test_relative_paths_begin_where_the_terminal_is(ask: Ask, workplace: Workplace, folder: Path) -> None:
    workplace.current_folder = str(folder / "src")
    assert (await ask("file_read", path="main.py"))["total_lines"] == 2


async def test_more_than_can_be_shown_ends_between_two_lines(ask: Ask, folder: Path) -> None:
    (folder / "long").write_text("x" * 990 + "\n" + ("y" * 990 + "\n") * 200)
    read = await ask("file_read", path="long")
    assert len(read["content"]) <= files.MAX_SHOWN_CHARS
    shown = read["content"].count("\n") + 1
    assert read["note"] == f"The file goes on. Continue with offset={shown + 1}."
    assert read["content"].endswith("y" * 990)


async def test_a_line_that_is_too_long_says_how_much_is_missing(ask: Ask, folder: Path) -> None:
    (folder / "long").write_text("x" * 10_000)
    assert (await ask("file_read", path="long"))["content"].endswith("[… 6,000 more bytes in this line]")


async def test_a_name_that_is_nearly_right_is_suggested(ask: Ask) -> None:
    told = await refusal(ask, "file_read", path="note.txt")
    assert told.endswith("there is no such file. Did you mean `notes.txt`?")
    assert "Did you mean" not in await refusal(ask, "file_read", path="src")


@pytest.mark.parametrize("arguments", [{"offset": 0}, {"limit": 0}, {"limit": 10**6}, {"path": 3}])
async def test_numbers_that_make_no_sense_are_refused(ask: Ask, arguments: dict[str, Any]) -> None:
    with pytest.raises(BadArguments):
        await ask("file_read", **{"path": "notes.txt"} | arguments)


# Writing.


async def test_a_file_is_written_with_its_folders(ask: Ask, folder: Path) -> None:
    written = await ask("file_write", path="new/deep/poem.txt", content="größer\n")
    path = folder / "new/deep/poem.txt"
    assert written == {"success": True, "path": str(path), "bytes_written": 9, "created": True}
    assert path.read_bytes() == "größer\n".encode()
    assert not (await ask("file_write", path="new/deep/poem.txt", content=""))["created"]
    assert path.read_bytes() == b""


async def test_what_no_file_can_hold_is_refused(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "lone surrogates" in await refusal(ask, "file_write", path="x", content="\ud83d")
    monkeypatch.setattr(files, "MAX_WRITTEN_BYTES", 10)
    assert "too many for one call" in await refusal(ask, "file_write", path="x", content="x" * 11)


async def test_secrets_and_state_of_hermes_stay_closed_whatever_is_approved(
    workplace: Workplace, tmp_path: Path, folder: Path
) -> None:
    ask = asking(workplace, gate=NobodyNeedsToBeAsked())
    home = tmp_path / "home"
    (home / "backups").mkdir(parents=True)
    (home / "skills").mkdir()
    (home / "mcp_logins").mkdir()
    (home / ".env").write_text("FAL_KEY=canary\n")
    (home / "approvals.key").write_text("canary")
    (home / "mcp_logins" / "vault.json").write_text("canary")
    (home / "state.db").write_bytes(b"canary")
    (home / "skills" / "mine.md").write_text("ours to read")
    (folder / "link").symlink_to(home / ".env")
    names = (".env", "approvals.key", "mcp_logins/vault.json", "state.db", "backups/x")
    for path in ("link", *(f"{home}/{name}" for name in names)):
        assert "secrets or state of Hermes" in await refusal(ask, "file_read", path=path)
        assert "secrets or state of Hermes" in await refusal(ask, "file_write", path=path, content="x")
        assert "secrets or state of Hermes" in await refusal(
            ask, "file_patch", path=path, old_string="canary", new_string="x"
        )
    assert (await ask("file_search", pattern="canary", path=str(home)))["matches"] == []
    assert (await ask("file_read", path=f"{home}/skills/mine.md"))["total_lines"] == 1


# Searching.


async def test_content_is_found_with_path_line_and_text(ask: Ask) -> None:
    found = await ask("file_search", pattern=r"def \w+")
    assert found == {"matches": [{"path": "src/main.py", "line": 1, "text": "def main():"}], "shown": 1}


async def test_files_are_found_by_their_names(ask: Ask) -> None:
    assert (await ask("file_search", pattern="*.py", target="files"))["matches"] == ["src/main.py"]
    assert (await ask("file_search", pattern="NOTE", target="files"))["matches"] == ["notes.txt"]


async def test_what_is_not_shown_is_counted(ask: Ask, folder: Path) -> None:
    (folder / "many.txt").write_text("needle\n" * 70)
    found = await ask("file_search", pattern="needle")
    assert (len(found["matches"]), found["shown"]) == (50, 50)
    assert found["note"] == "There are 20 more matches. Narrow the pattern or the path."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": ""}, "must be one line and not empty"),
        ({"pattern": "a\nb"}, "must be one line"),
        ({"pattern": "("}, "not a valid regular expression"),
        ({"pattern": "x", "path": "nowhere"}, "there is no such file"),
    ],
)
async def test_a_search_that_cannot_be_made_is_said(ask: Ask, arguments: dict[str, Any], words: str) -> None:
    assert words in await refusal(ask, "file_search", **arguments)


# Patching.


async def test_a_patch_gives_back_a_diff(ask: Ask, folder: Path) -> None:
    patched = await ask("file_patch", path="notes.txt", old_string="two", new_string="2")
    assert (patched["success"], patched["replacements"]) == (True, 1)
    assert patched["diff"].splitlines()[:2] == ["--- a/notes.txt", "+++ b/notes.txt"]
    assert "-two\n+2" in patched["diff"]
    assert (folder / "notes.txt").read_text() == "one\n2\nthree\n"


async def test_a_patch_that_overlooked_white_space_says_so(ask: Ask, folder: Path) -> None:
    patched = await ask("file_patch", path="src/main.py", old_string="return 1 ", new_string="return 2")
    assert "different white space" in patched["note"]
    assert (folder / "src/main.py").read_text() == "def main():\n    return 2\n"


async def test_bytes_that_are_no_text_stay_as_they_are(ask: Ask, folder: Path) -> None:
    (folder / "old.txt").write_bytes(b"caf\xe9\r\nend")
    patched = await ask("file_patch", path="old.txt", old_string="end", new_string="fin")
    assert (folder / "old.txt").read_bytes() == b"caf\xe9\r\nfin"
    assert "caf?" in patched["diff"]


async def test_a_patch_that_is_refused_changes_nothing(ask: Ask, folder: Path) -> None:
    (folder / "binary").write_bytes(b"a\0b")
    assert "binary" in await refusal(ask, "file_patch", path="binary", old_string="a", new_string="b")
    assert "2 times" in await refusal(ask, "file_patch", path="notes.txt", old_string="e\n", new_string="x")
    assert (folder / "notes.txt").read_text() == "one\ntwo\nthree\n"


# Where there is no workplace.


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("file_read", {"path": "x"}),
        ("file_write", {"path": "x", "content": ""}),
        ("file_search", {"pattern": "x"}),
        ("file_patch", {"path": "x", "old_string": "a", "new_string": "b"}),
    ],
)
async def test_without_a_workplace_every_tool_says_so(name: str, arguments: dict[str, str]) -> None:
    with pytest.raises(ToolFailed, match="There is no workplace here"):
        await TOOLS[name].run(json.dumps(arguments), ToolContext(task_id="one"))


def test_they_are_offered_only_where_there_is_a_workplace() -> None:
    names = sorted(TOOLS)
    assert names == ["file_patch", "file_read", "file_search", "file_write"]
    known = load_builtin()
    assert not {tool.name for tool in select(known, ["core", "file"])} & set(names)
    assert {tool.name for tool in select(known, ["core"], has_workplace=True)} >= set(names)
    assert "no workplace" in why_not(known, ["core"])["file_read"]
