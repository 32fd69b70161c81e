"""Background processes started from `hermes chat`. No gateway watches them, and there may be none.

Nothing runs between two messages, so the agent learns of ended processes with the next message.
"""

import asyncio
from dataclasses import dataclass

from gateway.clock import now_ms
from gateway.processes import messages
from gateway.processes.messages import ProcessReport
from gateway.processes.output import read_rest
from gateway.store import processes
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.processes import WatchedProcess
from tools.backends.base import BackendFailed, ProcessBackends
from tools.content import Text
from tools.process_book import Process
from tools.provenance import EVENT

_MAX_REPORTS = 20  # at once: the agent can ask about the others


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    db: Database
    backends: ProcessBackends

    async def report_ends(self) -> list[Text]:
        """Return a report for each process whose end the agent has not seen, once."""
        ended = await self._find_ended()

        def unit(tx: Transaction) -> list[Text]:
            return [
                Text(text=messages.for_agent(report, was_stopped=one.end_requested), origin=EVENT)
                for one, report in ended
                if processes.mark_seen(tx, one.process.id, report.exit_code)
            ]

        return (await self.db.write(unit))[-_MAX_REPORTS:] if ended else []

    async def end_requested(self) -> list[str]:
        """End the processes that were asked to end and wait for them; return the problems."""

        async def end(process: Process) -> str:
            try:
                await self.backends[process.handle.backend].kill(process.handle)
            except (BackendFailed, OSError) as error:
                return f"{process.id}: {error}"
            return ""

        asked = [one.process for one in await self.db.read(processes.read_at_terminal) if one.end_requested]
        return [problem for problem in await asyncio.gather(*map(end, asked)) if problem]

    async def _find_ended(self) -> list[tuple[WatchedProcess, ProcessReport]]:
        ended = []
        for one in await self.db.read(processes.read_at_terminal):
            handle = one.process.handle
            backend = self.backends[handle.backend]
            status = (await backend.statuses([handle])).get(handle.id)
            if status is not None and not status.is_running:
                report = ProcessReport(
                    process=one.process,
                    fresh=await read_rest(backend, handle, one.process.polled),
                    at_ms=status.ended_ms or now_ms(),
                    exit_code=status.exit_code,
                    note=status.note,
                )
                ended.append((one, report))
        return ended
