"""The home that commands find, before and after the first start."""

import os
from pathlib import Path

import pytest

from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_config.places import Home
from tests.hermes_cli.systemd import StandIn


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where it will be: nothing is there yet."""
    return tmp_path / "home"


@pytest.fixture
def made(home: Path) -> None:
    Home(home).prepare()
    prepare(home / "state.db", BackupPolicy(backups=home / "backups"), repair=False)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    stand_in = StandIn(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    return stand_in
