"""Runs one turn at a time per session and many sessions at once. Commands do not wait for turns.

The store decides which session is next. This module knows what is running, and ends turns early.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import structlog

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.commands.runner import fail_next_command
from gateway.errors import GatewayError, StoreCorrupt
from gateway.policies.resets import NEVER, Resets
from gateway.store import inbox, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import OpenedTurn, Turn

log = structlog.get_logger()

_COMMANDS_AT_ONCE = 50  # in one transaction, so that many of them do not cost a commit each
_COMMIT_SECONDS = 5.0  # how long stopping waits for a store that is unavailable


class Worker(Protocol):
    """Carries a turn to its end. Each method but the first ends in a commit."""

    def open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        """Prepare the turn in the transaction that begins it; None when it needs more than a transaction."""

    async def respond(self, turn: Turn, opened: OpenedTurn | None, user_wrote: asyncio.Event) -> None:
        """Run the turn to its end. `user_wrote` is set while messages wait behind it."""

    async def fail(self, turn: Turn) -> None: ...

    async def stop(self, turn: Turn) -> None: ...

    async def pause(self, turn: Turn) -> None: ...


@dataclass(slots=True)
class _Running:
    turn: Turn
    task: asyncio.Task[None]
    user_wrote: asyncio.Event = field(default_factory=asyncio.Event)
    ending: Literal["", "stop", "pause"] = ""

    def end(self, how: Literal["stop", "pause"]) -> None:
        if not self.ending:
            self.ending = how
            self.task.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The result of one look at the store: turns to stop, turns begun, and turns behind which messages wait."""

    to_stop: list[str]
    begun: list[tuple[Turn, OpenedTurn | None]]
    with_waiting: list[str]
    due_ms: int | None


