"""One turn at a time per session, many sessions at once; commands apart, at once.

The store decides who is next. Here is only who is running, and how a running turn is ended early.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog

from gateway.commands.desk import Handled, fail_next_command
from gateway.errors import GatewayError, StoreCorrupt
from gateway.store import turns
from gateway.store.connection import Transaction
from gateway.store.database import Database
from gateway.store.turns import Turn

log = structlog.get_logger()

_COMMIT_SECONDS = 5.0  # how long a stop waits for a store that takes nothing


class Worker(Protocol):
    """Carries a turn to its end. Each method ends in a commit."""

    async def respond(self, turn: Turn) -> None: ...

    async def failed(self, turn: Turn) -> None: ...

    async def stopped(self, turn: Turn) -> None: ...

    async def paused(self, turn: Turn) -> None: ...


@dataclass(slots=True)
class _Running:
    turn: Turn
    task: asyncio.Task[None]
    ending: Literal["", "stop", "pause"] = ""

    def end(self, how: Literal["stop", "pause"]) -> None:
        if not self.ending:
            self.ending = how
            self.task.cancel()


class Lanes:
    def __init__(
        self, db: Database, worker: Worker, next_command: Callable[[Transaction], Handled | None], *, max_turns: int
    ) -> None:
        self._db = db
        self._worker = worker
        self._next_command = next_command
        self._max_turns = max_turns
        self._running: dict[str, _Running] = {}
        self._wake = asyncio.Event()
        self._draining = False
        self._beginning = asyncio.Lock()
        self.recovered = asyncio.Event()
        self.after_commit: Callable[[], None] = lambda: None

    def wake(self) -> None:
        self._wake.set()

    @property
    def running(self) -> int:
        return len(self._running)

    async def run(self) -> None:
        """Takes up what an earlier process left, then whatever comes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            left_behind = await self._db.write_when_possible(turns.resume_all)
            await self._handle_commands()  # before the turns: a stop may be among them
            for turn in left_behind:
                self._start(group, turn)
            self.recovered.set()
            self._wake.set()
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._handle_commands()
                await self._begin_turns(group)

    async def drain(self, timeout_seconds: float) -> None:
        """Begins nothing more; lets what runs finish in time, and pauses the rest for the next start."""
        self._draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMMIT_SECONDS), self._beginning:
                pass  # a turn that was just being begun is among the running from here on
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        rest = [running for running in self._running.values() if not running.task.done()]
        for running in rest:
            running.end("pause")
        if rest:
            # One that cannot be written down as paused is taken up like after a crash.
            await asyncio.wait([running.task for running in rest], timeout=_COMMIT_SECONDS)

    async def _handle_commands(self) -> None:
        while handled := await self._handle_command():
            self.after_commit()
            if handled.stops_turn and (running := self._running.get(handled.session_key)):
                running.end("stop")

    async def _handle_command(self) -> Handled | None:
        while True:
            try:
                return await self._db.write_when_possible(self._next_command)
            except GatewayError:
                raise
            except Exception:  # contained: it would end the gateway, and be the first to be handled after each start
                log.exception("command failed")
                await self._db.write_when_possible(fail_next_command)
                self.after_commit()

    async def _begin_turns(self, group: asyncio.TaskGroup) -> None:
        async with self._beginning:
            free = self._max_turns - len(self._running)
            if not self._draining and free > 0:
                for turn in await self._begin(free):
                    self._start(group, turn)

    async def _begin(self, free: int) -> list[Turn]:
        def begin(tx: Transaction) -> list[Turn]:
            begun: list[Turn] = []
            while len(begun) < free and (turn := turns.begin(tx)):
                begun.append(turn)
            return begun

        return await self._db.write_when_possible(begin)

    def _start(self, group: asyncio.TaskGroup, turn: Turn) -> None:
        task = group.create_task(self._carry_out(turn), name=f"turn {turn.id}")
        self._running[turn.session_key] = _Running(turn, task)

    async def _carry_out(self, turn: Turn) -> None:
        with structlog.contextvars.bound_contextvars(session=turn.session_key, turn=turn.id):
            try:
                await self._respond(turn)
            except asyncio.CancelledError:
                await self._end_early(turn)
            finally:
                self._running.pop(turn.session_key, None)
                self._wake.set()
                self.after_commit()

    async def _respond(self, turn: Turn) -> None:
        try:
            await self._worker.respond(turn)
        except StoreCorrupt:
            raise
        except Exception:  # contained on purpose: inside a TaskGroup one bug would cancel every neighbour
            log.exception("turn failed")
            await self._worker.failed(turn)

    async def _end_early(self, turn: Turn) -> None:
        running = self._running[turn.session_key]
        if not running.task.cancelling():
            # Raised by something inside; passed on it would end this task, but never the turn.
            log.error("turn failed", problem="cancelled from inside")
            await self._worker.failed(turn)
            return
        if not running.ending:
            raise asyncio.CancelledError  # the whole gateway is going
        running.task.uncancel()
        if running.ending == "stop":
            await self._worker.stopped(turn)
        else:
            await self._worker.paused(turn)
