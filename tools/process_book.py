"""The record of background processes that a tool is given, so that it works with and without a database."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tools.backends.base import ProcessHandle

MAX_PROCESSES = 64  # of one holder
KEPT_MS = 30 * 60_000  # after its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A command that was started in the background. Plain values, to be stored."""

    handle: ProcessHandle
    holder: str  # who may see and end it: `Workplace.holder` of its starter
    task_id: str  # the session, or the batch task, in which it was started
    command: str
    workdir: str
    started_ms: int
    pty: bool = False
    interactive: bool = False
    check_interval_seconds: int = 0  # how often the chat gets new output; 0 means never
    notify_on_complete: bool = False  # whether the agent is woken when it ends
    polled: int = 0  # how many bytes of its output the model has seen through `poll`
    exit_code: int | None = None  # None while it runs, and when unknown
    ended_ms: int | None = None

    @property
    def id(self) -> str:
        return self.handle.id


class ProcessBook(Protocol):
    """Stores processes. A holder sees only their own."""

    @property
    def is_watched(self) -> bool:
        """Return whether a gateway watches the processes, to tell a chat and wake the agent."""

    async def add(self, process: Process) -> None: ...

    async def read_all(self, holder: str) -> Sequence[Process]:
        """Return a holder's processes, the newest first."""

    async def find(self, holder: str, process_id: str) -> Process | None: ...

    async def mark_polled(self, process_id: str, position: int) -> None: ...

    async def mark_ended(self, process_id: str, exit_code: int | None, *, seen: bool = True) -> bool:
        """Store the end; return False when it was known. `seen` means that the caller tells the agent."""

    async def remove(self, process_id: str) -> None: ...


class ProcessesInMemory:
    """A process book in memory, for scripts. It forgets processes at exit, although they may still run."""

    is_watched = False

    def __init__(self) -> None:
        self._processes: dict[str, Process] = {}

    async def add(self, process: Process) -> None:
        self._processes[process.id] = process

    async def read_all(self, holder: str) -> Sequence[Process]:
        return [process for process in reversed(self._processes.values()) if process.holder == holder]

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


def find_stale(processes: Sequence[Process], at_ms: int, *, making_room_for: int = 0) -> list[Process]:
    """Return those of a holder's processes, given newest first, that ended long ago or exceed the limit."""
    ended = [process for process in processes if process.ended_ms is not None]
    room = max(0, MAX_PROCESSES - making_room_for - (len(processes) - len(ended)))
    return [
        process for place, process in enumerate(ended) if place >= room or (process.ended_ms or 0) + KEPT_MS < at_ms
    ]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
