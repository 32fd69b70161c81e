"""Changes of skills keep what was there before."""

from pathlib import Path

import pytest

from skills.changes import apply_files, check_file_name, hash_skill, remove, replace_folder, undo, was_made_by_agent
from skills.library import NoSuchSkill, SkillLibrary
from tests.skills.writing import PLAIN, write_skill


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(root=tmp_path / "own", builtin=tmp_path / "bundled")


def text_of(library: SkillLibrary, name: str) -> str:
    return library.get(name).description


def write(library: SkillLibrary, name: str, description: str, *, action: str = "edit") -> None:
    text = PLAIN.format(name=name, description=description)
    apply_files(library, name, "home", {"SKILL.md": text}, action=action, by="agent")


def test_each_change_can_be_undone_in_turn_and_nothing_is_lost(library: SkillLibrary) -> None:
    write(library, "tea", "One.", action="create")
    assert library.get("tea").path == "home/tea"
    write(library, "tea", "Two.")
    write(library, "tea", "Three.")
    remove(library, "tea", by="user")
    assert library.find("tea") is None
    seen = []
    for _ in range(3):
        undone = undo(library, "tea")
        seen.append((undone.action, text_of(library, "tea")))
    assert seen == [("remove", "Three."), ("edit", "Two."), ("edit", "One.")]
    assert undo(library).action == "create"
    assert library.find("tea") is None
    with pytest.raises(NoSuchSkill, match="no change to undo"):
        undo(library)
    kept = [file.read_text() for file in library.root.glob(".versions/tea/*/*/SKILL.md")]
    assert {f"{word}." for word in ("One", "Two", "Three")} <= {
        text.split("description: ")[1][: text.split("description: ")[1].index("\n")] for text in kept
    }


def test_a_bundled_skill_is_changed_as_a_copy_and_cannot_be_removed(library: SkillLibrary) -> None:
    write_skill(library.builtin, "git/review", references__more_md="More.")
    with pytest.raises(NoSuchSkill, match=r"skills\.disabled"):
        remove(library, "review", by="user")
    write(library, "review", "Mine.")
    mine = library.get("review")
    assert (mine.description, mine.is_bundled, mine.path) == ("Mine.", False, "git/review")
    assert library.list_files(mine) == ["references/more.md"]
    undo(library, "review")
    assert library.get("review").is_bundled


def test_who_wrote_a_skill_is_known_until_somebody_edits_it(library: SkillLibrary) -> None:
    write_skill(library.root, "mine")
    assert not was_made_by_agent(library, "mine")
    write(library, "tea", "One.", action="create")
    assert was_made_by_agent(library, "tea")
    file = library.get("tea").folder / "SKILL.md"
    file.write_text(file.read_text() + "\nAnd milk.")
    assert not was_made_by_agent(library, "tea")


def test_a_change_that_was_made_before_a_crash_is_not_made_twice(library: SkillLibrary) -> None:
    write(library, "tea", "One.", action="create")
    before = hash_skill(library, "tea")
    write(library, "tea", "One.", action="create")
    assert hash_skill(library, "tea") == before
    assert len(list(library.root.glob(".versions/tea/*"))) == 1


def test_old_versions_go_and_the_source_is_kept(library: SkillLibrary, tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "elsewhere/tea")
    replace_folder(library, "tea", "", folder, action="install", by="installed", source="a/b/tea")
    assert library.get("tea").source == "a/b/tea"
    for number in range(25):
        write(library, "tea", f"Number {number}.")
    assert len(list(library.root.glob(".versions/tea/*"))) == 20
    assert library.get("tea").source == "a/b/tea"


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "references/../../x", ".env", "references/.x", "a.md", "", "bin/x"]
)
def test_files_are_written_where_the_format_has_them(name: str) -> None:
    assert check_file_name(name)
    assert not check_file_name("references/a/b.md")
    assert not check_file_name("SKILL.md")
