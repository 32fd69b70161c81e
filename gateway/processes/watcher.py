"""Watch background processes: report their new output and their ends to the chat and the agent, each once.

A message and the record that it was sent are one transaction. So recovery needs no extra code: after a start, the
same check finds the processes that run, with the output not yet reported, and those that ended meanwhile.
"""

import asyncio
import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import structlog

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.errors import GatewayError, StoreUnavailable
from gateway.messages import InboundMessage, Text
from gateway.processes import messages
from gateway.processes.messages import Fresh, ProcessReport
from gateway.processes.output import read_lines, read_rest
from gateway.store import outbox, processes
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.processes import WatchedProcess
from tools.backends.base import BackendFailed, ProcessBackends, ProcessControl, ProcessHandle, ProcessStatus

log = structlog.get_logger()

Notifications = Literal["all", "result", "error", "off"]
"""The messages that a chat gets: output and ends; ends; failures; nothing."""

MAX_WAKES_IN_A_ROW = 20  # without a message from a person: an agent could start another process each time, for ever
_TOPIC = "process"
_CHECKS_BETWEEN_PRUNINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedProcess:
    watched: WatchedProcess
    status: ProcessStatus

    @property
    def at_ms(self) -> int:
        """Return when it ended; 0 when unknown."""
        return self.watched.process.ended_ms or self.status.ended_ms or 0


