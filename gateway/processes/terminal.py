"""Background processes of whoever sits at the terminal: a gateway leaves them alone, and there may be none.

Nothing runs between two messages to tell of them. So what has ended is noted when the next one is said.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.clock import now_ms
from gateway.processes import messages
from gateway.processes.messages import ProcessReport
from gateway.processes.output import read_rest
from gateway.store import processes
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.processes import WatchedProcess
from tools.backends import supervised
from tools.backends.base import BackendFailed
from tools.content import Text
from tools.provenance import EVENT

_MAX_TOLD = 20  # at once: of the others, too, the agent can ask


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    db: Database

    async def ends(self) -> list[Text]:
        """What the agent is told of those that have ended and that it has not seen end, each once."""
        over = await asyncio.to_thread(_over, await self.db.read(processes.at_terminal))

        def unit(tx: Transaction) -> list[Text]:
            return [
                Text(text=messages.for_agent(news, was_stopped=one.end_requested), origin=EVENT)
                for one, news in over
                if processes.mark_seen(tx, one.process.id, news.exit_code)
            ]

        return (await self.db.write(unit))[-_MAX_TOLD:] if over else []

    async def end_those_asked_for(self) -> list[str]:
        """Waits until they are gone; gives what could not be ended, in words."""
        asked = [one for one in await self.db.read(processes.at_terminal) if one.end_requested]
        ended = await asyncio.gather(*(_end(one) for one in asked))
        return [problem for problem in ended if problem]


async def _end(one: WatchedProcess) -> str:
    try:
        await supervised.kill(one.process.spawned)
    except (BackendFailed, OSError) as error:
        return f"{one.process.id}: {error}"
    return ""


def _over(watched: Sequence[WatchedProcess]) -> list[tuple[WatchedProcess, ProcessReport]]:
    found = []
    for one in watched:
        standing = supervised.standing(one.process.spawned)
        if not standing.is_running:
            fresh = read_rest(one.process.spawned, one.process.polled)
            news = ProcessReport(
                process=one.process,
                fresh=fresh,
                at_ms=standing.ended_ms or now_ms(),
                exit_code=standing.exit_code,
                note=standing.note,
            )
            found.append((one, news))
    return found
