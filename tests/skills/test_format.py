"""SKILL.md as people write it, and as we write it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from skills.format import ParsedSkill, is_name, load_skill, parse_skill, render_skill
from tests.skills.writing import PUBLIC_STYLES, write_skill


@pytest.mark.parametrize(("folder", "text", "name", "words"), PUBLIC_STYLES, ids=[one[0] for one in PUBLIC_STYLES])
def test_public_skills_load_as_they_are(folder: str, text: str, name: str, words: str, tmp_path: Path) -> None:
    skill = load_skill(write_skill(tmp_path, folder, text))
    assert (skill.name, skill.problem) == (name, "")
    assert skill.description.startswith(words)


def test_our_keys_are_read_wherever_others_put_them() -> None:
    texts = {one[0]: one[1] for one in PUBLIC_STYLES}
    assert parse_skill(texts["old-keys"]).metadata == {"version": "1.2.0", "tags": "a, b"}
    assert parse_skill(texts["nested"]).metadata == {"tags": "x", "related_skills": "pdf"}
    assert parse_skill(texts["tools-text"]).allowed_tools == "Bash(git:*) Read"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no name"),
        ("Only words, no heading.", "it has no name"),
        ("---\ndescription: Something.\n---\nbody", "`name` is missing"),
        ("---\nname: '☕'\ndescription: x\n---\n", "`name` is missing"),
        ("---\nname: x\n---\n", "`description` is missing"),
        ("---\nname: [a\ndescription: x\n---\nbody", "line"),
        ("---\nname: a\ndescription: Use it: always\n---\nbody", "put the value in quotes"),
        ("---\nname: a\nname: b\ndescription: x\n---\nbody", "SKILL.md"),
        ("---\na: &a [x]\nb: [*a, *a]\nname: y\ndescription: z\n---\n", "anchors"),
        ("---\nname: x\ndescription: d\nm: " + "[" * 1_000 + "]" * 1_000 + "\n---\n", "not YAML"),
        ("---\nname: x\n" + "y" * 600_000 + "\n---\n", "larger than"),
        (b"---\nname: x\ndescription: \xff\xfe\n---\n", "not text in UTF-8"),
        ("---\nname: mac\ndescription: d\nplatforms: [macos]\n---\n", "for macos only"),
    ],
)
def test_a_broken_one_says_why(text: str | bytes, reason: str, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    skill = load_skill(folder)
    assert reason in skill.problem
    assert not skill.is_usable
    assert "\n" not in skill.problem


def test_a_file_that_leads_elsewhere_or_that_others_can_change_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("---\nname: s\ndescription: d\n---\n")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "SKILL.md").symlink_to(tmp_path / "secret.md")
    assert "not a plain file" in load_skill(tmp_path / "linked").problem
    opened = write_skill(tmp_path, "opened")
    (opened / "SKILL.md").chmod(0o666)
    assert "everybody can write" in load_skill(opened).problem


@given(
    description=some.text(min_size=1, max_size=1_500).filter(lambda text: "".join(text.split())),
    version=some.text(max_size=40),
    body=some.text(max_size=200),
)
@settings(max_examples=50)
def test_what_we_write_is_read_back(description: str, version: str, body: str) -> None:
    given_skill = ParsedSkill(name="a-b", description=description, body=body, metadata={"version": version})
    back = parse_skill(render_skill(given_skill))
    assert is_name(back.name)
    assert len(back.description) <= 1_024
    if description.isprintable() and "--" not in description and len(description) <= 1_000:
        assert back.description == " ".join(description.split())
