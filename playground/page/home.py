"""The home of the playground's gateway: temporary or kept, and never one of the user's own."""

import fcntl
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

MARK = "# Made by `hermes playground`, and written anew whenever it starts here.\n"
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


class NotOurs(Exception):
    """The directory holds something else; the message says what to do."""


class PlaygroundHome:
    def __init__(self, root: Path, *, temporary: bool) -> None:
        self.root = root
        self.temporary = temporary
        self._held: IO[bytes] | None = None

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    @property
    def lock_file(self) -> Path:
        return self.root / "gateway.lock"

    @property
    def log_file(self) -> Path:
        return self.root / "logs" / "gateway.log"

    def hold(self) -> None:
        """Lock the home until `remove`: another playground would send this one's gateway to its own servers."""
        held = (self.log_file.parent / "playground.lock").open("ab")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held.close()
            raise NotOurs(f"{self.root} is in use by another playground. Name another directory.") from None
        self._held = held

    def remove(self) -> None:
        if self._held is not None:
            self._held.close()
        if self.temporary:
            shutil.rmtree(self.root.parent, ignore_errors=True)


def make_home(chosen: Path | None, *, owners: list[str], variables: Mapping[str, str]) -> PlaygroundHome:
    """`variables` are the addresses and tokens of this playground's own servers. Raises NotOurs."""
    if chosen is None:
        home = PlaygroundHome(Path(tempfile.mkdtemp(prefix="hermes-playground-")) / "home", temporary=True)
    else:
        home = PlaygroundHome(chosen.expanduser().absolute(), temporary=False)
        _check(home.root)
    workspace = home.root / "workspaces" / "playground"
    for folder in (home.root, home.log_file.parent, workspace):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.hold()
    config = {**CONFIG, "access": {"owner_users": owners}, "terminal": {"cwd": str(workspace)}}
    _write(home.root / "config.yaml", MARK + json.dumps(config, indent=2) + "\n")  # JSON is YAML
    _write(home.root / ".env", "".join(f"{name}={value}\n" for name, value in variables.items()))
    return home


def _check(root: Path) -> None:
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        return
    config = root / "config.yaml"
    if not config.is_file() or not config.read_text(errors="replace").startswith(MARK):
        raise NotOurs(f"{root} was not made by a playground, and is left alone. Name a new or empty directory.")


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
