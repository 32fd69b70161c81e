"""The composition root: build the gateway from settings and connect its parts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_core.model import Model
from gateway.approvals.service import Approvals
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.commands.catalog import make_commands
from gateway.commands.registry import Commands
from gateway.commands.runner import CommandRunner
from gateway.inbound.intake import Intake, IntakePolicy
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import Cursor, InboundMessage
from gateway.outbound.alarm import Alarm
from gateway.outbound.delivery import NATURAL_PAUSE_MS, Delivery, DeliveryLimits
from gateway.outbound.live_reply import LiveReply
from gateway.outbound.send_message import Sending
from gateway.platforms.base import Inlet, Platform
from gateway.policies.resets import Resets, resets_for
from gateway.processes.watcher import Watchers
from gateway.store import chats, pairing, restored
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.housekeeping import Housekeeping
from gateway.store.outbox import Outgoing
from gateway.store.retention import Retention
from gateway.supervisor import ConnectionStatus
from gateway.turns.lanes import Lanes
from gateway.turns.metering import Meter, MonitoredModel
from gateway.turns.responder import MakeGate, Responder, Watch
from gateway.turns.workplaces import Workplaces
from gateway.wiring.basics import build_redactor
from gateway.wiring.platforms import build_live_reply, build_platforms, build_web, platform_hints
from gateway.wiring.policies import build_budgets, build_pairing_limits, build_rules, unpriced_models
from gateway.wiring.tools import (
    build_attachments,
    build_enclosures,
    build_media_files,
    build_model,
    build_prompts,
    build_tools,
    loader,
)
from hermes_config.places import Home
from hermes_config.redaction import Redactor
from hermes_config.settings import DisplaySettings, Settings
from tools.workplaces import describe_limits, process_backends

if TYPE_CHECKING:
    from gateway.web.server import WebServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A platform with its inlet, its connection status and its delivery."""

    platform: Platform
    inlet: Inlet
    status: ConnectionStatus
    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """All parts of a running gateway."""

    db: Database
    intake: Intake
    lanes: Lanes
    live: LiveReply
    alarm: Alarm
    housekeeping: Housekeeping
    watchers: Watchers
    approvals: Approvals
    connected: tuple[Connected, ...]
    web: "WebServer | None"
    model: MonitoredModel
    changes: Changes
    redactor: Redactor
    sandbox_limits: str  # those in force, which depend on how this process was started

    def state(self) -> dict[str, Any]:
        """Return the state for `hermes status` and the health checks."""
        return {
            "state": "stopping" if self.intake.closed else "serving",
            "told_ms": now_ms(),
            "store": self.db.problem,
            "running_turns": self.lanes.running,
            "model": self.model.state(),
            "web_port": self.web.access.port if self.web else 0,
            "sandbox_limits": self.sandbox_limits,
            "platforms": {
                one.platform.account: {
                    "state": one.status.state,
                    "problem": self.redactor.clean(one.status.problem)[:200],
                    "last_heard_ms": one.status.last_heard_ms,
                }
                for one in self.connected
            },
        }


