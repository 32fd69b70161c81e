"""A folder of skills."""

from pathlib import Path

import pytest

from skills.library import SkillLibrary


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(root=tmp_path / "skills", builtin=tmp_path / "bundled")
