"""Where commands run and files are: what a backend offers, whatever stands behind it.

Nothing here says how. A backend on this machine opens files itself; one that is reached over a command channel (ssh,
docker) can do all of `Files` by running small commands, with `Command.stdin` for what is written.
"""

import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tools.errors import ToolFailed


class BackendFailed(ToolFailed):
    """The command was not run, or nobody can say what became of it; the text says why and what to do."""


class FileRefused(ToolFailed):
    """A file that was not read or written; `reason` is a clause, the text a sentence around it."""

    def __init__(self, sentence: str, *, reason: str = "") -> None:
        super().__init__(sentence)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something to run: `text` for a shell, or `argv` as it is."""

    text: str = ""
    argv: tuple[str, ...] = ()
    workdir: str = ""  # empty means the backend's workspace
    environment: Mapping[str, str] = field(default_factory=dict)  # in addition to the backend's own
    stdin: bytes = b""  # read by the command, then its input ends
    timeout_seconds: float | None = None  # None means the backend's; of a spawned one, no limit
    max_output_chars: int | None = None  # None means the backend's
    keeps_output: bool = True  # whether what is longer than that stays in a file
    interactive: bool = False  # spawned only: `send` reaches its input
    pty: bool = False  # it sees a terminal
    variables: Mapping[str, str | None] | None = None
    """Of `text`: what an earlier shell exported, or took away (None). When it is given, how this one ends is told."""
    sudo_password: str = field(default="", repr=False)  # of `text`: for `sudo`, where nothing isolates


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellState:
    """What a shell leaves to the next."""

    folder: str
    variables: Mapping[str, str | None] | None  # see `Command.variables`; None when they are too many to be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What became of a command that was waited for."""

    output: str  # both streams as they came; head and tail when there was too much
    exit_code: int  # of one that a signal ended: 128 and its number, as a shell says it
    timed_out: bool = False
    output_bytes: int = 0  # all that it wrote
    full_output: str = ""  # a file of the backend with more than `output` holds; empty when `output` is all
    note: str = ""  # what the model should know besides: ended children, limits
    shell: ShellState | None = None  # None when it was not asked for, or nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """A long-lived child: enough to find it again after a restart of ours. Plain values, to be stored."""

    id: str
    pid: int
    keeper_pid: int  # who looks after it: reads its output, ends its children, writes down how it ended
    keeper_started: int  # in ticks since boot: a pid alone may be somebody else's by now
    folder: str  # on our side, where its output is


WriteDown = Callable[[Spawned], Awaitable[None]]
"""Makes a child known to whoever looks after it later."""


async def nobody_asks(spawned: Spawned) -> None:
    """For a child that whoever starts it keeps in mind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """How a spawned child is doing. `exit_code` is None while it runs, and when nobody saw how it ended."""

    is_running: bool
    exit_code: int | None = None
    output_bytes: int = 0
    ended_ms: int | None = None  # None when nobody saw it, or the backend does not know
    note: str = ""  # what became of its children, when that should be known


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A stretch of what a child wrote. Positions count from its first byte, also of what is no longer kept."""

    content: bytes
    start: int
    end: int


FileKind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    kind: FileKind
    size_bytes: int
    version: str = ""  # changes when the file does


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    content: bytes
    facts: FileFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLine:
    text: str
    left_out_bytes: int = 0  # of a line that is too long to be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesRead:
    lines: tuple[FileLine, ...]
    total_lines: int
    counted_all: bool  # False when the file is so large that only its beginning was looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    path: str
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    name: str
    kind: FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """`pattern` is a regular expression for content; for names a glob, or a part of the name."""

    pattern: str
    path: str
    target: Literal["content", "files"] = "content"
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    path: str
    line_number: int = 0  # 0 when a name was looked for
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    matches: tuple[Match, ...]
    more: int = 0  # how many there are besides
    counted_all: bool = True  # False when there may be more than that


