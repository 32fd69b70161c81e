"""The bundled skills: complete, valid, small, and harmless by our own scanner."""

import pytest
from skills_ref import validate  # type: ignore[import-untyped]

from skills.format import SECTIONS, Skill, parse_skill, render_skill
from skills.library import BUILTIN, SkillLibrary, find_skills
from tests.skills.writing import PUBLIC_STYLES
from tools.scanner import scan

BUNDLED = list(find_skills(BUILTIN, is_bundled=True))


def test_the_five_are_there() -> None:
    assert {skill.name for skill in BUNDLED} == {
        "github-pr-workflow",
        "hacker-news-digest",
        "token-usage",
        "atropos-environments",
        "systemd-service-debug",
    }


@pytest.mark.parametrize("skill", BUNDLED, ids=lambda skill: skill.name)
def test_each_passes_the_reference_validator_and_our_scanner(skill: Skill) -> None:
    assert validate(skill.folder) == []
    assert skill.problem == ""
    assert [line[3:] for line in skill.body.splitlines() if line[3:] in SECTIONS] == list(SECTIONS)
    assert len(skill.body) < 8_000
    library = SkillLibrary(root=BUILTIN / "none")
    texts = [skill.body, *(library.read_file(skill, name) for name in library.list_files(skill))]
    assert [scan(text) for text in texts] == [[]] * len(texts)


def test_the_one_on_atropos_asks_for_the_endpoint_before_anything_else() -> None:
    [skill] = [one for one in BUNDLED if one.name == "atropos-environments"]
    assert skill.body.index("Ask for the inference endpoint first") < skill.body.index("## Trigger Conditions")
    files = SkillLibrary(root=BUILTIN / "none").list_files(skill)
    assert files == ["references/interface.md", "references/running.md", "templates/environment.py"]
    compile((skill.folder / "templates/environment.py").read_text(), "environment.py", "exec")


@pytest.mark.parametrize("text", [one[1] for one in PUBLIC_STYLES], ids=[one[0] for one in PUBLIC_STYLES])
def test_whatever_we_read_we_write_as_the_validator_wants_it(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parsed = parse_skill(text.lstrip("\ufeff"))
    folder = tmp_path_factory.mktemp("written") / parsed.name
    folder.mkdir()
    (folder / "SKILL.md").write_text(render_skill(parsed))
    assert validate(folder) == []
