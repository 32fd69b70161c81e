"""The operator's page: what the gateway is doing, who is let in, what it costs, and why a message was not answered.

Every visitor is the owner; `gateway/web/access.py` lets in nobody else.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from aiohttp import web

from gateway import logs
from gateway import trace as words
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.policies.access import Role
from gateway.policies.budgets import Budgets
from gateway.policies.pairing import PairingLimits
from gateway.schedule.wording import as_data
from gateway.store import cron, pairing, processes, search, sessions, spending, trace, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inspect import read_counts
from tools.backends.base import BackendFailed, ProcessBackends
from tools.process_book import Process

_DAYS = 30
_SESSIONS, _PROCESSES, _MESSAGES, _TRANSCRIPT = 100, 50, 40, 500
_OUTPUT_BYTES = 20_000
_BY = "web:owner"


async def _find_nothing() -> Sequence[dict[str, Any]]:
    return ()


@dataclass(slots=True, kw_only=True)
class OverviewPage:
    db: Database
    backends: ProcessBackends
    changes: Changes
    clean: Callable[[str], str]
    budgets: Budgets
    limits: PairingLimits
    state: Callable[[], dict[str, Any]]
    diagnose: Callable[[], Awaitable[Sequence[dict[str, Any]]]] = _find_nothing  # set by whoever can run the doctor

    @property
    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/overview", self._overview),
            web.get("/api/overview/messages/{id}", self._message),
            web.get("/api/overview/sessions", self._sessions),
            web.get("/api/overview/sessions/{id}", self._session),
            web.get("/api/overview/processes/{id}", self._process),
            web.delete("/api/overview/processes/{id}", self._end_process),
            web.post("/api/overview/pairing", self._decide),
            web.get("/api/overview/logs", self._logs),
            web.get("/api/overview/doctor", self._doctor),
        ]

    async def _overview(self, request: web.Request) -> web.Response:
        """Return everything that changes by itself: the page asks for it every few seconds."""
        now = now_ms()
        since = self.budgets.days_back(now, _DAYS - 1)

        def read(tx: Transaction) -> dict[str, Any]:
            access = pairing.overview(tx, self.limits)
            return {
                "counts": read_counts(tx),
                "pairing": {"pending": [asdict(one) for one in access.pending], "people": len(access.people)},
                "jobs": [as_data(job, cron.find_last_run(tx, job.id)) for job in cron.list_jobs(tx)],
                "processes": [_describe_process(one) for one in processes.read_newest(tx, limit=_PROCESSES)],
                "messages": [self._sum_up(tx, one, now) for one in trace.list_newest(tx, limit=_MESSAGES)],
                "usage": {
                    by: [asdict(total) for total in spending.totals(tx, since, by)] for by in ("day", "person", "model")
                },
            }

        return self._reply({"gateway": self.state(), **await self.db.read(read)})

    def _sum_up(self, tx: Transaction, inbox_id: int, now: int) -> dict[str, Any]:
        found = trace.read(tx, inbox_id)
        verdict = words.verdict(found, now, self._gateway())
        return {"id": found.id, "account": found.account, "at_ms": found.accepted_ms, "verdict": verdict}

    async def _message(self, request: web.Request) -> web.Response:
        number = request.match_info["id"]
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise web.HTTPNotFound
        found = await self.db.read(lambda tx: trace.read(tx, int(number)) if trace.exists(tx, int(number)) else None)
        if found is None:
            raise web.HTTPNotFound
        return self._reply({"lines": words.lines(found, now_ms(), self._gateway())})

    def _gateway(self) -> words.GatewayState:
        platforms = self.state().get("platforms", {}).items()
        unconnected = {account: one["problem"] for account, one in platforms if one["state"] != "connected"}
        return words.GatewayState(unconnected=unconnected)

    async def _sessions(self, request: web.Request) -> web.Response:
        query = request.query.get("query", "").strip()[:200]
        reader = search.EVERYTHING if request.query.get("everyone") else search.OWNER_READS

        def read(tx: Transaction) -> list[dict[str, Any]]:
            if query:
                hits = [window.hit for window in search.search(tx, query, reader=reader, limit=_SESSIONS)]
                return [
                    {"id": hit.session_id, "key": hit.session_key, "title": hit.excerpt, "updated_ms": hit.created_ms}
                    for hit in hits
                ]
            readable = set(search.list_readable(tx, reader))
            found = (one for one in sessions.recent(tx, limit=10 * _SESSIONS) if one.id in readable)
            return [{"id": one.id, "key": one.key, "title": one.title, "updated_ms": one.updated_ms} for one in found][
                :_SESSIONS
            ]

        return self._reply({"sessions": await self.db.read(read)})

    async def _session(self, request: web.Request) -> web.Response:
        def read(tx: Transaction) -> dict[str, Any] | None:
            found = sessions.find(tx, request.match_info["id"])
            if found is None:
                return None
            entries = [
                {
                    "role": entry.message.role,
                    "text": entry.message.text,
                    "tools": [call.name for call in entry.message.tool_calls],
                    "at_ms": entry.created_ms,
                }
                for entry in transcripts.entries(tx, found.id, limit=_TRANSCRIPT)
            ]
            return {"title": found.title, "key": found.key, "entries": entries}

        found = await self.db.read(read)
        if found is None:
            raise web.HTTPNotFound
        return self._reply(found)

    async def _process(self, request: web.Request) -> web.Response:
        process = await self.db.read(lambda tx: processes.read_by_id(tx, request.match_info["id"]))
        if process is None:
            raise web.HTTPNotFound
        try:
            backend = self.backends[process.handle.backend]
            chunk = await backend.read(process.handle, since=0, max_bytes=1)
            since = max(chunk.end - _OUTPUT_BYTES, 0)
            output = (await backend.read(process.handle, since=since)).content.decode(errors="replace")
        except BackendFailed as error:
            output = str(error)
        return self._reply({**_describe_process(process), "output": output[-_OUTPUT_BYTES:]})

    async def _end_process(self, request: web.Request) -> web.Response:
        process_id = request.match_info["id"]
        if not await self.db.write(lambda tx: processes.request_end_by_id(tx, process_id)):
            raise web.HTTPNotFound
        self.changes.notify("processes")
        return self._reply({})

    async def _decide(self, request: web.Request) -> web.Response:
        try:
            given = await request.json()
            account, user_id, role = str(given["account"]), str(given["user_id"]), given.get("role")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise web.HTTPBadRequest from None
        if role is not None and role not in get_args(Role):
            raise web.HTTPBadRequest
        await self.db.write(lambda tx: pairing.decide(tx, account, user_id, role, by=_BY))
        self.changes.notify("outbox")
        return self._reply({})

    async def _logs(self, request: web.Request) -> web.Response:
        return self._reply({"lines": list(logs.RECENT)})

    async def _doctor(self, request: web.Request) -> web.Response:
        return self._reply({"findings": list(await self.diagnose())})

    def _reply(self, facts: dict[str, Any]) -> web.Response:
        return web.json_response(_clean_all(facts, self.clean))


def _describe_process(process: Process) -> dict[str, Any]:
    return {
        "id": process.id,
        "command": process.command,
        "workdir": process.workdir,
        "started_ms": process.started_ms,
        "ended_ms": process.ended_ms,
        "exit_code": process.exit_code,
        "can_end": process.ended_ms is None and process.holder != processes.AT_TERMINAL,
    }


def _clean_all(value: Any, clean: Callable[[str], str]) -> Any:
    """Hide secrets in every text."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {key: _clean_all(one, clean) for key, one in value.items()}
        case list() | tuple():
            return [_clean_all(one, clean) for one in value]
        case _:
            return value
