"""Where everything of ours lives, and the check that the directory really is ours.

Never opens the database: opening another program's file with SQLite could already change it.
"""

import os
import stat
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from hermes_config import environment
from hermes_config.errors import ConfigError
from hermes_config.errors import ForeignHome as ForeignHome

APPLICATION_ID = 0x48524D53
APPLICATION_ID_OFFSET = 68
MARK = b"HERMES-GATEWAY"

# A file of ours may leave siblings behind: SQLite's journals, an editor's swap file, a write cut short.
KNOWN_ENTRIES = frozenset(
    {
        ".DS_Store",
        ".config.yaml*",
        ".env*",
        ".sticker_cache.json*",
        "AGENTS.md",
        "BOOT.md",
        "SOUL.md",
        "audio_cache",
        "backups",
        "config.yaml*",
        "cron",
        "document_cache",
        "gateway.lock",
        "hermes.sock",
        "hooks",
        "image_cache",
        "logs",
        "lost+found",
        "memories",
        "private",
        "skills",
        "state.db*",
        "state.mark*",
        "sticker_cache.json",
        "tools",
        "trajectories",
        "video_cache",
        "workspaces",
    }
)


@dataclass(frozen=True, slots=True)
class Home:
    root: Path

    @classmethod
    def locate(cls) -> "Home":
        chosen = environment.get("HERMES_HOME") or "~/.hermes"
        try:
            return cls(Path(os.path.abspath(Path(chosen).expanduser())))
        except RuntimeError as error:
            raise ConfigError(f"HERMES_HOME is {chosen!r}, and that user is unknown; give a full path.") from error

    @property
    def config_file(self) -> Path:
        return self.root / "config.yaml"

    @property
    def env_file(self) -> Path:
        return self.root / ".env"

    @property
    def database(self) -> Path:
        return self.root / "state.db"

    @property
    def mark_file(self) -> Path:
        """Written by the store beside its database, so that a damaged database is still known as ours."""
        return self.root / "state.mark"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def lock_file(self) -> Path:
        return self.root / "gateway.lock"

    @property
    def socket(self) -> Path:
        return self.root / "hermes.sock"

    @property
    def image_cache(self) -> Path:
        return self.root / "image_cache"

    @property
    def audio_cache(self) -> Path:
        return self.root / "audio_cache"

    @property
    def document_cache(self) -> Path:
        return self.root / "document_cache"

    @property
    def workspaces(self) -> Path:
        """A folder for each person who works in a sandbox."""
        return self.root / "workspaces"

    @property
    def private(self) -> Path:
        """For each person what belongs to their commands: long outputs, a sandbox's /tmp."""
        return self.root / "private"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def log_file(self) -> Path:
        """Log lines of commands at the terminal; the gateway's go to stderr, and so to the journal."""
        return self.logs / "hermes.log"

    def prepare(self) -> None:
        """Make the directory, readable by its owner alone; refuse, untouched, one that is not ours."""
        self.check_ours()
        try:
            make_private(self.root)
            _close_to_others(self.root)
        except OSError as error:
            raise ConfigError(
                f"Cannot use {self.root} as the home of Hermes: {_reason(error)}. "
                "Mend that, or choose another place with HERMES_HOME=…"
            ) from error

    def check_ours(self) -> None:
        """Raise ForeignHome for another program's directory, ConfigError for one we cannot look into."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.root))
            database_bytes = self.database.stat().st_size if self.database.exists() else 0
            ours = not database_bytes or self._bears_our_mark()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"Cannot look into {self.root}, the home of Hermes: {_reason(error)}. Nothing was touched. "
                "Mend that, or choose another place with HERMES_HOME=…"
            ) from error
        if not ours:
            raise ForeignHome(_foreign(self.root, "a state.db that is not ours"))
        strange = [name for name in names if not _is_known(name)]
        if strange and not database_bytes:
            raise ForeignHome(_foreign(self.root, _some(strange)))

    def _bears_our_mark(self) -> bool:
        with self.database.open("rb") as file:
            header = file.read(APPLICATION_ID_OFFSET + 4)
        if header[APPLICATION_ID_OFFSET:] == APPLICATION_ID.to_bytes(4, "big"):
            return True
        if not self.mark_file.is_file():
            return False
        with self.mark_file.open("rb") as file:
            return file.read(len(MARK)) == MARK


def make_private(folder: Path) -> None:
    """Closed to others, and so are those above it that are made with it: `parents=True` would leave them open."""
    missing = list(takewhile(lambda one: not one.exists(), (folder, *folder.parents)))
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _close_to_others(root: Path) -> None:
    found = root.stat()
    if found.st_mode & stat.S_ISVTX:
        # An empty /tmp passes every other check; closing it would break the whole machine.
        raise ConfigError(f"{root} is a directory shared by many; choose one inside it with HERMES_HOME=…")
    if stat.S_IMODE(found.st_mode) & 0o077 or stat.S_IMODE(found.st_mode) & 0o700 != 0o700:
        root.chmod(0o700)


def _is_known(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in KNOWN_ENTRIES)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more that we did not make" if len(names) > 3 else f"{shown}, not made by us"


def _foreign(root: Path, found: str) -> str:
    return (
        f"{root} belongs to another program: it holds {found}. Nothing in it was touched. "
        "Give Hermes a home of its own: HERMES_HOME=~/.hermes-gateway hermes …"
    )


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{(error.strerror or str(error)).lower()}{where}"
