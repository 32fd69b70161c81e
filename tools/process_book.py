"""What is known of a background process, and who writes it down.

A tool is handed a book, so that it works with and without a database behind it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tools.backends.base import Spawned


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A command that was started in the background. Plain values, to be stored."""

    id: str  # proc_…, the id of what was spawned
    holder: str  # who may see it and end it: `Workplace.holder` of whoever started it
    task_id: str  # the session, or the batch task, in which that was
    command: str
    workdir: str
    backend: str  # its name: `local`, `bubblewrap`
    spawned: Spawned
    started_ms: int
    pty: bool = False
    interactive: bool = False
    check_interval_seconds: int = 0  # how often new output is told in the chat; 0 means never
    notify_on_complete: bool = False  # whether the agent is woken when it ends
    polled: int = 0  # up to which byte of its output the model was shown by `poll`
    exit_code: int | None = None  # None while it runs, and when nobody saw how it ended
    ended_ms: int | None = None


class ProcessBook(Protocol):
    """Keeps the rows. Whoever asks sees only what has the same holder."""

    async def add(self, process: Process) -> None: ...

    async def all_of(self, holder: str) -> Sequence[Process]:
        """The newest first."""

    async def find(self, holder: str, process_id: str) -> Process | None: ...

    async def mark_polled(self, process_id: str, position: int) -> None: ...

    async def mark_ended(self, process_id: str, exit_code: int | None) -> bool:
        """False when that was known already."""

    async def remove(self, process_id: str) -> None: ...
