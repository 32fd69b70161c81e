"""Webhooks: `POST /hooks/<route>` of another service becomes a prompt in a chat.

Refusals say nothing: neither whether there is such a route nor what was wrong. A 2xx means that the event is stored.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import structlog
from aiohttp import web

from gateway.changes import Changes
from gateway.errors import StoreUnavailable
from gateway.inbound import webhook_events
from gateway.inbound.intake import Intake
from gateway.inbound.webhook_events import WebhookRoute
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.people import RoleOf
from gateway.web.body import BodyProblem, read_body
from gateway.web.signatures import CHECKS

log = structlog.get_logger()

_TOLD_SECONDS = 60.0  # a flood must not fill the log
_READ_AT_ONCE = 16  # of those who have not shown yet that they know a secret: their bodies are in memory
_WAIT = {"Retry-After": "60"}


@dataclass(slots=True, kw_only=True)
class Webhooks:
    db: Database
    intake: Intake
    accounts: Collection[str]  # that are switched on
    role_of: RoleOf
    max_bytes: int
    routes: Mapping[str, WebhookRoute] = field(default_factory=dict)  # replaced by a reload
    changes: Changes = field(default_factory=Changes)
    _told: dict[str, float] = field(default_factory=dict)
    _reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READ_AT_ONCE))

    def list_routes(self) -> list[web.RouteDef]:
        return [web.route("*", "/hooks/{route:.*}", self._receive)]

    async def _receive(self, request: web.Request) -> web.Response:
        route = self.routes.get(request.match_info["route"])
        if route is None or request.method != "POST":
            return _refuse(401)
        try:
            async with self._reading:
                body = await read_body(request, self.max_bytes)
                signed = CHECKS[route.signature](route.secret.encode(), request.headers, body, time.time())
        except BodyProblem as error:
            return _refuse(error.status)
        if signed is None:
            self._log(route.name, "webhook refused: wrong signature, or too old")
            return _refuse(401)
        if route.signature == "github" and signed.event == "ping":
            return web.json_response({"accepted": True})  # tells only that the hook was set up
        payload = webhook_events.parse_payload(body, request.content_type)
        parts = webhook_events.render_prompt(route, signed.event[:100], payload)

        def unit(tx: Transaction) -> int | webhook_events.Refusal | None:
            return webhook_events.take(
                tx,
                route,
                signed.id,
                parts,
                accounts=self.accounts,
                role_of=self.role_of,
                max_waiting=self.intake.policy.max_waiting_per_session,
            )

        if self.intake.closed:
            return _refuse(503, _WAIT)
        self.changes.notify("inbox")  # before the write: the turn then begins in the same commit
        try:
            taken = await self.db.write(unit)
        except StoreUnavailable:
            return _refuse(503, _WAIT)
        if isinstance(taken, str):
            self._log(route.name, f"webhook not accepted: {taken}")
            return _refuse(429 if taken == "busy" else 503, _WAIT)
        if taken is None:
            return web.json_response({"accepted": True, "duplicate": True})
        return web.json_response({"accepted": True, "trace": f"inbox:{taken}"}, status=202)

    def _log(self, route: str, event: str) -> None:
        now = time.monotonic()
        if now - self._told.get(route, -_TOLD_SECONDS) >= _TOLD_SECONDS:
            self._told[route] = now
            log.warning(event, route=route)


def _refuse(status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"accepted": False}, status=status, headers=headers)
