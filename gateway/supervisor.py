"""Keeps one platform connected: tries again, asks the operator, or lets a bug through."""

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

_OPERATOR_SECONDS = 600.0  # a token may be mended on the platform's side, without a word to us


@dataclass(slots=True)
class ConnectionStatus:
    """Whether we can hear a platform, for delivery and the operator."""

    account: str
    changes: Changes = field(default_factory=Changes)
    state: Literal["connecting", "connected", "waiting", "needs operator"] = "connecting"
    problem: str = ""
    last_heard_ms: int = 0

    def report_alive(self) -> None:
        self.last_heard_ms = now_ms()
        if self.state != "connected":
            self.state, self.problem = "connected", ""
            log.info("connected", account=self.account)
            self.changes.notify("platform", "outbox", account=self.account)

    @property
    def is_connected(self) -> bool:
        return self.state == "connected"


async def keep_connected(platform: Platform, inlet: Inlet, status: ConnectionStatus) -> None:
    """Runs until cancelled. What is neither an outage nor a wrong key is a bug and ends the gateway."""
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
            # Ours passes. One that a library raised by itself would end this task, and nobody would listen any more.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            problem, retry_after = "its connection was given up from inside", None
        failures = 1 if status.is_connected else failures + 1
        wait = clamp_retry_after(retry_after)
        if wait is None:
            wait = backoff_seconds(failures)
        if status.state != "needs operator":  # an outage does not mend a key
            status.state, status.problem = "waiting", problem
        log.warning("platform unavailable", account=platform.account, problem=problem, retry_seconds=round(wait, 1))
        await asyncio.sleep(wait)


async def _run(platform: Platform, inlet: Inlet, status: ConnectionStatus) -> None:
    """Runs the platform; one that has heard nothing for too long sits on a dead line and is given up."""
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
                raise PlatformUnavailable(f"nothing was heard for {silent:.0f} seconds")
            await asyncio.wait([running], timeout=quiet_seconds - silent)
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)  # exactly one connection: the old one ends first
