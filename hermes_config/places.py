"""The home directory of Hermes, and the check that it is not another program's.

Never opens the database: opening another program's file with SQLite could change it.
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

# The stars stand for files that may be left behind: SQLite's journals, an editor's swap file, an interrupted write.
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


class _Entry:
    """A file or folder in the home."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, home: "Home", owner: type["Home"]) -> Path:
        return home.root / self._name


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one installation: settings, database, caches."""

    root: Path

    config_file = _Entry("config.yaml")
    env_file = _Entry(".env")
    database = _Entry("state.db")
    mark_file = _Entry("state.mark")  # lets a damaged database still be recognised as ours
    backups = _Entry("backups")
    lock_file = _Entry("gateway.lock")
    socket = _Entry("hermes.sock")
    image_cache = _Entry("image_cache")
    audio_cache = _Entry("audio_cache")
    document_cache = _Entry("document_cache")
    workspaces = _Entry("workspaces")  # a folder for each person who works in a sandbox
    private = _Entry("private")  # for each person long outputs and the /tmp of the sandbox
    logs = _Entry("logs")
    log_file = _Entry("logs/hermes.log")  # of commands at the terminal; the gateway logs to stderr

    @classmethod
    def locate(cls) -> "Home":
        chosen = environment.get("HERMES_HOME") or "~/.hermes"
        try:
            return cls(Path(os.path.abspath(Path(chosen).expanduser())))
        except RuntimeError as error:
            raise ConfigError(f"HERMES_HOME is {chosen!r}, and that user is unknown; give a full path.") from error

    def prepare(self) -> None:
        """Create the directory, readable by its owner alone; raise ForeignHome, touching nothing, if it is not ours."""
        self.check_ours()
        try:
            make_private(self.root)
            _close_to_others(self.root)
        except OSError as error:
            raise ConfigError(
                f"Cannot use {self.root} as the home of Hermes: {_reason(error)}. "
                "Fix that, or choose another directory with HERMES_HOME=…"
            ) from error

    def check_ours(self) -> None:
        """Raise ForeignHome for another program's directory, ConfigError for one that cannot be read."""
        try:
            names = sorted(entry.name for entry in os.scandir(self.root))
            database_bytes = self.database.stat().st_size if self.database.exists() else 0
            ours = not database_bytes or self._has_our_mark()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"Cannot read {self.root}, the home of Hermes: {_reason(error)}. Nothing was changed. "
                "Fix that, or choose another directory with HERMES_HOME=…"
            ) from error
        if not ours:
            raise ForeignHome(_describe_foreign(self.root, "a state.db that Hermes did not create"))
        strange = [name for name in names if not _is_known(name)]
        if strange and not database_bytes:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            found = f"{', '.join(strange[:3])}{more}, which Hermes did not create"
            raise ForeignHome(_describe_foreign(self.root, found))

    def _has_our_mark(self) -> bool:
        with self.database.open("rb") as file:
            header = file.read(APPLICATION_ID_OFFSET + 4)
        if header[APPLICATION_ID_OFFSET:] == APPLICATION_ID.to_bytes(4, "big"):
            return True
        if not self.mark_file.is_file():
            return False
        with self.mark_file.open("rb") as file:
            return file.read(len(MARK)) == MARK


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, all closed to others; `parents=True` would leave the parents open."""
    missing = list(takewhile(lambda one: not one.exists(), (folder, *folder.parents)))
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _close_to_others(root: Path) -> None:
    found = root.stat()
    if found.st_mode & stat.S_ISVTX:
        # An empty /tmp passes every other check; closing it would break the machine.
        raise ConfigError(f"{root} is shared by several users; choose a directory inside it with HERMES_HOME=…")
    if stat.S_IMODE(found.st_mode) & 0o077 or stat.S_IMODE(found.st_mode) & 0o700 != 0o700:
        root.chmod(0o700)


def _is_known(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in KNOWN_ENTRIES)


def _describe_foreign(root: Path, found: str) -> str:
    return (
        f"{root} belongs to another program: it contains {found}. Nothing in it was changed. "
        "Give Hermes its own home: HERMES_HOME=~/.hermes-gateway hermes …"
    )


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{(error.strerror or str(error)).lower()}{where}"
