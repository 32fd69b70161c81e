"""Keeps one platform connected: retries outages, waits for the operator after a rejected key, lets bugs through."""

import asyncio
from dataclasses import dataclass, field
from typing import Literal

import structlog

from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.errors import PlatformAuthFailed, PlatformUnavailable
from gateway.platforms.base import Inlet, Platform
from gateway.policies.backoff import backoff_seconds, clamp_retry_after

log = structlog.get_logger()

_OPERATOR_SECONDS = 600.0  # a token may be repaired on the platform's side without our knowledge


@dataclass(slots=True)
class ConnectionStatus:
    """The state of the connection to one account."""

    account: str
    changes: Changes = field(default_factory=Changes)
    state: Literal["connecting", "connected", "waiting", "needs operator"] = "connecting"
    problem: str = ""
    last_heard_ms: int = 0

    def report_alive(self) -> None:
        """Record that the platform has just said something."""
        self.last_heard_ms = now_ms()
        if self.state != "connected":
            self.state, self.problem = "connected", ""
            log.info("connected", account=self.account)
            self.changes.notify("platform", "outbox", account=self.account)

    @property
    def is_connected(self) -> bool:
        return self.state == "connected"


async def keep_connected(platform: Platform, inlet: Inlet, status: ConnectionStatus) -> None:
    """Run the platform until cancelled. What is neither an outage nor a wrong key is a bug and ends the gateway."""
    failures = 0
    while True:
        try:
            await _run(platform, inlet, status)
            problem, retry_after = "it ended its connection", None
        except PlatformUnavailable as error:
            problem, retry_after = str(error), error.retry_after
        except PlatformAuthFailed as error:
            if (status.state, status.problem) != ("needs operator", str(error)):
                log.error("platform stopped", account=platform.account, problem=str(error))
            status.state, status.problem = "needs operator", str(error)
            await asyncio.sleep(_OPERATOR_SECONDS)
            continue
        except asyncio.CancelledError:
            # Ours passes. One that a library raised by itself would end this task, and the platform with it.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            problem, retry_after = "its connection was cancelled from inside", None
        failures = 1 if status.is_connected else failures + 1
        wait = clamp_retry_after(retry_after)
        if wait is None:
            wait = backoff_seconds(failures)
        if status.state != "needs operator":  # an outage does not repair a key
            status.state, status.problem = "waiting", problem
        log.warning("platform unavailable", account=platform.account, problem=problem, retry_seconds=round(wait, 1))
        await asyncio.sleep(wait)


async def _run(platform: Platform, inlet: Inlet, status: ConnectionStatus) -> None:
    """Run the platform, and end it when it has been silent for so long that its connection must be dead."""
    quiet_seconds = platform.features.quiet_seconds
    if not quiet_seconds:
        await platform.run(inlet)
        return
    running = asyncio.ensure_future(platform.run(inlet))
    try:
        began_ms = now_ms()
        while not running.done():
            silent = (now_ms() - max(began_ms, status.last_heard_ms)) / 1000
            if silent >= quiet_seconds:
                raise PlatformUnavailable(f"it was silent for {silent:.0f} seconds")
            await asyncio.wait([running], timeout=quiet_seconds - silent)
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)  # exactly one connection: the old one ends first
