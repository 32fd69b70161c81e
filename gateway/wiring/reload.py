"""Apply changed settings to a running gateway, as far as they can be changed without a restart."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from gateway import logs
from gateway.clock import now_ms
from gateway.schedule.sync import sync_jobs
from gateway.wiring.app import Gateway, build_intake_policy
from gateway.wiring.basics import secret_values
from gateway.wiring.platforms import build_webhook_routes
from gateway.wiring.policies import build_rules
from hermes_config.errors import ConfigError
from hermes_config.keys import catalogue
from hermes_config.mcp import read_servers
from hermes_config.settings import Settings

log = structlog.get_logger()

_MAX_NAMED = 12  # the state must fit into the lock file
RELOADABLE = frozenset(
    {
        "cron",
        "access.owner_users",
        "access.allowed_users",
        "access.allowed_chats",
        "access.allow_all_users",
        "access.unauthorized_dm_behavior",
        "access.messages_per_minute",
        "gateway.free_response_chats",
        "gateway.max_waiting_per_session",
        "sessions.group_scope",
        "sessions.overheard_messages",
        "http.webhooks",
        "mcp.servers",
        "logs.level",
        "logs.format",
        *(name for name in catalogue() if name.startswith("platforms.") and name.endswith(".allowed_users")),
    }
)


@dataclass(slots=True, kw_only=True)
class Reloads:
    """Reads the settings again when asked to, until cancelled."""

    gateway: Gateway
    read: Callable[[], Settings] | None  # raises ConfigError; None: settings are never read again
    requested: asyncio.Event
    _latest: Settings | None = None
    _last: dict[str, Any] = field(default_factory=lambda: {"at_ms": 0})

    async def run(self) -> None:
        while True:
            await self.requested.wait()
            self.requested.clear()
            assert self.read is not None
            try:
                new = await asyncio.to_thread(self.read)
                gateway = self.gateway
                await sync_jobs(gateway.db, gateway.job_book, new.cron, gateway.changes)
                self._apply(new)
                if (servers := read_servers(new.mcp.servers)) != gateway.mcp.servers:
                    await gateway.mcp.restart(servers)
            except ConfigError as error:
                log.error("settings not reloaded", problem=str(error))
                self._last = {"at_ms": now_ms(), "problem": str(error)[:500]}

    def state(self) -> dict[str, Any]:
        """Return the outcome of the last reload, for `hermes gateway reload`."""
        return {"reloaded": self._last} if self.read else {}

    def _apply(self, new: Settings) -> None:
        applied = [name for name in list_changed(self._latest or self.gateway.settings, new) if name in RELOADABLE]
        waiting = [name for name in list_changed(self.gateway.settings, new) if name not in RELOADABLE]
        intake = self.gateway.intake
        intake.rules.take(build_rules(new))
        intake.policy = build_intake_policy(new, busy_mode=intake.policy.busy_mode)
        intake.limits.per_minute = new.access.messages_per_minute
        if (web := self.gateway.web) is not None and web.webhooks is not None:
            web.webhooks.routes = build_webhook_routes(new, self.gateway.home)  # with new secrets and templates, too
        # The new level, and the secrets that were added since, which are hidden from now on.
        logs.configure(level=new.logs.level, style=new.logs.format, secrets=secret_values(new))
        self._latest = new
        self._last = {"at_ms": now_ms(), "applied": applied[:_MAX_NAMED], "restart": waiting[:_MAX_NAMED]}
        log.info("settings reloaded", applied=applied, needs_restart=waiting)


def list_changed(old: Settings, new: Settings) -> list[str]:
    return [name for name in catalogue() if _read(old, name) != _read(new, name)]


def _read(settings: Settings, dotted: str) -> object:
    value: object = settings
    for name in dotted.split("."):
        value = getattr(value, name)
    return value
