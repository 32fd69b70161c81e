"""The interface of a backend: run commands, keep background processes, read and write files.

Nothing here says how. A backend on this machine opens files itself; one that is reached over a command channel (ssh,
docker) can do all of `Files` by running small commands, with `Command.stdin` for what is written.
"""

import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tools.errors import ToolFailed


class BackendFailed(ToolFailed):
    """The command was not run, or how it ended is unknown; the text says why and what to do."""


class FileRefused(ToolFailed):
    """A file that was not read or written; `reason` is a clause, the text a sentence around it."""

    def __init__(self, sentence: str, *, reason: str = "") -> None:
        super().__init__(sentence)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run: `text` for a shell, or `argv` as it is."""

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
    """The folder and variables that a shell hands to the next."""

    folder: str
    variables: Mapping[str, str | None] | None  # see `Command.variables`; None when they are too many to be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The result of a command that was waited for."""

    output: str  # both streams as they came; head and tail when there was too much
    exit_code: int  # of one that a signal ended: 128 and its number, as a shell says it
    timed_out: bool = False
    output_bytes: int = 0  # all that it wrote
    full_output: str = ""  # a file of the backend with more than `output` holds; empty when `output` is all
    note: str = ""  # what the model should know besides: ended children, limits
    shell: ShellState | None = None  # None when it was not asked for, or nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHandle:
    """Enough to find a background process again, even after a restart of ours. Plain values, to be stored."""

    id: str
    backend: str  # the name of the backend that started it
    data: Mapping[str, Any]  # JSON that only that backend understands; a `pid` in it is shown to the model

    @property
    def pid(self) -> int | None:
        return self.data.get("pid")


RecordHandle = Callable[[ProcessHandle], Awaitable[None]]
"""Stores a handle, so that the process is found again later."""


async def record_nothing(handle: ProcessHandle) -> None:
    """Store nothing: the caller of `spawn` looks after the process itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """The state of a background process. `exit_code` is None while it runs, and when nobody saw how it ended."""

    is_running: bool
    exit_code: int | None = None
    output_bytes: int = 0
    ended_ms: int | None = None  # None when nobody saw it, or the backend does not know
    note: str = ""  # about its children, if there is something to say


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of a process's output. Positions count from its first byte, including output no longer stored."""

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
        """Return facts about a path; None when nothing is there."""

    async def read(self, path: str, *, max_bytes: int) -> FileContent:
        """Return the content of a regular file; refuse a larger one."""

    async def read_lines(self, path: str, *, first: int, count: int) -> LinesRead:
        """Return lines of a text file, counted from 1, without holding more of it than them."""

    async def write(self, path: str, content: bytes, *, expected_version: str = "") -> WrittenFile:
        """Replace the file as a whole, or leave it as it is; create missing folders.

        With an `expected_version` it is refused when the file has changed since.
        """

    async def list_folder(self, path: str, *, max_entries: int) -> Sequence[FolderEntry]: ...

    async def search(self, search: Search) -> Found: ...


class ProcessControl(Protocol):
    """Background processes of one backend, by their handles alone: the workplace that started them may be gone.

    All methods but `reattach` and `statuses` raise BackendFailed.
    """

    @property
    def poll_seconds(self) -> float:
        """How often it is sensible to ask for statuses."""

    async def reattach(self, handles: Sequence[ProcessHandle]) -> set[str]:
        """Reconnect to processes of an earlier run of ours; return the ids of those that still run."""

    async def statuses(self, handles: Sequence[ProcessHandle]) -> Mapping[str, ProcessStatus]:
        """Return statuses by process id. A process that cannot be asked about now is missing."""

    async def read(self, handle: ProcessHandle, *, since: int = 0, max_bytes: int = 200_000) -> OutputChunk:
        """Return output from byte `since` on, as far as it is kept; `start` says where that begins."""

    async def write(self, handle: ProcessHandle, data: bytes) -> None:
        """Write to the input of an interactive process."""

    async def resize(self, handle: ProcessHandle, *, columns: int, rows: int) -> None:
        """Resize the terminal of a process that has one."""

    async def kill(self, handle: ProcessHandle) -> None:
        """End the process and all its children; return when they are gone. It may have ended already."""

    async def forget(self, handle: ProcessHandle) -> None:
        """Delete the output of a process that has ended; do nothing while it runs."""


ProcessBackends = Mapping[str, ProcessControl]
"""All backends that may have started a process, by their names."""


class Backend(ProcessControl, Protocol):
    """A place where commands run. All methods but `close` raise BackendFailed."""

    @property
    def name(self) -> str: ...

    @property
    def isolates(self) -> bool:
        """Whether a risky command can do no harm outside of its workspace."""

    @property
    def shares_host_files(self) -> bool:
        """Whether its paths are those of this machine, as the gateway itself sees them."""

    @property
    def has_network(self) -> bool:
        """Whether its commands can reach other machines."""

    @property
    def accepts_sudo(self) -> bool:
        """Whether the operator's sudo password may be given to its commands."""

    @property
    def keeps_processes(self) -> bool:
        """Whether `spawn` works: a process goes on after the turn, and after a restart of ours."""

    @property
    def home(self) -> str:
        """The folder that `~` stands for."""

    @property
    def limits_in_force(self) -> str:
        """Describe to the operator what limits a command, and what does not."""

    @property
    def files(self) -> Files: ...

    async def run(self, command: Command) -> Finished:
        """Run a command to its end. Nothing of it is left running afterwards; cancelling ends it too."""

    async def spawn(self, command: Command, record: RecordHandle = record_nothing) -> ProcessHandle:
        """Start a background process. Once `record` has returned, it and its output outlive us; until then, and when
        `record` raises, it ends with us."""

    async def keep(self, text: str) -> str:
        """Store a long text where `files` finds it, for a while; return its path."""

    async def close(self) -> None:
        """Release what the backend holds; background processes go on."""


async def nobody_keeps(place: "Workplace") -> None:
    """Store nothing: the workplace ends with this process."""


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
        """Return the absolute path for one as people write it."""
        if path == "~" or path.startswith("~/"):
            path = self.backend.home + path[1:]
        joined = posixpath.normpath(posixpath.join(self.current_folder, path or "."))
        return "/" + joined.lstrip("/")


KeepShell = Callable[[Workplace], Awaitable[None]]
"""Told of each command that has moved or exported something, before its result is known: a crash does not undo it."""
