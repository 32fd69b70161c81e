"""Finding, listing and reading skills, whatever lies in their folder."""

from pathlib import Path

import pytest

from agent_core.tokens import estimate_text
from gateway.skills.engine import write_index
from skills.library import NoSuchSkill, SkillLibrary
from tests.skills.writing import PLAIN, write_skill


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(root=tmp_path / "own", builtin=tmp_path / "bundled")


def test_the_users_win_over_bundled_ones_and_broken_ones_are_listed(library: SkillLibrary) -> None:
    write_skill(library.builtin, "git/review")
    write_skill(library.builtin, "other")
    mine = write_skill(library.root, "work/review", PLAIN.format(name="review", description="Mine."))
    write_skill(library.root, "home/review", PLAIN.format(name="review", description="Mine, again."))
    write_skill(library.root, "broken", "---\ndescription: x\n---\n")
    write_skill(library.root, ".hidden/no")
    found = [(skill.path, skill.problem != "") for skill in library.find_all()]
    assert found == [("broken", True), ("other", False), ("home/review", False), ("work/review", True)]
    assert library.get("review").folder == mine.parent.parent / "home" / "review"
    with pytest.raises(NoSuchSkill, match="`name` is missing"):
        library.get("broken")
    with pytest.raises(NoSuchSkill, match="Did you mean review"):
        library.get("reviews")
    off = SkillLibrary(root=library.root, builtin=library.builtin, disabled=("other",))
    assert [skill.name for skill in off.list_usable()] == ["review"]
    with pytest.raises(NoSuchSkill, match="switched off"):
        off.get("other")


def test_files_are_read_inside_the_skill_only(library: SkillLibrary, tmp_path: Path) -> None:
    folder = write_skill(library.root, "files", references__api_md="How.", scripts__run_sh="echo hi")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    (folder / ".env").write_text("KEY=1")
    skill = library.get("files")
    assert library.list_files(skill) == ["leak.txt", "picture.png", "references/api.md", "scripts/run.sh"]
    assert library.read_file(skill, "references/api.md") == "How."
    outside = (
        "leak.txt",
        "../secret.txt",
        "/etc/passwd",
        ".env",
        "references",
        "picture.png",
        "references/../.env",
        "",
    )
    for name in outside:
        with pytest.raises(NoSuchSkill):
            library.read_file(skill, name)


def test_the_index_of_a_hundred_skills_stays_small(library: SkillLibrary) -> None:
    assert write_index(library) == ""
    for number in range(100):
        description = f"Number {number}: " + "explains at length when to use it and what it does. " * 4
        write_skill(
            library.root,
            f"group-{number % 7}/a-skill-for-task-{number}",
            PLAIN.format(name=f"a-skill-for-task-{number}", description=f'"{description}"'),
        )
    index = write_index(library)
    assert estimate_text(index) <= 1_500
    assert all(f"a-skill-for-task-{number}" in index for number in range(100))
    for number in range(400):
        write_skill(library.root, f"more/a-rather-long-name-of-a-skill-{number}")
    index = write_index(library)
    assert estimate_text(index) <= 1_500
    assert "more: 400 skills" in index


def test_search_and_near_duplicates(library: SkillLibrary) -> None:
    text = "---\nname: {}\ndescription: {}\nmetadata:\n  tags: {}\n---\nx"
    write_skill(library.root, "deploy-site", text.format("deploy-site", "Put the web site online with rsync.", "web"))
    write_skill(library.root, "backup", text.format("backup", "Copy photos to the disk every week.", "disk, copy"))
    assert [skill.name for skill in library.search("web site")] == ["deploy-site"]
    assert [skill.name for skill in library.search("copy")] == ["backup"]
    assert library.search("zebra") == []
    assert [one.name for one in library.find_similar("deploy-sites", "Something.")] == ["deploy-site"]
    near = library.find_similar("photo-copies", "Copy photos to the other disk every week")
    assert [one.name for one in near] == ["backup"]
    assert library.find_similar("bake-bread", "Bake a loaf of bread.") == []
