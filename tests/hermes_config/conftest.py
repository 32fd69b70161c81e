"""A home of its own and an environment without settings, for every test here."""

from pathlib import Path

import pytest

from hermes_config import environment
from hermes_config.keys import variables
from hermes_config.places import Home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in environment.everything():
        if name.startswith("HERMES_") or name in variables():
            monkeypatch.delenv(name)
    root = tmp_path / "home"
    root.mkdir(mode=0o700)
    monkeypatch.setenv("HERMES_HOME", str(root))
    return Home(root)