@dataclass(slots=True, kw_only=True)
class Watchers:
    db: Database
    backends: ProcessBackends
    role_of: Callable[[Transaction, InboundMessage], str | None]  # the current role; None: no longer served
    changes: Changes = field(default_factory=Changes)
    notifications: Notifications = "all"
    shortest_interval_seconds: float = 30.0
    gather_seconds: float = 2.0  # ends within this time are one message
    _began_ms: int = field(default_factory=now_ms)
    _seen_running: set[str] = field(default_factory=set)
    _asked: asyncio.Event = field(default_factory=asyncio.Event)
    _has_ended: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    _any: bool = True  # whether the last check found something to watch
    _ending: set[str] = field(default_factory=set)
    _checked_ms: dict[str, int] = field(default_factory=dict)  # when output was last read

    async def run(self) -> None:
        """Watch until cancelled; the processes go on."""
        async with asyncio.TaskGroup() as group:
            for name in self.backends:
                group.create_task(self._watch(name), name=f"watch processes: {name}")
            pause_seconds = min(backend.poll_seconds for backend in self.backends.values())
            while True:
                with contextlib.suppress(StoreUnavailable, sqlite3.Error):
                    for one in await self.db.read(processes.read_to_end) if self._any else ():
                        if one.process.id not in self._ending:
                            self._ending.add(one.process.id)
                            group.create_task(self._end(one.process.handle), name=f"end {one.process.id}")
                await _wait(self._asked, pause_seconds)

    def wake(self) -> None:
        """Check soon: somebody may have asked for a process to end."""
        if self._any:
            self._asked.set()

    async def _end(self, handle: ProcessHandle) -> None:
        """End a process. The next check reports its end like any other."""
        try:
            await self.backends[handle.backend].kill(handle)
        except (BackendFailed, OSError) as error:
            log.warning("process not ended", process=handle.id, problem=str(error))
        finally:
            self._ending.discard(handle.id)
            self._has_ended[handle.backend].set()

    async def _watch(self, name: str) -> None:
        backend = self.backends[name]
        looks = 0
        while True:
            try:
                if not looks and (handles := [one.process.handle for one in await self._read_watched(name)]):
                    found = len(await backend.reattach(handles))
                    log.info("processes found again", backend=name, running=found, ended=len(handles) - found)
                await self.look(name)
                if looks % _CHECKS_BETWEEN_PRUNINGS == 0:
                    await self._prune()
                looks += 1
            except StoreUnavailable as error:  # logged by the store; nothing was marked as reported, so nothing is lost
                log.debug("processes not looked at", problem=str(error))
            except (sqlite3.Error, OSError) as error:
                log.warning("processes not looked at", problem=str(error))
            await _wait(self._has_ended[name], backend.poll_seconds)

    async def _read_watched(self, name: str) -> list[WatchedProcess]:
        watched = await self.db.read(processes.read_watched)
        self._any = bool(watched)
        ids = {one.process.id for one in watched}
        self._seen_running &= ids
        self._checked_ms = {id_: at_ms for id_, at_ms in self._checked_ms.items() if id_ in ids}
        return [one for one in watched if one.process.handle.backend == name]

    async def look(self, name: str) -> None:
        """Report what is new of the processes of one backend."""
        watched = await self._read_watched(name)
        if not watched:
            return
        statuses = await self.backends[name].statuses([one.process.handle for one in watched])
        ended = {
            one.process.id: EndedProcess(watched=one, status=status)
            for one in watched
            if (status := statuses.get(one.process.id)) and not status.is_running
        }
        self._seen_running |= {one.process.id for one in watched} - ended.keys()
        chats: defaultdict[tuple[str, str], list[WatchedProcess]] = defaultdict(list)
        for one in watched:
            chats[str(one.key), one.sender.id].append(one)
        for group in chats.values():
            try:
                await self._attend(group, ended)
            except GatewayError:
                raise
            except Exception:  # contained: one bad row must not block the reports of others
                log.exception("processes not reported", processes=[one.process.id for one in group])

    async def _attend(self, group: Sequence[WatchedProcess], ended: dict[str, EndedProcess]) -> None:
        """Report what one person has started in one conversation."""
        running = [one for one in group if one.process.id not in ended]
        over = [ended[one.process.id] for one in group if one.process.id in ended]
        if over and self._is_time_to_tell(over, running):
            await self._tell_ends(over)
        if due := self._choose_due(running):
            await self._tell_progress(due)

    def _is_time_to_tell(self, over: Sequence[EndedProcess], running: Sequence[WatchedProcess]) -> bool:
        gather_ms, now = self.gather_seconds * 1000, now_ms()
        if over[0].watched.key is None:
            return True
        if not 0 <= now - min(one.at_ms for one in over) < 5 * gather_ms:
            return True
        if any(one.end_requested for one in running):
            return False  # reported when all have ended
        if all(one.watched.end_requested for one in over):
            return True
        return now - max(one.at_ms for one in over) >= gather_ms

    def _choose_due(self, running: Sequence[WatchedProcess]) -> list[WatchedProcess]:
        """Choose the processes to report: each in its own interval, and at most one message in the shortest of them."""
        followed = [one for one in running if one.process.check_interval_seconds and one.key and not one.end_requested]
        if self.notifications != "all" or not followed:
            return []
        now = now_ms()

        def is_over(since_ms: int, interval_ms: float) -> bool:
            return not 0 <= now - since_ms < interval_ms  # below 0: the clock was set back

        last_ms = max((one.told_ms for one in followed if one.told), default=0)
        if not is_over(last_ms, min(map(self._interval_ms, followed))):
            return []
        checked_ms = self._checked_ms
        return [
            one
            for one in followed
            if is_over(max(one.told_ms, checked_ms.get(one.process.id, 0)), self._interval_ms(one))
        ]

    def _interval_ms(self, one: WatchedProcess) -> float:
        return max(one.process.check_interval_seconds, self.shortest_interval_seconds) * 1000

    async def _tell_progress(self, due: Sequence[WatchedProcess]) -> None:
        self._checked_ms |= {one.process.id: now_ms() for one in due}
        read = [(one, *await read_lines(self._backend_of(one), one.process.handle, one.told)) for one in due]
        fresh = [found for found in read if found[1].text.strip()]
        if fresh:
            await self.db.write(partial(self._write_progress, fresh=fresh))
            self.changes.notify("inbox", "outbox")

    def _write_progress(self, tx: Transaction, fresh: Sequence[tuple[WatchedProcess, Fresh, int]]) -> None:
        news: list[tuple[WatchedProcess, ProcessReport]] = []
        for before, text, position in fresh:
            one = processes.find_open(tx, before.process.id)
            if one is None or not self._is_served(tx, one):
                continue
            processes.mark_told(tx, one.process.id, position)
            news.append((one, ProcessReport(process=one.process, fresh=text, at_ms=now_ms())))
        if news:
            text_of_all = messages.progress([told for _, told in news])
            outbox.add_notice(tx, news[-1][0].address, text_of_all, topic=_TOPIC)

    async def _tell_ends(self, over: Sequence[EndedProcess]) -> None:
        read: list[tuple[EndedProcess, Fresh, Fresh]] = []
        for one in over:
            backend, handle = self._backend_of(one.watched), one.watched.process.handle
            read.append((one, await read_rest(backend, handle, one.watched.told), await read_rest(backend, handle, 0)))
        await self.db.write(partial(self._write_ends, read=read))
        for one in over:
            log.info("process ended", process=one.watched.process.id, exit_code=one.status.exit_code)
        self.changes.notify("inbox", "outbox")

    def _write_ends(self, tx: Transaction, read: Sequence[tuple[EndedProcess, Fresh, Fresh]]) -> None:
        told: list[tuple[WatchedProcess, ProcessReport, ProcessReport]] = []
        for over, untold, whole in read:
            one = processes.find_open(tx, over.watched.process.id)
            if one is None:  # somebody was faster
                continue
            news = self._build_report(over, untold)
            processes.end(tx, one.process.id, exit_code=news.exit_code, ended_ms=news.at_ms)
            if self._is_served(tx, one):
                told.append((one, news, self._build_report(over, whole)))
        waking = self._choose_waking(tx, [one for one, _, _ in told])
        if for_chat := [news for one, news, _ in told if self._is_for_chat(one, news, wakes=one in waking)]:
            outbox.add(tx, told[-1][0].address, [Text(text=messages.ends(for_chat))], topic=_TOPIC)
        if stopped := [news for one, news, _ in told if one.end_requested]:
            outbox.add_notice(tx, told[-1][0].address, messages.stopped(stopped), topic=_TOPIC)
        if unseen := [(one, last) for one, _, last in told if not one.is_seen]:
            # Wake the agent if a process asked for that, and report the others with it.
            parts = tuple(Text(text=messages.for_agent(last, was_stopped=one.end_requested)) for one, last in unseen)
            first = waking[0] if waking else unseen[0][0]
            role = self.role_of(tx, first.message("process", ()))
            assert role is not None  # checked in this transaction
            processes.tell_agent(tx, first, "wake" if waking else "process", parts, role=role)

    def _choose_waking(self, tx: Transaction, ended: Sequence[WatchedProcess]) -> list[WatchedProcess]:
        """Choose the processes that wake the agent. When it was woken too often, choose none and tell the chat."""
        asked = [one for one in ended if one.process.notify_on_complete and not (one.end_requested or one.is_seen)]
        if asked and processes.count_wakes(tx, str(asked[0].key)) >= MAX_WAKES_IN_A_ROW:
            outbox.add_notice(tx, asked[0].address, messages.not_woken(MAX_WAKES_IN_A_ROW), topic=_TOPIC)
            return []
        return asked

    def _is_for_chat(self, one: WatchedProcess, news: ProcessReport, *, wakes: bool) -> bool:
        """Return whether the chat gets this end: not when the agent reports it, unless the chat follows the output."""
        if one.end_requested or self.notifications == "off" or (self.notifications == "error" and news.exit_code == 0):
            return False
        return bool(one.process.check_interval_seconds) or not (wakes or one.is_seen)

    def _is_served(self, tx: Transaction, one: WatchedProcess) -> bool:
        if one.key is None:
            return False
        if self.role_of(tx, one.message("process", ())) is None:
            processes.silence(tx, one.process.id)
            return False
        return True

    def _build_report(self, over: EndedProcess, fresh: Fresh) -> ProcessReport:
        process = over.watched.process
        return ProcessReport(
            process=process,
            fresh=fresh,
            at_ms=over.at_ms or now_ms(),
            exit_code=process.exit_code if over.watched.is_seen else over.status.exit_code,
            was_away=process.started_ms < self._began_ms and process.id not in self._seen_running,
            note=over.status.note,
        )

    async def _prune(self) -> None:
        for process in await self.db.read(processes.read_outdated):
            await self.backends[process.handle.backend].forget(process.handle)
            await self.db.write(partial(processes.remove, process_id=process.id))

    def _backend_of(self, one: WatchedProcess) -> ProcessControl:
        return self.backends[one.process.handle.backend]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()
