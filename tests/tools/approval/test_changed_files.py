"""Which files a conversation has changed, of those that a command may run, and what is in them."""

import os
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.places import place_in
from tools.approval import changed_files as module
from tools.approval.changed_files import UNREAD, changed_files, note_beginning
from tools.backends.base import Workplace
from tools.shell_guard.guard import judge

OLD, BEGAN = 1_000.0, 2_000.0  # files made now are newer than either


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Where a conversation of the name `t` has begun long ago."""
    monkeypatch.setattr(module, "_began", OrderedDict({"t": BEGAN, "begins now": 9e12}))
    place = place_in(tmp_path)
    place.backend.home = str(tmp_path / "me")  # type: ignore[misc]
    (tmp_path / "me").mkdir()
    return place


def write(place: Workplace, name: str, text: str = "new") -> str:
    path = Path(place.workspace) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


async def found(
    place: Workplace, command: str, *written: str, folder: str = "", task_id: str = "begins now"
) -> dict[str, str]:
    """For a conversation to which no file is new but those that it has written itself, unless it is `t`."""
    argvs = judge(command, cwd=place.current_folder, home=place.backend.home).argv
    return await changed_files(argvs, folder or place.workspace, written, place, task_id)


# What file tools have written


async def test_what_was_written_is_read_wherever_its_name_may_lead(place: Workplace, tmp_path: Path) -> None:
    at_home, in_folder, here, inside = (
        str(tmp_path / "me" / "a.sh"),
        str(tmp_path / "elsewhere" / "a.sh"),
        str(tmp_path / "here" / "a.sh"),
        write(place, "a.sh"),
    )
    for path in (at_home, in_folder, here):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(path)
    place = replace(place, current_folder=str(tmp_path / "here"))
    where = str(tmp_path / "elsewhere")
    assert await found(place, "true", "a.sh", folder=where) == {in_folder: in_folder, here: here, inside: "new"}
    assert await found(place, "true", "~/a.sh", folder=where) == {at_home: at_home}
    assert await found(place, "true", "x/../a.sh", inside) == {inside: "new", here: here}
    assert await found(place, "true", "~", "", "a\0b", ".", "gone.sh", "~a.sh") == {}


async def test_of_what_is_too_large_or_one_too_many_nothing_is_read(place: Workplace) -> None:
    most, more = write(place, "most", "x" * 200_000), write(place, "more", "x" * 200_001)
    assert await found(place, "true", most, more) == {most: "x" * 200_000, more: UNREAD}
    paths = [write(place, f"{number}.py") for number in range(51)]
    read = await found(place, "true", *paths)
    assert list(read) == paths[::-1]  # the newest first
    assert list(read.values()) == ["new"] * 50 + [UNREAD]


async def test_what_is_no_text_is_read_all_the_same(place: Workplace) -> None:
    path = write(place, "a")
    Path(path).write_bytes(b"a\xffb")
    assert await found(place, "true", path) == {path: "a\ufffdb"}


async def test_what_cannot_be_looked_at_is_left_out(place: Workplace) -> None:
    path = write(place, "a")
    Path(place.workspace, "loop").symlink_to("loop")
    assert await found(place, "true", path, "loop") == {path: "new"}


# What commands have made


async def test_what_a_command_names_is_read_if_it_is_newer_than_the_conversation(
    place: Workplace, tmp_path: Path
) -> None:
    script, below = write(place, "a.sh"), write(place, "sub/b.sh")
    odd = write(place, "-d.sh")
    at_home = tmp_path / "me" / "c.sh"
    at_home.write_text("new")
    for command, paths in {
        "sh a.sh": [script],
        "sh ./a.sh x": [script],
        "cat a.sh a.sh": [script],
        "cd sub && sh b.sh": [below],
        "cd sub; cd ..; sh b.sh; sh a.sh": [below, script],
        "sh ~/c.sh": [str(at_home)],
        "cd; sh a.sh": [script],
        "sh b.sh": [],
        "sh -a.sh": [],
        "sh -- -d.sh": [odd],
        "true": [],
    }.items():
        assert sorted(await found(place, command, task_id="t")) == sorted(paths)
        assert await found(place, command) == {}


async def test_what_another_machine_holds_is_not_looked_for_here(place: Workplace) -> None:
    script = write(place, "a.sh")
    assert list(await found(place, "sh a.sh", task_id="t")) == [script]
    place.backend.shares_host_files = False  # type: ignore[misc]
    assert await found(place, "sh a.sh", task_id="t") == {}


async def test_of_very_many_words_only_the_first_are_looked_for(place: Workplace) -> None:
    names = [f"w{number}" for number in range(60)]
    last, beyond = write(place, names[-2]), write(place, names[-1])
    read = await found(place, f"cat {' '.join(names)}", task_id="t")
    assert list(read) == [last]  # the program is a word, too
    assert beyond not in read


def test_a_changed_time_of_change_is_itself_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    changed = path.stat().st_ctime
    os.utime(path, (OLD, OLD))
    assert module._is_newer(str(path), changed)
    os.utime(path, (OLD, changed + 500))  # by a clock that is ahead
    assert module._is_newer(str(path), changed + 500)
    assert not module._is_newer(str(path), changed + 501)
    assert not module._is_newer(str(tmp_path / "gone"), OLD)
    assert not module._is_newer("a\0b", OLD)


async def test_programs_that_load_a_project_are_given_its_new_files(place: Workplace) -> None:
    test, deep = write(place, "test_a.py"), write(place, "a/b/test_b.py")
    write(place, "notes.md")
    assert sorted(await found(place, "pytest -q", task_id="t")) == sorted([test, deep])
    assert sorted(await found(place, "make test", task_id="t")) == sorted([test, deep])
    assert list(await found(place, "cd a && pytest", task_id="t")) != []
    assert await found(place, "pytest -q") == {}
    assert await found(place, "ls", task_id="t") == {}


async def test_for_other_commands_nobody_looks_through_the_project(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write(place, "a.sh")
    monkeypatch.delattr("os.walk")
    assert list(await found(place, "cat a.sh", task_id="t")) == [script]


@pytest.mark.parametrize("folder", [".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target"])
async def test_what_others_have_made_is_not_looked_into(place: Workplace, folder: str) -> None:
    own = write(place, "src/test_a.py")
    write(place, f"{folder}/test_b.py")
    write(place, f"src/{folder}/test_b.py")
    assert list(await found(place, "pytest", task_id="t")) == [own]


def test_a_very_large_project_is_not_looked_through_to_its_end(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write(place, f"{number}.py")
    write(place, "sub/deep.py")
    for most, seen in ((2, 3), (3, 4), (4, 4)):
        monkeypatch.setattr(module, "_MAX_VISITED", most)
        assert len(list(module._find_loaded(place.workspace, BEGAN))) == seen


# When it began


def test_a_conversation_begins_once_and_a_second_early(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.approval.changed_files.time.time", lambda: 100.0)
    assert note_beginning("new") == 99.0  # clocks of file systems are coarse
    monkeypatch.setattr("tools.approval.changed_files.time.time", lambda: 200.0)
    assert note_beginning("new") == 99.0


def test_so_many_conversations_are_remembered(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_TASKS", 2)
    monkeypatch.setattr(module, "_began", OrderedDict())
    for number, task in enumerate("abc"):
        monkeypatch.setattr("tools.approval.changed_files.time.time", lambda number=number: 1.0 + number)
        note_beginning(task)
    assert module._began == {"b": 1.0, "c": 2.0}
