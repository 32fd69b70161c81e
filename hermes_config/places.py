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


class _Entry:
    """A file or folder in the home."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, home: "Home", owner: type["Home"]) -> Path:
        return home.root / self.name


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
    chat_history = _Entry("chat_history")  # what was typed at the terminal
    control_socket = _Entry("control.sock")  # for commands to the running gateway
    signing_key = _Entry("approvals.key")  # signs approvals and granted rules
    image_cache = _Entry("image_cache")
    audio_cache = _Entry("audio_cache")
    document_cache = _Entry("document_cache")
    workspaces = _Entry("workspaces")  # a folder for each person who works in a sandbox
    private = _Entry("private")  # for each person long outputs and the /tmp of the sandbox
    memories = _Entry("memories")  # a folder for each person and group: a readable copy of what is remembered
    cron = _Entry("cron")  # for each scheduled job the answers that go to no chat
    webhooks = _Entry("webhooks")  # a template for each webhook that has its own
    skills = _Entry("skills")  # a folder for each skill that was written, accepted or installed
    mcp_logins = _Entry("mcp_logins")  # tokens of MCP servers
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
            owner = self.root.stat().st_uid
            database_bytes = self.database.stat().st_size if self.database.exists() else 0
            ours = not database_bytes or self._has_our_mark()
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"Cannot read {self.root}, the home of Hermes: {_reason(error)}. Nothing was changed. "
                "Fix that, or choose another directory with HERMES_HOME=…"
            ) from error
        if owner != os.geteuid():  # who could put tools and settings there that run as us
            raise ConfigError(
                f"{self.root} belongs to another user (uid {owner}). Nothing was changed. Run Hermes as that user, or "
                "choose another directory with HERMES_HOME=…"
            )
        if not ours:
            raise ForeignHome(_describe_foreign(self.root, "a state.db that Hermes did not create"))
        strange = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in KNOWN_ENTRIES)]
        if strange and not database_bytes:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            found = f"{', '.join(strange[:3])}{more}, which Hermes did not create"
            raise ForeignHome(_describe_foreign(self.root, found))

    def _has_our_mark(self) -> bool:
        """Never in a process that has the database open: closing the file drops all locks that SQLite has on it."""
        with self.database.open("rb") as file:
            header = file.read(APPLICATION_ID_OFFSET + 4)
        if header[APPLICATION_ID_OFFSET:] == APPLICATION_ID.to_bytes(4, "big"):
            return True
        if not self.mark_file.is_file():
            return False
        with self.mark_file.open("rb") as file:
            return file.read(len(MARK)) == MARK


_OTHER_FILES = (
    "AGENTS.md",
    "BOOT.md",
    "SOUL.md",
    "hooks",
    "sticker_cache.json",
    "tools",
    "trajectories",
    "video_cache",
)
# Left behind by SQLite, an editor, an interrupted write or the system.
_REMAINS = (".config.yaml*", "config.yaml*", ".env*", "state.db*", "state.mark*", ".sticker_cache.json*")
_REMAINS_OF_SYSTEMS = (".DS_Store", "lost+found")
_PLACES = {entry.name.partition("/")[0] for entry in vars(Home).values() if isinstance(entry, _Entry)}
KNOWN_ENTRIES = frozenset((*_PLACES, *_OTHER_FILES, *_REMAINS, *_REMAINS_OF_SYSTEMS))


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


def _describe_foreign(root: Path, found: str) -> str:
    return (
        f"{root} belongs to another program: it contains {found}. Nothing in it was changed. "
        "Give Hermes its own home: HERMES_HOME=~/.hermes-gateway hermes …\n"
        "To take over settings of hermes-agent: HERMES_HOME=~/.hermes-gateway hermes import hermes-agent --dry-run"
    )


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{(error.strerror or str(error)).lower()}{where}"