class Files(Protocol):
    """The files of a backend, by absolute paths as its commands see them. Everything raises FileRefused."""

    async def look(self, path: str) -> FileFacts | None:
        """What is there; None when nothing is."""

    async def read(self, path: str, *, max_bytes: int) -> FileContent:
        """All of a regular file, or a refusal when it is larger."""

    async def read_lines(self, path: str, *, first: int, count: int) -> LinesRead:
        """Lines of a text file, counted from 1, without holding more of it than them."""

    async def write(self, path: str, content: bytes, *, expected_version: str = "") -> WrittenFile:
        """Replaces the file at once and as a whole, or leaves it as it is; makes missing folders.

        With an `expected_version` it is refused when the file has changed since.
        """

    async def list_folder(self, path: str, *, max_entries: int) -> Sequence[FolderEntry]: ...

    async def search(self, search: Search) -> Found: ...


class Backend(Protocol):
    """A place where commands run. All methods but `close` raise BackendFailed."""

    @property
    def name(self) -> str: ...

    @property
    def is_isolated(self) -> bool:
        """Whether a risky command can do no harm outside of its workspace."""

    @property
    def has_network(self) -> bool:
        """Whether its commands can reach other machines."""

    @property
    def home(self) -> str:
        """What `~` means in it."""

    @property
    def limits_in_force(self) -> str:
        """What bounds a command, and what does not, in words for the operator."""

    @property
    def files(self) -> Files: ...

    async def run(self, command: Command) -> Finished:
        """Waits for its end. Nothing of it is left running afterwards; being cancelled ends it, too."""

    async def spawn(self, command: Command, write_down: WriteDown = nobody_asks) -> Spawned:
        """Starts it and goes on. Once `write_down` has returned it outlives us, and so does its output; until then,
        and when that raises, it ends with us."""

    async def standing(self, spawned: Spawned) -> ProcessStatus: ...

    async def output(self, spawned: Spawned, *, since: int = 0, max_bytes: int = 200_000) -> OutputChunk:
        """What it wrote from `since` on, as far as it is kept; `start` says where that begins."""

    async def send(self, spawned: Spawned, data: bytes) -> None:
        """To the input of an interactive one."""

    async def resize(self, spawned: Spawned, *, columns: int, rows: int) -> None:
        """The terminal of one that has one."""

    async def kill(self, spawned: Spawned) -> None:
        """It and all its children; returns when they are gone. One that has ended already is fine."""

    async def keep(self, text: str) -> str:
        """Puts a long text where `files` finds it, for a while; gives its path."""

    async def forget(self, spawned: Spawned) -> None:
        """Removes what is kept of one that has ended."""

    async def close(self) -> None:
        """Gives back what the backend holds; spawned children go on."""


async def nobody_keeps(place: "Workplace") -> None:
    """For a workplace that ends with the process."""


@dataclass(slots=True, kw_only=True)
class Workplace:
    """Where somebody's files are and their commands run. One for each conversation: the current folder is its own."""

    backend: Backend
    workspace: str  # the person's own folder, as the backend names it
    current_folder: str  # relative paths begin here; the terminal moves it
    kept_outputs: str = ""  # where the whole of a long output can be read, as the backend names it
    holder: str = ""  # whose it is: background processes are seen by the same holder alone
    environment: dict[str, str | None] = field(default_factory=dict)  # what was exported in its shell; None: unset
    keep_shell: "KeepShell" = nobody_keeps

    def locate(self, path: str) -> str:
        """An absolute path, from one as people write it."""
        if path == "~" or path.startswith("~/"):
            path = self.backend.home + path[1:]
        joined = posixpath.normpath(posixpath.join(self.current_folder, path or "."))
        return "/" + joined.lstrip("/")


KeepShell = Callable[[Workplace], Awaitable[None]]
"""Told of each command that has moved or exported something, before its result is known: a crash does not undo it."""
