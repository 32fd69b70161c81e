"""Runs the gateway: start order, signals, stop order, one TaskGroup. Starting up is recovering."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from gateway import systemd
from gateway.approvals.control import ApprovalControl
from gateway.clock import ClockJumps
from gateway.errors import GatewayError, StoreUnavailable
from gateway.lock import HomeLock, hold_home
from gateway.policies.backoff import backoff_seconds
from gateway.policies.budgets import how_to_price
from gateway.schedule.runs import recover
from gateway.schedule.sync import sync_jobs
from gateway.store import approvals, inbox, outbox, restarts, restored, spending
from gateway.store.db.backup import backup_is_due, make_backup
from gateway.store.db.commit_counter import seal
from gateway.store.db.database import Database, open_database
from gateway.store.db.prepare import prepare
from gateway.supervisor import keep_connected
from gateway.wiring.app import Gateway, build_gateway
from gateway.wiring.basics import build_backup_policy
from gateway.wiring.policies import unpriced_models
from gateway.wiring.reload import Reloads
from hermes_config.places import Home
from hermes_config.settings import Settings

log = structlog.get_logger()

_POLL_STORE_SECONDS = 0.2
_PUBLISH_SECONDS = 1.0
_FLUSH_SECONDS = 5.0
_BACKUP_CHECK_SECONDS = 600.0
_HOOKS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Asked:
    """The requests of signals and commands."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    restart: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)


async def run_gateway(
    settings: Settings,
    home: Home,
    *,
    on_ready: Callable[[Gateway], Awaitable[None]],
    read_again: Callable[[], Settings] | None = None,
) -> bool:
    """Serve until SIGTERM or SIGINT; raise AlreadyRunning, StoreTooNew, UpgradeFailed or ConfigError.

    SIGHUP reloads the settings with `read_again`; without that, as at a terminal, it stops the gateway. `on_ready` may
    take its time: the gateway does not wait for it. Return whether an owner has asked for a restart.
    """
    asked = _Asked()
    _listen_for_signals(asked, hung_up=asked.reload if read_again else asked.stop)
    with hold_home(home.lock_file) as lock:
        db = await _open_store(settings, home, lock, asked.stop)
        if db is None:
            return False
        try:
            gateway = build_gateway(settings, home, db)
            reloads = Reloads(gateway=gateway, read=read_again, requested=asked.reload)
            try:
                await _serve(gateway, lock, asked, on_ready, reloads)
            finally:
                await gateway.browsers.aclose()
                await gateway.model.aclose()
                await gateway.chosen_models.aclose()
        finally:
            await db.close()
        if not db.is_damaged:
            try:
                seal(home.database)
            except OSError as error:  # only makes the next start slower
                log.warning("store not sealed", problem=error.strerror)
    return asked.restart.is_set()


def _listen_for_signals(asked: _Asked, *, hung_up: asyncio.Event) -> None:
    def request_stop() -> None:
        if asked.stop.is_set() and not asked.restart.is_set():
            asked.hurry.set()  # a second signal: do not wait for running turns
        asked.restart.clear()  # whoever sends a signal wants an end
        asked.stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, request_stop)
    # A closed terminal does not end what `nohup` has started, but a reload is wanted there, too.
    if hung_up is not asked.stop or signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Never in a hurry: a terminal that closes may send it twice, from its shell and from the kernel.
        loop.add_signal_handler(signal.SIGHUP, hung_up.set)


async def _open_store(settings: Settings, home: Home, lock: HomeLock, stop: asyncio.Event) -> Database | None:
    """Open the store, and wait while it cannot be used; None when asked to stop meanwhile."""
    policy = build_backup_policy(settings, home.backups)
    failures = 0
    while not stop.is_set():
        try:
            for notice in await asyncio.to_thread(prepare, home.database, policy, repair=True):
                log.error("store was repaired", notice=notice)
            return await _take_over(home.database, policy.busy_timeout_seconds)
        except StoreUnavailable as error:
            failures += 1
            log.error("store is unavailable", problem=str(error))
            lock.tell({"state": "starting", "store": str(error)})
            await _wait_for(stop, min(backoff_seconds(failures), 5.0))
    return None


async def _take_over(path: Path, busy_timeout_seconds: float) -> Database:
    db = await open_database(path, busy_timeout_seconds=busy_timeout_seconds)
    try:
        await db.write(inbox.after_crash)
        await db.write(outbox.after_crash)
        await db.write(spending.after_crash)
        await db.write(approvals.sign_old_rows)
        if forged := await db.write(approvals.refuse_forged):
            log.error("approvals that nobody gave were found", notice=forged)
        await db.write(restarts.finish)
        if closed := await db.write(restored.close_open_work):
            log.warning("open work was closed after a restore", notice=closed)
        await db.write(recover)
    except BaseException:
        await db.close()  # its threads would keep the process alive
        raise
    return db


