"""What is asked before files are read and written on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.programs import needs
from tests.tools.approval.test_command import Listening
from tests.tools.places import place_in
from tools.approval.changed_files import note_beginning
from tools.approval.gate import Gate, NobodyNeedsToBeAsked, NotApproved, Question
from tools.backends.base import Workplace
from tools.base import ToolContext
from tools.loading import load_builtin

TOOLS = {tool.name: tool for tool in load_builtin() if tool.toolset == "file"}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = place_in(tmp_path)
    place.backend.home = str(tmp_path / "me")  # type: ignore[misc]  # a home of our own making
    (tmp_path / "me" / ".ssh").mkdir(parents=True)
    (tmp_path / "me" / ".ssh" / "id_rsa").write_text("key")
    return place


async def question(place: Workplace, name: str, **given: Any) -> Question | None:
    gate = Listening()
    context = ToolContext(task_id="t", call_id="c", workplace=place, gate=gate)
    await TOOLS[name].admit(json.dumps(given), context)
    return gate.asked[0] if gate.asked else None


async def asked(place: Workplace, name: str, **given: Any) -> Question:
    found = await question(place, name, **given)
    assert found is not None
    return found


WRITTEN = [
    *("~/.bashrc", "~/.profile", "~/.zshrc", "~/.ssh/authorized_keys", "~/.ssh/config"),
    "~/.config/systemd/user/x.service",
    *("~/.config/autostart/x.desktop", "~/.gitconfig", ".git/hooks/pre-commit", ".git/config"),
    *("/etc/hosts", "/etc/cron.d/x", "/usr/bin/ls", "/var/spool/cron/me", "../home/config.yaml", "../home/tools/x.py"),
    *("x/../../home/SOUL.md", "~/../me/.bashrc", ".envrc", "~/.aws/credentials"),
]
READ = [
    *("~/.ssh/id_rsa", "~/.ssh/../.ssh/id_rsa", "~/.aws/credentials", "~/.netrc", "~/.kube/config", ".env"),
    *("~/.config/gh/hosts.yml", "/etc/shadow", "~/.docker/config.json", "/proc/1/environ", "~/.gnupg/x", "~/.npmrc"),
]
HARMLESS = [
    *("notes.txt", "src/main.py", "~/notes.txt", ".github/workflows/ci.yml", ".gitignore", ".env.example", "Makefile"),
    *("~/.ssh/id_rsa.pub", 'it\'s; $(rm) `x` "y".txt', "-rf", "a*b?.txt", "ünïcode.md"),
]


@pytest.mark.parametrize("path", WRITTEN)
async def test_writing_where_it_is_run_or_read_by_itself_asks(place: Workplace, path: str) -> None:
    for name, given in (
        ("file_write", {"content": "alias ls=x"}),
        ("file_patch", {"old_string": "a", "new_string": "alias ls=x"}),
    ):
        found = await asked(place, name, path=path, **given)
        assert found.tool == name
        assert found.action.startswith("write to ")
        assert "alias ls=x" in found.action
        assert (found.decider, found.rules) == ("owner", ())
        assert found.reasons


@pytest.mark.parametrize("path", READ)
async def test_reading_keys_and_credentials_asks(place: Workplace, path: str) -> None:
    assert "holds secrets" in (await asked(place, "file_read", path=path)).reasons[0]
    assert "holds secrets" in (await asked(place, "file_search", path=path, pattern="x")).reasons[0]
    assert await question(place, "file_search", path=path, pattern="x", target="files") is None


@pytest.mark.parametrize("path", HARMLESS)
async def test_other_files_do_not(place: Workplace, path: str) -> None:
    assert await question(place, "file_read", path=path) is None
    if ".ssh" not in path:
        assert await question(place, "file_write", path=path, content="x") is None


async def test_the_question_says_what_would_be_done(place: Workplace) -> None:
    written = await asked(place, "file_write", path="~/.bashrc", content="alias ls=x")
    assert written.action == "write to ~/.bashrc: alias ls=x"
    assert written.where == f"on this machine, in {place.workspace}"
    patched = await asked(place, "file_patch", path="~/.bashrc", old_string="a", new_string="b")
    assert patched.action == "write to ~/.bashrc: replace\na\nby\nb"
    read = await asked(place, "file_read", path="~/.ssh/id_rsa")
    assert (read.tool, read.action) == ("file_read", "read ~/.ssh/id_rsa")
    assert read.rules == (f"read-secret {place.backend.home}/.ssh/id_rsa",)
    searched = await asked(place, "file_search", path="~/.ssh/id_rsa", pattern="x")
    assert (searched.tool, searched.action) == ("file_search", "search in ~/.ssh/id_rsa")


async def test_a_yes_is_for_this_text_in_this_file_alone(place: Workplace) -> None:
    patch = {"path": "~/.bashrc", "old_string": "a", "new_string": "b", "replace_all": False}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("file_patch", patch),
        ("file_patch", {**patch, "path": "~/.profile"}),
        ("file_patch", {**patch, "old_string": "c"}),
        ("file_patch", {**patch, "new_string": "c"}),
        ("file_patch", {**patch, "replace_all": True}),
        ("file_write", {"path": "~/.bashrc", "content": "a"}),
        ("file_write", {"path": "~/.bashrc", "content": "b"}),
        ("file_write", {"path": "~/.bashrc", "content": ""}),
        ("file_read", {"path": "~/.ssh/id_rsa"}),
        ("file_search", {"path": "~/.ssh/id_rsa", "pattern": "a"}),
        ("file_search", {"path": "~/.ssh/id_rsa", "pattern": "b"}),
    ]
    found = [await asked(place, name, **given) for name, given in calls]
    assert len({one.binding for one in found}) == len(calls)


async def test_the_home_of_hermes_asks_but_for_texts_that_are_read_to_the_agent_anyway(place: Workplace) -> None:
    assert (await asked(place, "file_read", path="../home/config.yaml")).reasons
    assert (await asked(place, "file_search", path="../home/state.db", pattern="x")).reasons
    assert await question(place, "file_read", path="../home/SOUL.md") is None
    assert await question(place, "file_search", path="../home/SOUL.md", pattern="x") is None


async def test_a_folder_is_searched_where_none_is_named(place: Workplace, tmp_path: Path) -> None:
    place.current_folder = str(tmp_path / "me" / ".ssh")
    assert (await asked(place, "file_search", pattern="x")).action == "search in ~/.ssh"


async def test_a_conversation_may_begin_with_a_file(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.approval.changed_files.time.time", lambda: 100.0)
    context = ToolContext(task_id="begins with a file", call_id="c", workplace=place, gate=Listening())
    await TOOLS["file_read"].admit('{"path": "notes.txt"}', context)
    monkeypatch.setattr("tools.approval.changed_files.time.time", lambda: 200.0)
    assert note_beginning("begins with a file") == 99.0


async def test_links_of_another_machine_are_not_looked_for_here(place: Workplace, tmp_path: Path) -> None:
    (Path(place.workspace) / "notes.txt").symlink_to(tmp_path / "me" / ".ssh" / "id_rsa")
    (tmp_path / "linked").symlink_to(tmp_path / "me")
    place.backend.home = str(tmp_path / "linked")  # type: ignore[misc]
    place.backend.shares_host_files = False  # type: ignore[misc]
    assert await question(place, "file_read", path="notes.txt") is None
    assert await question(place, "file_write", path=f"{tmp_path}/me/bin/x", content="x") is None
    assert (await asked(place, "file_write", path="~/bin/x", content="x")).reasons
    assert (await asked(place, "file_read", path="~/.ssh/id_rsa")).reasons


async def test_links_are_followed(place: Workplace, tmp_path: Path) -> None:
    folder = Path(place.workspace)
    (folder / "notes.txt").symlink_to(tmp_path / "me" / ".ssh" / "id_rsa")
    (folder / "docs").symlink_to(tmp_path / "me" / ".ssh")
    (folder / "other").symlink_to("docs")
    for path in ("notes.txt", "docs/id_rsa", "other/id_rsa"):
        found = await asked(place, "file_read", path=path)
        assert found.action.endswith(f"{path} (which is ~/.ssh/id_rsa)")
        assert (await asked(place, "file_write", path=path, content="x")).reasons
    assert (await asked(place, "file_search", path="docs", pattern="x")).reasons
    first = await asked(place, "file_read", path="notes.txt")
    (folder / "notes.txt").unlink()
    (folder / "notes.txt").symlink_to("/etc/shadow")
    assert (await asked(place, "file_read", path="notes.txt")).binding != first.binding


async def test_a_link_that_cannot_be_followed_is_left_to_the_tool(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.path.realpath", refuse)  # as below another user's /proc/…/root
    assert await question(place, "file_read", path="/proc/1/root/x") is None
    assert (await asked(place, "file_read", path="~/.ssh/id_rsa")).action == "read ~/.ssh/id_rsa"


async def test_a_home_behind_a_link_is_still_the_home(place: Workplace, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "me")
    place.backend.home = str(tmp_path / "linked")  # type: ignore[misc]
    assert (await asked(place, "file_read", path="~/.ssh/id_rsa")).reasons
    assert (await asked(place, "file_write", path=f"{tmp_path}/me/.bashrc", content="x")).reasons
    assert (await asked(place, "file_write", path=f"{tmp_path}/me/bin/x", content="x")).reasons


async def test_a_long_text_is_shown_by_head_and_tail(place: Workplace) -> None:
    found = await asked(place, "file_write", path="~/.bashrc", content="a" * 5_000 + "b" * 5_000)
    assert "[… 6,000 characters omitted …]" in found.action
    assert len(found.action) < 4_200
    same_ends = await asked(place, "file_write", path="~/.bashrc", content="a" * 5_001 + "b" * 4_999)
    assert same_ends.action == found.action
    assert same_ends.binding != found.binding


async def test_a_disk_is_never_written_to(place: Workplace) -> None:
    with pytest.raises(NotApproved, match="never allowed"):
        await question(place, "file_write", path="/dev/sda", content="x")


async def test_arguments_that_make_no_sense_are_left_to_the_tool(place: Workplace) -> None:
    for given in ({}, {"path": 3}, {"path": "a\0b"}, {"path": ["~/.bashrc"]}):
        assert await question(place, "file_read", **given) is None
        assert await question(place, "file_write", **given) is None


@needs("bubblewrap")
async def test_in_a_sandbox_files_are_not_asked_about(tmp_path: Path) -> None:
    place = place_in(tmp_path, "bubblewrap")
    assert await question(place, "file_write", path="~/.bashrc", content="x") is None
    assert await question(place, "file_read", path="~/.ssh/id_rsa") is None


async def search(place: Workplace, gate: Gate, **given: Any) -> dict[str, Any]:
    context = ToolContext(task_id="t", call_id="c", workplace=place, gate=gate)
    found = await TOOLS["file_search"].run(json.dumps(given), context)
    assert isinstance(found, dict)
    return found


async def test_a_search_returns_no_line_of_a_file_that_reading_would_ask_about(
    place: Workplace, tmp_path: Path
) -> None:
    config = tmp_path / "me" / ".config"
    for name in ("gh/hosts.yml", "app/plain.txt"):
        (config / name).parent.mkdir(parents=True)
        (config / name).write_text("token: canary\n")
    (config / "app" / "innocent.txt").symlink_to(config / "gh" / "hosts.yml")
    found = await search(place, Listening(), pattern="canary", path="~/.config")
    assert [Path(match["path"]).name for match in found["matches"]] == ["plain.txt"]
    assert "hosts.yml" in found["note"]
    assert "file_read" in found["note"]
    assert await question(place, "file_read", path="~/.config/gh/hosts.yml") is not None
    names = await search(place, Listening(), pattern="*.yml", path="~/.config", target="files")
    assert len(names["matches"]) == 1, "names reveal no secret"
    approved = await search(place, Listening(), pattern="canary", path="~/.config/gh/hosts.yml")
    assert len(approved["matches"]) == 1
    unasked = await search(place, NobodyNeedsToBeAsked(), pattern="canary", path="~/.config")
    assert len(unasked["matches"]) == 2
