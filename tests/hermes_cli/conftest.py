"""The home that commands find, before and after the first start."""

from pathlib import Path

import pytest

from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_config.places import Home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where it will be: nothing is there yet."""
    return tmp_path / "home"


@pytest.fixture
def made(home: Path) -> None:
    Home(home).prepare()
    prepare(home / "state.db", BackupPolicy(backups=home / "backups"), repair=False)
