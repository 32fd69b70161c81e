"""What is known of a background process, and who writes it down.

A tool is handed a book, so that it works with and without a database behind it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tools.backends.base import Spawned

MAX_PROCESSES = 64  # of one holder
KEPT_MS = 30 * 60_000  # after its end


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

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks after what is in it, tells a chat and wakes the agent."""

    async def add(self, process: Process) -> None: ...

    async def all_of(self, holder: str) -> Sequence[Process]:
        """The newest first."""

    async def find(self, holder: str, process_id: str) -> Process | None: ...

    async def mark_polled(self, process_id: str, position: int) -> None: ...

    async def mark_ended(self, process_id: str, exit_code: int | None, *, seen: bool = True) -> bool:
        """False when that was known already. `seen`: the agent is being told, so nobody else needs to tell it."""

    async def remove(self, process_id: str) -> None: ...


class ProcessesInMemory:
    """For scripts: it knows of nothing when it is made anew, though the processes themselves may go on."""

    is_watched = False

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    async def add(self, process: Process) -> None:
        self._processes[process.id] = process

    async def all_of(self, holder: str) -> Sequence[Process]:
        return [one for one in reversed(self._processes.values()) if one.holder == holder]

    async def find(self, holder: str, process_id: str) -> Process | None:
        found = self._processes.get(process_id)
        return found if found and found.holder == holder else None

    async def mark_polled(self, process_id: str, position: int) -> None:
        if found := self._processes.get(process_id):
            self._processes[process_id] = replace(found, polled=position)

    async def mark_ended(self, process_id: str, exit_code: int | None, *, seen: bool = True) -> bool:
        found = self._processes.get(process_id)
        if found is None or found.ended_ms is not None:
            return False
        self._processes[process_id] = replace(found, exit_code=exit_code, ended_ms=now_ms())
        return True

    async def remove(self, process_id: str) -> None:
        self._processes.pop(process_id, None)


def stale(processes: Sequence[Process], at_ms: int, *, making_room_for: int = 0) -> list[Process]:
    """Of one holder's, the newest first: those that ended long ago, and the oldest of the ended when there are many."""
    ended = [one for one in processes if one.ended_ms is not None]
    room = max(0, MAX_PROCESSES - making_room_for - (len(processes) - len(ended)))
    return [one for place, one in enumerate(ended) if place >= room or (one.ended_ms or 0) + KEPT_MS < at_ms]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
