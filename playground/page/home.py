"""The home of the playground's gateway: a temporary directory, never one of the user's own."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIG: Mapping[str, Any] = {
    "platforms": {
        "socket": {"enabled": False},
        "web": {"enabled": False},
        "telegram": {"poll_seconds": 10},  # a dead line is noticed when a poll is overdue
    },
    "gateway": {"drain_timeout_seconds": 10},
    "model": {"name": "demo", "demo_pace_ms": 45},  # slow enough to be watched
    "logs": {"format": "pretty"},
}


@dataclass(frozen=True, slots=True)
class PlaygroundHome:
    root: Path

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    @property
    def lock_file(self) -> Path:
        return self.root / "gateway.lock"

    @property
    def log_file(self) -> Path:
        return self.root / "logs" / "gateway.log"

    def remove(self) -> None:
        shutil.rmtree(self.root.parent, ignore_errors=True)


def make_home(*, owners: list[str], variables: Mapping[str, str]) -> PlaygroundHome:
    """`variables` are the addresses and tokens of this playground's own servers."""
    home = PlaygroundHome(Path(tempfile.mkdtemp(prefix="hermes-playground-")) / "home")
    workspace = home.root / "workspaces" / "playground"
    for folder in (home.root, home.log_file.parent, workspace):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    config = {**CONFIG, "access": {"owner_users": owners}, "terminal": {"cwd": str(workspace)}}
    for name, text in (
        ("config.yaml", json.dumps(config, indent=2) + "\n"),  # JSON is YAML
        (".env", "".join(f"{name}={value}\n" for name, value in variables.items())),
    ):
        (home.root / name).touch(mode=0o600)
        (home.root / name).write_text(text)
    return home