def build_gateway(settings: Settings, home: Home, db: Database) -> Gateway:
    changes = Changes()
    commands = build_commands(settings)
    files = build_media_files(home)
    platforms = {one.account: one for one in build_platforms(settings, home, commands, load=loader(files))}
    model = build_model(settings, home)
    redactor = build_redactor(settings)
    live = build_live_reply(settings, db, platforms, redactor)
    resets = resets_for(settings.sessions, settings.user.timezone)
    approvals = build_approvals(settings, db, platforms, changes)
    sending = build_sending(settings, db, platforms, changes)
    responder = build_responder(
        settings, home, db, model, platforms, sending=sending, watch=live.watch, gate=approvals.gate, resets=resets
    )
    desk = CommandRunner(commands=commands, model_name=model.name, role_of=sending.role_now)
    lanes = build_lanes(settings, responder, desk, approvals, resets)
    intake = build_intake(settings, db, changes, handle_unkept=desk.handle_unkept)
    connected = tuple(connect(platform, intake, settings, redactor) for platform in platforms.values())
    watchers = build_watchers(settings, intake, platforms)
    web = build_web(settings, db, files, platforms.get("web"), model, commands, clean=redactor.clean, changes=changes)
    changes.subscribe("inbox", lanes.wake)
    changes.subscribe("decisions", approvals.wake)
    changes.subscribe("processes", watchers.wake)
    gateway = Gateway(
        db=db,
        intake=intake,
        lanes=lanes,
        live=live,
        alarm=build_alarm(settings, db, connected, changes),
        housekeeping=build_housekeeping(settings, home, db, resets),
        watchers=watchers,
        approvals=approvals,
        connected=connected,
        web=web,
        model=model,
        changes=changes,
        redactor=redactor,
        sandbox_limits=describe_limits(settings.terminal),
    )
    if web is not None:
        web.state = gateway.state
    return gateway


def build_responder(
    settings: Settings,
    home: Home,
    db: Database,
    model: Model,
    platforms: Mapping[str, Platform],
    *,
    sending: Sending,
    watch: Watch,
    gate: MakeGate,
    resets: Resets,
) -> Responder:
    tools = build_tools(settings, home, db, sending)
    hints = platform_hints(platforms)
    project = Path(settings.terminal.cwd).expanduser()
    workplaces = Workplaces(home=home, terminal=settings.terminal)
    return Responder(
        db=db,
        model=model,
        tools=tools,
        attachments=build_attachments(settings, home, db, model, platforms, build_media_files(home)),
        enclosures=build_enclosures(settings, home, db, platforms, build_media_files(home), workplaces),
        tool_slots=asyncio.Semaphore(settings.gateway.max_tool_runs),
        max_tool_runs_per_turn=settings.gateway.max_tool_runs_per_turn,
        max_iterations=settings.agent.max_iterations,
        max_resumes=settings.gateway.max_resumes,
        history_messages=settings.agent.history_messages,
        age_limit_ms=int(settings.gateway.outbox_age_limit_hours * 3_600_000),
        watch=watch,
        timezone=settings.user.timezone,
        max_tool_result_chars=settings.agent.max_tool_result_chars,
        prompts=build_prompts(settings, home, db, hints=hints, project=project),
        workplace=workplaces.at,
        gate=gate,
        resets=resets,
        changes=sending.changes,
        meter=Meter(budgets=build_budgets(settings), owner_accounts=tuple(platforms)),
        steers=settings.gateway.busy_mode == "steer",
    )


def build_lanes(
    settings: Settings, responder: Responder, desk: CommandRunner, approvals: Approvals, resets: Resets
) -> Lanes:
    return Lanes(
        responder.db,
        responder,
        desk.handle_next,
        max_turns=settings.gateway.max_turns,
        resets=resets,
        is_waiting=approvals.is_waiting,
        changes=approvals.changes,
    )


def build_alarm(settings: Settings, db: Database, connected: Sequence[Connected], changes: Changes) -> Alarm:
    statuses = [one.status for one in connected]
    return Alarm(db, statuses, after_seconds=settings.gateway.alarm_minutes * 60, changes=changes)


def build_approvals(settings: Settings, db: Database, platforms: Mapping[str, Platform], changes: Changes) -> Approvals:
    return Approvals(
        db=db,
        mode=settings.approvals.mode,
        wait_ms=int(settings.approvals.wait_minutes * 60_000),
        owner_accounts=tuple(platforms),
        changes=changes,
    )


def build_sending(settings: Settings, db: Database, platforms: Mapping[str, Platform], changes: Changes) -> Sending:
    return Sending(
        db=db,
        rules=build_rules(settings),
        accounts=tuple(platforms),
        local_accounts=tuple(account for account, platform in platforms.items() if platform.features.local),
        age_limit_ms=int(settings.gateway.outbox_age_limit_hours * 3_600_000),
        changes=changes,
    )


