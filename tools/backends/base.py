"""The interface of a backend: run commands, keep background processes, read and write files.

A backend on this machine opens files itself; one that is reached over a command channel (ssh, docker) can implement
`Files` by running small commands, with `Command.stdin` for the data to write.
"""

import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tools.errors import ToolFailed

if TYPE_CHECKING:  # many modules need these types, and few of them settings
    from hermes_config.settings import TerminalSettings


class BackendFailed(ToolFailed):
    """The command was not run, or its outcome is unknown; the text says why and what to do."""


class FileRefused(ToolFailed):
    """A file that was not read or written; `reason` is a clause, the text a sentence around it."""

    def __init__(self, sentence: str, *, reason: str = "") -> None:
        super().__init__(sentence)
        self.reason = reason


AskHost = Callable[[str], Awaitable[bool]]
"""Asks somebody whether commands may reach a host, however long that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to run: `text` for a shell, or `argv` as it is."""

    text: str = ""
    argv: tuple[str, ...] = ()
    workdir: str = ""  # empty means the backend's workspace
    environment: Mapping[str, str] = field(default_factory=dict)  # in addition to the backend's own
    stdin: bytes = b""  # the whole input of the command
    timeout_seconds: float | None = None  # None means the backend's, and no limit with `spawn`
    max_output_chars: int | None = None  # None means the backend's
    keeps_output: bool = True  # whether longer output is kept in a file
    interactive: bool = False  # with `spawn` only: `write` reaches its input
    pty: bool = False  # run it in a terminal
    variables: Mapping[str, str | None] | None = None
    """For `text`: variables an earlier shell exported or unset (None). If given, the result has this shell's state."""
    ask_host: AskHost | None = None  # where the network is for hosts that somebody allows; None: nobody is there
    is_new_host: Callable[[str], bool] | None = None  # hosts that are asked about even where the network is on
    sudo_password: str = field(default="", repr=False)  # for `text`: used by `sudo` where nothing isolates

    def limits(self, settings: "TerminalSettings") -> tuple[float, int]:
        """Return its seconds and the characters of its output, those of the settings where it has none of its own."""
        seconds = settings.timeout_seconds if self.timeout_seconds is None else self.timeout_seconds
        return seconds, settings.max_output_chars if self.max_output_chars is None else self.max_output_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellState:
    """The folder and variables that a shell hands to the next."""

    folder: str
    variables: Mapping[str, str | None] | None  # see `Command.variables`; None when too large to keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The result of a command that was waited for."""

    output: str  # both streams as they came; head and tail of a long output
    exit_code: int  # after a signal: 128 plus its number, as in a shell
    timed_out: bool = False
    output_bytes: int = 0  # the size of the whole output
    full_output: str = ""  # a file of the backend with more output; empty when `output` is complete
    note: str = ""  # further facts for the model: ended children, limits
    shell: ShellState | None = None  # None when not requested, or unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHandle:
    """Identifies a background process, even after our restart. Plain values, to be stored."""

    id: str
    backend: str  # the name of the backend that started it
    data: Mapping[str, Any]  # JSON that only that backend understands; a `pid` in it is shown to the model

    @property
    def pid(self) -> int | None:
        return self.data.get("pid")


RecordHandle = Callable[[ProcessHandle], Awaitable[None]]
"""Stores a handle, so that the process is found again later."""


