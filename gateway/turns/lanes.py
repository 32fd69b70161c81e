"""One turn at a time per session, many sessions at once; commands apart, at once.

The store decides who is next. Here is only who is running, and how a running turn is ended early.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

import structlog

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.commands.runner import Handled, fail_next_command
from gateway.errors import GatewayError, StoreCorrupt
from gateway.policies.resets import NEVER, Resets
from gateway.store import inbox, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import OpenedTurn, Turn

log = structlog.get_logger()

_COMMANDS_AT_ONCE = 50  # in one transaction: a flood of them must not cost a commit each
_COMMIT_SECONDS = 5.0  # how long a stop waits for a store that takes nothing


class Worker(Protocol):
    """Carries a turn to its end. Each method but the first ends in a commit."""

    def open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        """What can be done in the transaction that begins the turn; None when nothing can."""

    async def respond(self, turn: Turn, opened: OpenedTurn | None, user_wrote: asyncio.Event) -> None:
        """`user_wrote` is set while messages wait behind the turn."""

    async def failed(self, turn: Turn) -> None: ...

    async def stopped(self, turn: Turn) -> None: ...

    async def paused(self, turn: Turn) -> None: ...


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
class _Seen:
    """What one look at the store brought."""

    to_be_stopped: list[str]
    begun: list[tuple[Turn, OpenedTurn | None]]
    waited_for: list[str]
    due_ms: int | None


class Lanes:
    def __init__(
        self,
        db: Database,
        worker: Worker,
        next_command: Callable[[Transaction], Handled | None],
        *,
        max_turns: int,
        resets: Resets = NEVER,
        is_waiting: Callable[[str], bool] = lambda turn_id: False,
        changes: Changes | None = None,
    ) -> None:
        """`is_waiting`: whether a turn does nothing but wait for a human; such a one holds no slot."""
        self._db = db
        self._worker = worker
        self._next_command = next_command
        self._max_turns = max_turns
        self._resets = resets
        self._is_waiting = is_waiting
        self._changes = changes or Changes()
        self._running: dict[str, _Running] = {}  # by turn: a session's key changes when its group moves
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
        """Takes up what an earlier process left, then whatever comes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            left_behind = await self._db.write_when_possible(turns.resume_all)
            while await self._handle_commands():  # before the turns: a stop may be among them
                pass
            for turn in left_behind:
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
        """Begins nothing more; lets what runs finish in time, and pauses the rest for the next start."""
        self._draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_COMMIT_SECONDS), self._beginning:
                pass  # a turn that was just being begun is among the running from here on
        self._pause_those_that_wait()
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_seconds)
        rest = [running for running in self._running.values() if not running.task.done()]
        for running in rest:
            running.end("pause")
        if rest:
            # One that cannot be written down as paused is taken up like after a crash.
            await asyncio.wait([running.task for running in rest], timeout=_COMMIT_SECONDS)

    def _pause_those_that_wait(self) -> None:
        for turn_id, running in self._running.items():
            if self._is_waiting(turn_id):  # for a human, who has more time than we
                running.end("pause")

    async def _handle_commands(self) -> int:
        """Carries out the oldest waiting commands; gives how many, those that failed among them."""
        try:
            handled = await self._db.write_when_possible(partial(self._carry_out_commands, at_most=_COMMANDS_AT_ONCE))
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001 one has undone the others: alone, it is found and told
            log.warning("commands not carried out together", problem=repr(error))
            handled = await self._handle_one_command()
        if handled:
            self._notify_others()
        return handled

    async def _handle_one_command(self) -> int:
        try:
            return await self._db.write_when_possible(partial(self._carry_out_commands, at_most=1))
        except GatewayError:
            raise
        except Exception:  # contained: it would end the gateway, and be the first to be handled after each start
            log.exception("command failed")
            await self._db.write_when_possible(fail_next_command)
            return 1

    def _carry_out_commands(self, tx: Transaction, *, at_most: int) -> int:
        for handled in range(at_most):
            outcome = tx.attempt(lambda: self._next_command(tx))
            if outcome is None:
                return handled
            if isinstance(outcome, Exception):
                log.error("command failed", exc_info=outcome)
                fail_next_command(tx)
        return at_most

    async def _look(self, group: asyncio.TaskGroup) -> float | None:
        """Handles commands and begins turns, until there is nothing more to do now. Gives the seconds until a
        session has waited long enough for the rest of what is being said."""
        while True:
            async with self._beginning:
                # Handed in together, they share one hop to the database and one commit.
                handled, seen = await asyncio.gather(self._handle_commands(), self._begin())
                for turn, opened in seen.begun:
                    self._start(group, turn, opened)
            for running in self._those(seen.waited_for):
                running.user_wrote.set()
            for running in self._those(seen.to_be_stopped):
                running.end("stop")
            if self._draining:
                self._pause_those_that_wait()  # those, too, whose last tool has just ended
            if not handled:
                return max(seen.due_ms - now_ms(), 0) / 1000 + 0.001 if seen.due_ms is not None else None

    def _those(self, turn_ids: Iterable[str]) -> list[_Running]:
        return [self._running[turn_id] for turn_id in turn_ids if turn_id in self._running]

    async def _begin(self) -> _Seen:
        at_work = sum(not self._is_waiting(turn_id) for turn_id in self._running)
        free = 0 if self._draining else self._max_turns - at_work

        def begin(tx: Transaction) -> _Seen:
            # Whoever asked for it: a command, a newer message, or another process that took somebody's access back.
            to_be_stopped = turns.to_be_stopped(tx)
            due_ms = inbox.next_due_ms(tx) if free > 0 else None  # first: what falls due between the two is in both
            begun: list[tuple[Turn, OpenedTurn | None]] = []
            while len(begun) < free and (turn := turns.begin(tx, self._resets)):
                begun.append((turn, self._open(tx, turn)))
            return _Seen(to_be_stopped=to_be_stopped, begun=begun, waited_for=turns.waited_for(tx), due_ms=due_ms)

        return await self._db.write_when_possible(begin)

    def _open(self, tx: Transaction, turn: Turn) -> OpenedTurn | None:
        opened = tx.attempt(lambda: self._worker.open(tx, turn))
        if isinstance(opened, Exception):
            # Tried again, and told, where one turn's failure is contained: the others are begun all the same.
            log.warning("turn not opened at once", turn=turn.id, problem=repr(opened))
            return None
        return opened

    def _start(self, group: asyncio.TaskGroup, turn: Turn, opened: OpenedTurn | None = None) -> None:
        task = group.create_task(self._carry_out(turn, opened), name=f"turn {turn.id}")
        self._running[turn.id] = _Running(turn, task)

    async def _carry_out(self, turn: Turn, opened: OpenedTurn | None) -> None:
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
            await self._worker.failed(turn)

    async def _end_early(self, turn: Turn) -> None:
        running = self._running[turn.id]
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