async def _serve(
    gateway: Gateway,
    lock: HomeLock,
    asked: _Asked,
    on_ready: Callable[[Gateway], Awaitable[None]],
    reloads: Reloads,
) -> None:
    settings, home = gateway.settings, gateway.home
    control = ApprovalControl(db=gateway.db, path=home.control_socket, changes=gateway.changes)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(gateway.lanes.run(), name="lanes"),
            group.create_task(gateway.live.run(), name="typing"),
            group.create_task(gateway.alarm.run(), name="alarm"),
            group.create_task(_publish_state(gateway, reloads, lock), name="publish state"),
            group.create_task(reloads.run(), name="reloads"),
            group.create_task(_watch_store(gateway), name="watch store"),
            group.create_task(_keep_backups(settings, home), name="backups"),
            group.create_task(gateway.housekeeping.run(), name="housekeeping"),
            group.create_task(gateway.watchers.run(), name="watchers"),
            group.create_task(gateway.scheduler.run(), name="scheduler"),
            group.create_task(gateway.approvals.run(), name="approvals"),
            group.create_task(gateway.memory.run(gateway.changes), name="memory files"),
            group.create_task(gateway.hook_feed.run(), name="hooks"),
            group.create_task(gateway.mcp.run(), name="mcp servers"),
            group.create_task(gateway.browsers.run(), name="browsers"),
            group.create_task(control.run(), name="control"),
            group.create_task(gateway.model_catalog.run(), name="list of models"),
            group.create_task(_watch_for_restart(gateway, asked), name="watch for a restart"),
            group.create_task(systemd.feed_watchdog(), name="watchdog"),
        ]
        await _wait_for_any(gateway.lanes.recovered, asked.stop)
        await sync_jobs(gateway.db, gateway.job_book, settings.cron, gateway.changes)
        for one in gateway.connected:
            tasks.append(group.create_task(one.delivery.run(), name=f"delivery {one.platform.account}"))
            connection = keep_connected(one.platform, one.inlet, one.status)
            tasks.append(group.create_task(connection, name=f"platform {one.platform.account}"))
        lock.tell(gateway.state() | reloads.state())
        if settings.access.allow_all_users:
            log.warning("ANYBODY may talk to this bot", setting="access.allow_all_users", paid_by="you")
        if gateway.unboxed:
            log.warning("the owner's commands run without a sandbox", problem=gateway.unboxed, mend="hermes doctor")
        for model in unpriced_models(settings):
            log.warning("a limit in money does not bind this model", model=model, mend=how_to_price(model))
        systemd.notify("READY=1", "STATUS=Serving")
        tasks.append(group.create_task(_announce(on_ready, gateway), name="on ready"))
        _tell_hooks(gateway, "gateway:startup")
        await asked.stop.wait()
        _tell_hooks(gateway, "gateway:shutdown")
        await _wind_down(gateway, asked.hurry)
        await gateway.hook_feed.tell()
        await gateway.hooks.finish(_HOOKS_SECONDS)
        for task in tasks:
            task.cancel()


def _tell_hooks(gateway: Gateway, event: str) -> None:
    accounts = [one.platform.account for one in gateway.connected]
    gateway.hooks.emit(event, {"home": str(gateway.home.root), "pid": os.getpid(), "accounts": accounts})


async def _announce(on_ready: Callable[[Gateway], Awaitable[None]], gateway: Gateway) -> None:
    try:
        await on_ready(gateway)
    except (GatewayError, OSError) as error:  # contained: a failed announcement must not end the gateway
        log.warning("could not announce", problem=str(error))


async def _wind_down(gateway: Gateway, hurry: asyncio.Event) -> None:
    """Accept nothing more, let running turns finish, pause the rest, and send what is ready."""
    log.info("stopping", running_turns=gateway.lanes.running)
    systemd.notify("STOPPING=1", f"STATUS=Finishing {gateway.lanes.running} turns")
    gateway.intake.closed = True
    drained = asyncio.ensure_future(gateway.lanes.drain(gateway.settings.gateway.drain_timeout_seconds))
    asked_again = asyncio.ensure_future(hurry.wait())
    await asyncio.wait([drained, asked_again], return_when=asyncio.FIRST_COMPLETED)
    asked_again.cancel()
    if not drained.done():
        drained.cancel()
        await gateway.lanes.drain(0)
    try:
        async with asyncio.timeout(_FLUSH_SECONDS):
            await asyncio.gather(*(one.delivery.flush() for one in gateway.connected if one.status.is_connected))
    except TimeoutError:
        log.warning("stopping with replies still to send; they go out after the next start")


async def _publish_state(gateway: Gateway, reloads: Reloads, lock: HomeLock) -> None:
    """Publish the state for `hermes status` every second, and retry a store that failed."""
    connected = asyncio.Event()
    gateway.changes.subscribe("platform", connected.set)
    jumps = ClockJumps()
    while True:
        if jumps.has_jumped():
            gateway.changes.notify("schedule")
        if gateway.db.problem:
            try:
                await gateway.db.write(lambda tx: tx.execute("UPDATE meta SET value = value"))
            except StoreUnavailable as error:
                systemd.notify(f"STATUS={error}")
        connected.clear()
        lock.tell(gateway.state() | reloads.state())
        await _wait_for(connected, _PUBLISH_SECONDS)


async def _watch_store(gateway: Gateway) -> None:
    """Notify everybody when another process, such as a command, has written to the database."""
    seen = await gateway.db.version()
    while True:
        await asyncio.sleep(_POLL_STORE_SECONDS)
        version = await gateway.db.version()
        if version != seen:
            seen = version
            gateway.changes.notify("inbox", "outbox", "decisions", "processes", "schedule")


async def _watch_for_restart(gateway: Gateway, asked: _Asked) -> None:
    """Stop once a command has asked for a restart: the command's own commit says so."""
    carried_out = asyncio.Event()
    gateway.changes.subscribe("commands", carried_out.set)
    while True:
        await carried_out.wait()
        carried_out.clear()
        if not asked.stop.is_set() and await gateway.db.read(restarts.is_requested):
            log.info("restart requested")
            asked.restart.set()
            asked.stop.set()


async def _keep_backups(settings: Settings, home: Home) -> None:
    while True:
        if backup_is_due(home.backups, settings.store.backup_every_hours):
            try:
                await asyncio.to_thread(make_backup, home.database, home.backups, keep=settings.store.backups_kept)
            except (sqlite3.Error, OSError) as error:
                log.error("backup failed", problem=str(error))
        await asyncio.sleep(_BACKUP_CHECK_SECONDS)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event, but no longer than so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


async def _wait_for_any(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
