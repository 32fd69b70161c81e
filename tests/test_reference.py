"""The generated references say what the settings say."""

from pathlib import Path

import pytest

from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.settings import Settings
from tests.reference import FILES, ROOT


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == FILES[path](), f"{path.name} is out of date; run: make docs"


def test_the_example_is_a_valid_file_with_all_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    home = Home(tmp_path)
    home.config_file.write_text((ROOT / "config.example.yaml").read_text())
    loaded = load(home)
    assert loaded.warnings == ()
    assert [key for key, source in loaded.sources.items() if source.startswith("config.yaml")]
    assert loaded.settings.model_dump(exclude={"secrets"}) == Settings().model_dump(exclude={"secrets"})