async def record_nothing(handle: ProcessHandle) -> None:
    """Store nothing: the caller of `spawn` manages the process itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """The state of a background process. `exit_code` is None while it runs, and when it is unknown."""

    is_running: bool
    exit_code: int | None = None
    output_bytes: int = 0
    ended_ms: int | None = None  # None when unknown
    note: str = ""  # about its child processes, if anything


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
    left_out_bytes: int = 0  # of a line too long to be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesRead:
    lines: tuple[FileLine, ...]
    total_lines: int
    counted_all: bool  # False when the file was too large to read to its end


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
    line_number: int = 0  # 0 in a search for names
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    matches: tuple[Match, ...]
    more: int = 0  # how many more there are
    counted_all: bool = True  # False when there may be more than that


class Files(Protocol):
    """The files of a backend, by absolute paths as its commands see them. All methods raise FileRefused."""

    async def look(self, path: str) -> FileFacts | None:
        """Return facts about a path; None when nothing is there."""

    async def read(self, path: str, *, max_bytes: int) -> FileContent:
        """Return the content of a regular file; refuse a larger one."""

    async def read_lines(self, path: str, *, first: int, count: int) -> LinesRead:
        """Return lines of a text file, counted from 1, without loading more of it."""

    async def write(self, path: str, content: bytes, *, expected_version: str = "") -> WrittenFile:
        """Replace the file as a whole, or leave it as it is; create missing folders.

        With an `expected_version`, refuse a file that has changed since.
        """

    async def list_folder(self, path: str, *, max_entries: int) -> Sequence[FolderEntry]: ...

    async def search(self, search: Search) -> Found: ...


class ProcessControl(Protocol):
    """Background processes of one backend, by their handles alone: the workplace that started them may be gone.

    All methods but `reattach` and `statuses` raise BackendFailed.
    """

    @property
    def poll_seconds(self) -> float:
        """Return the sensible interval between calls of `statuses`."""

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
        """Return whether a risky command can do no harm outside its workspace."""

    @property
    def shares_host_files(self) -> bool:
        """Return whether its paths are those of this machine, as the gateway sees them."""

    @property
    def has_network(self) -> bool:
        """Return whether its commands can reach other machines."""

    @property
    def accepts_sudo(self) -> bool:
        """Return whether its commands may get the operator's sudo password."""

    @property
    def home(self) -> str:
        """Return the folder that `~` stands for."""

    @property
    def limits_in_force(self) -> str:
        """Describe to the operator which limits commands have, and which they do not."""

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
        """Release the backend's resources; background processes continue."""


async def save_nothing(place: "Workplace") -> None:
    """Store nothing: the workplace ends with this process."""


@dataclass(slots=True, kw_only=True)
class Workplace:
    """The place of a person's files and commands. Each conversation has its own, with its own current folder."""

    backend: Backend
    workspace: str  # the person's own folder, as the backend names it
    current_folder: str  # relative paths start here; `cd` in the terminal changes it
    kept_outputs: str = ""  # the folder of long outputs, as the backend names it
    holder: str = ""  # its owner: only the same holder sees its background processes
    environment: dict[str, str | None] = field(default_factory=dict)  # exported in its shell; None means unset
    keep_shell: "KeepShell" = save_nothing
    profile: Path | None = None  # on this machine, for what web pages store; None: nothing is kept
    outside: "Workplace | None" = None  # on the host, for a command that a human lets out of the sandbox
    controls: ProcessBackends = field(default_factory=dict)  # for processes that were started in another backend

    def control_of(self, handle: ProcessHandle) -> ProcessControl:
        """Return what controls a process of the holder, who may have worked elsewhere when it was started."""
        is_ours = handle.backend == self.backend.name
        return self.backend if is_ours else self.controls.get(handle.backend, self.backend)

    async def keep_text(self, text: str) -> str:
        """Store a long text where the tools can read it; return its path, empty when it could not be stored."""
        try:
            return await self.backend.keep(text)
        except BackendFailed as error:
            import structlog  # see above: more than a search needs

            structlog.get_logger(__name__).warning("long text not stored", problem=str(error))
            return ""

    def locate(self, path: str) -> str:
        """Return the absolute path for a path as people write it."""
        if path == "~" or path.startswith("~/"):
            path = self.backend.home + path[1:]
        joined = posixpath.normpath(posixpath.join(self.current_folder, path or "."))
        return "/" + joined.lstrip("/")


KeepShell = Callable[[Workplace], Awaitable[None]]
"""Saves the shell after each command that changed its folder or variables, before its result is reported."""