def build_intake(
    settings: Settings,
    db: Database,
    changes: Changes,
    *,
    handle_unkept: Callable[[Transaction, int, str], None],
) -> Intake:
    return Intake(
        db=db,
        rules=build_rules(settings),
        changes=changes,
        handle_unkept=handle_unkept,
        policy=IntakePolicy(
            max_waiting_per_session=settings.gateway.max_waiting_per_session,
            group_scope_per_user=settings.sessions.group_scope == "per_user",
            free_response_chats=frozenset(settings.gateway.free_response_chats),
            overheard_messages=settings.sessions.overheard_messages,
            busy_mode=settings.gateway.busy_mode,
        ),
        limits=SenderLimits(per_minute=settings.access.messages_per_minute),
        pairing_limits=build_pairing_limits(settings),
    )


def build_housekeeping(settings: Settings, home: Home, db: Database, resets: Resets) -> Housekeeping:
    return Housekeeping(
        db=db,
        resets=resets,
        retention=Retention(**settings.retention.model_dump()),
        files=build_media_files(home),
    )


def build_watchers(settings: Settings, intake: Intake, platforms: Mapping[str, Platform]) -> Watchers:
    local = {account for account, platform in platforms.items() if platform.features.local}
    return Watchers(
        db=intake.db,
        backends=process_backends(),
        role_of=lambda tx, message: intake.role_of(tx, message, local=message.key.account_name in local),
        changes=intake.changes,
        notifications=settings.display.background_process_notifications,
        shortest_interval_seconds=settings.terminal.min_check_interval_seconds,
    )


def build_commands(settings: Settings) -> Commands:
    return make_commands(
        build_rules(settings),
        build_pairing_limits(settings),
        build_budgets(settings),
        unpriced=unpriced_models(settings),
    )


def connect(platform: Platform, intake: Intake, settings: Settings, redactor: Redactor) -> Connected:
    limits = DeliveryLimits(
        sends_at_once=settings.gateway.max_sends_per_account,
        send_timeout_seconds=settings.gateway.send_timeout_seconds,
        pause_ms=_pause_ms(settings.display),
    )

    status = ConnectionStatus(account=platform.account, changes=intake.changes)
    codes = intake.pairing_limits

    def compose_code(tx: Transaction, row: Outgoing) -> str | None:
        return pairing.compose_code(tx, row.message.address.account, row.message.address.chat, codes)

    delivery = Delivery(
        intake.db,
        platform,
        lambda: status.is_connected,
        limits,
        redactor=redactor,
        compose={pairing.CODE_TOPIC: compose_code},
    )
    intake.changes.subscribe("outbox", delivery.wake, account=platform.account)

    async def accept(messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        await intake.accept(messages, cursor, account=platform.account, local=platform.features.local)

    async def cursor_of(channel: str) -> str:
        return await intake.db.read(lambda tx: chats.read_cursor(tx, platform.account, channel))

    async def all_cursors() -> Mapping[str, str]:
        return await intake.db.read(lambda tx: chats.read_cursors(tx, platform.account))

    async def history_since_ms() -> int:
        return await intake.db.read(restored.went_back_ms)

    async def moved(old: str, new: str) -> None:
        await intake.db.write_when_possible(lambda tx: chats.move(tx, platform.account, old, new))
        intake.changes.notify("outbox", account=platform.account)

    inlet = Inlet(
        accept=accept,
        cursor=cursor_of,
        cursors=all_cursors,
        alive=status.report_alive,
        chat_reachable=delivery.reachable,
        chat_moved=moved,
        history_since_ms=history_since_ms,
        serves=intake.serves,
    )
    return Connected(platform=platform, inlet=inlet, status=status, delivery=delivery)


def _pause_ms(display: DisplaySettings) -> tuple[int, int]:
    match display.human_delay_mode:
        case "off":
            return 0, 0
        case "natural":
            return NATURAL_PAUSE_MS
        case "custom":
            shortest = display.human_delay_min_ms
            return shortest, max(shortest, display.human_delay_max_ms)