class Lanes:
    def __init__(
        self,
        db: Database,
        worker: Worker,
        next_command: Callable[[Transaction], bool],
        *,
        max_turns: int,
        resets: Resets = NEVER,
        is_waiting: Callable[[str], bool] = lambda turn_id: False,
        changes: Changes | None = None,
    ) -> None:
        """`is_waiting` says whether a turn only waits for a human. Such a turn holds no slot."""
        self._db = db
        self._worker = worker
        self._next_command = next_command
        self._max_turns = max_turns
        self._resets = resets
        self._is_waiting = is_waiting
        self._changes = changes or Changes()
        self._running: dict[str, _Running] = {}  # by turn id: the key of a session changes when its group moves
        self._wake = asyncio.Event()
        self._draining = False
        self._beginning = asyncio.Lock()
        self.recovered = asyncio.Event()

    def wake(self) -> None:
        self._wake.set()

    def _notify_others(self) -> None:
        """After a commit that may hold something to send, a decision, or the request to end a process."""
        self._changes.notify("outbox", "decisions", "processes")

    @property
    def running(self) -> int:
        return len(self._running)

    async def run(self) -> None:
        """Resume the turns of an earlier process, then run whatever comes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            interrupted = await self._db.write_when_possible(turns.resume_all)
            while await self._handle_commands():  # before the turns: a stop may be among them
                pass
            for turn in interrupted:
                self._start(group, turn)
            self.recovered.set()
            self._wake.set()
            wait_seconds: float | None = None
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._wake.wait()
                self._wake.clear()
                wait_seconds = await self._look(group)

    async def drain(self, timeout_seconds: float) -> None:
        """Begin nothing more, let running turns finish in time, and pause the rest for the next start."""
        self._draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMMIT_SECONDS), self._beginning:
                pass  # from here on a turn that was just being begun counts as running
        self._pause_waiting_turns()
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        rest = [running for running in self._running.values() if not running.task.done()]
        for running in rest:
            running.end("pause")
        if rest:
            # A turn whose pause cannot be stored is resumed like after a crash.
            await asyncio.wait([running.task for running in rest], timeout=_COMMIT_SECONDS)

    def _pause_waiting_turns(self) -> None:
        for turn_id, running in self._running.items():
            if self._is_waiting(turn_id):  # for a human, which may take longer than the drain
                running.end("pause")

    async def _handle_commands(self) -> int:
        """Run the oldest waiting commands, and return how many, failed ones included."""
        try:
            handled = await self._db.write_when_possible(self._run_commands)
        except GatewayError:
            raise
        except Exception:  # contained: it would end the gateway, and again after each start
            log.exception("commands failed")
            await self._db.write_when_possible(fail_next_command)
            handled = 1
        if handled:
            self._notify_others()
            self._changes.notify("commands")
        return handled

    def _run_commands(self, tx: Transaction) -> int:
        for handled in range(_COMMANDS_AT_ONCE):
            outcome = tx.attempt(lambda: self._next_command(tx))
            if isinstance(outcome, Exception):
                log.error("command failed", exc_info=outcome)
                fail_next_command(tx)
            elif not outcome:
                return handled
        return _COMMANDS_AT_ONCE

    async def _look(self, group: asyncio.TaskGroup) -> float | None:
        """Run commands and begin turns until nothing more can be done now.

        Return the seconds until a session has waited long enough for the rest of a message; None when none waits.
        """
        while True:
            async with self._beginning:
                # Submitted together, both share one hop to the database and one commit.
                handled, found = await asyncio.gather(self._handle_commands(), self._begin())
                for turn, opened in found.begun:
                    self._start(group, turn, opened)
            for running in self._find_running(found.with_waiting):
                running.user_wrote.set()
            for running in self._find_running(found.to_stop):
                running.end("stop")
            if self._draining:
                self._pause_waiting_turns()  # including one whose last tool has just ended
            if not handled:
                return max(found.due_ms - now_ms(), 0) / 1000 + 0.001 if found.due_ms is not None else None

    def _find_running(self, turn_ids: Iterable[str]) -> list[_Running]:
        return [self._running[turn_id] for turn_id in turn_ids if turn_id in self._running]

    async def _begin(self) -> _Found:
        at_work = sum(not self._is_waiting(turn_id) for turn_id in self._running)
        free = 0 if self._draining else self._max_turns - at_work

        def begin(tx: Transaction) -> _Found:
            # Requested by a command, by a newer message, or by another process that revoked somebody's access.
            to_stop = turns.list_stopping(tx)
            # First: a message that falls due in between is in both.
            due_ms = inbox.next_due_ms(tx) if free > 0 else None
            begun: list[tuple[Turn, OpenedTurn | None]] = []
            while len(begun) < free and (turn := turns.begin(tx, self._resets)):
                begun.append((turn, self._open(tx, turn)))
            return _Found(to_stop=to_stop, begun=begun, with_waiting=turns.list_blocking(tx), due_ms=due_ms)

        return await self._db.write_when_possible(begin)

    def _open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        opened = tx.attempt(lambda: self._worker.open(tx, turn))
        if isinstance(opened, Exception):
            # Opened again in its own task, where its failure is contained and reported. The others begin all the same.
            log.warning("turn not opened at once", turn=turn.id, problem=repr(opened))
            return None
        return opened

    def _start(self, group: asyncio.TaskGroup, turn: Turn, opened: OpenedTurn | None = None) -> None:
        task = group.create_task(self._run_turn(turn, opened), name=f"turn {turn.id}")
        self._running[turn.id] = _Running(turn, task)

    async def _run_turn(self, turn: Turn, opened: OpenedTurn | None) -> None:
        with structlog.contextvars.bound_contextvars(session=turn.session_key, turn=turn.id):
            try:
                await self._respond(turn, opened)
            except asyncio.CancelledError:
                await self._end_early(turn)
            finally:
                self._running.pop(turn.id, None)
                self._wake.set()
                self._notify_others()

    async def _respond(self, turn: Turn, opened: OpenedTurn | None) -> None:
        try:
            await self._worker.respond(turn, opened, self._running[turn.id].user_wrote)
        except StoreCorrupt:
            raise
        except Exception:  # contained on purpose: inside a TaskGroup one bug would cancel every neighbour
            log.exception("turn failed")
            await self._worker.fail(turn)

    async def _end_early(self, turn: Turn) -> None:
        running = self._running[turn.id]
        if not running.task.cancelling():
            # Raised by something inside. Passed on, it would end this task but leave the turn running in the store.
            log.error("turn failed", problem="cancelled from inside")
            await self._worker.fail(turn)
            return
        if not running.ending:
            raise asyncio.CancelledError  # the gateway is stopping
        running.task.uncancel()
        if running.ending == "stop":
            await self._worker.stop(turn)
        else:
            await self._worker.pause(turn)
