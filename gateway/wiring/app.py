"""The composition root: build the gateway from settings and connect its parts."""

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.approvals.service import Approvals
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.commands.history import TranscriptFiles
from gateway.commands.registry import Commands
from gateway.commands.runner import CommandRunner
from gateway.inbound.intake import Intake, IntakePolicy
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import PROGRAMS, Media
from gateway.outbound.alarm import Alarm
from gateway.outbound.live_reply import LiveReply
from gateway.outbound.send_message import Sending
from gateway.platforms.base import Platform
from gateway.policies.resets import resets_for
from gateway.processes.watcher import Watchers
from gateway.schedule.agent_jobs import AgentJobs
from gateway.schedule.book import JobBook, JobOptions
from gateway.schedule.runs import HINT
from gateway.schedule.scheduler import Scheduler
from gateway.store import cron
from gateway.store.db.database import Database
from gateway.store.housekeeping import Housekeeping
from gateway.store.inbox import BusyMode
from gateway.turns.hook_feed import HookFeed
from gateway.turns.lanes import Lanes
from gateway.turns.metering import Meter
from gateway.turns.responder import Responder
from gateway.turns.runner import TurnRunner
from gateway.turns.workplaces import Workplaces
from gateway.wiring.basics import build_redactor
from gateway.wiring.commands import build_commands
from gateway.wiring.connect import Connected, connect
from gateway.wiring.network_tools import build_browsers
from gateway.wiring.platforms import (
    build_live_reply,
    build_platforms,
    build_web,
    build_webhooks,
    platform_hints,
)
from gateway.wiring.policies import build_budgets, build_pairing_limits, build_rules
from gateway.wiring.schedule import build_job_options
from gateway.wiring.tools import (
    ChosenModels,
    build_attachments,
    build_catalog,
    build_compacting,
    build_enclosures,
    build_hooks,
    build_mcp,
    build_media_files,
    build_memory,
    build_model,
    build_prompts,
    build_tools,
    loader,
    read_preferences,
)
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.url_guard import UrlGuard
from tools.workplaces import describe_limits, process_backends, sandbox_problem

if TYPE_CHECKING:
    from gateway.web.server import WebServer


class Gateway:
    """All parts of a running gateway, each built from the settings when it is first asked for."""

    def __init__(self, settings: Settings, home: Home, db: Database) -> None:
        self.settings = settings
        self.home = home
        self.db = db
        self.changes = Changes()
        self.rules = build_rules(settings)  # one for all, so that a reload reaches all
        self.redactor = build_redactor(settings)
        self.files = build_media_files(home)
        self.resets = resets_for(settings.sessions, settings.user.timezone)
        self.model = build_model(settings, home)
        self.model_catalog = build_catalog(settings)
        self.chosen_models = ChosenModels(settings, home, self.model_catalog)
        self.hooks = build_hooks(settings, home)
        self.hook_feed = HookFeed(db, self.hooks)
        self.mcp = build_mcp(settings, home, db, self.hooks)
        self.browsers = build_browsers(settings)
        self.memory = build_memory(settings, home, db)
        self.sandbox_limits = describe_limits(settings.terminal)  # which depend on how this process was started
        # Why the owner's commands run without a sandbox although one is wanted; empty when they do not.
        self.unboxed = sandbox_problem() if settings.terminal.backend in ("auto", "sandbox") else ""

    @cached_property
    def jobs(self) -> JobOptions:
        accounts = lambda: tuple(self.platforms)  # noqa: E731 they need the commands, and so these
        return build_job_options(self.settings, self.home, accounts=accounts, models=self.model_catalog)

    @cached_property
    def job_book(self) -> JobBook:
        return self.jobs.open(self.sending.role_now)

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(db=self.db, starter=self.job_book.starter, changes=self.changes)

    @cached_property
    def commands(self) -> Commands:
        files = TranscriptFiles(clean=self.redactor.clean, store=self._store_transcript, can_send=self._can_send)
        return build_commands(
            self.settings,
            self.home,
            self.rules,
            models=self.model_catalog,
            model_in_use=lambda: self.model.in_use,
            in_chat=True,
            files=files,
            jobs=self.jobs,
            mcp=self.mcp,
        )

    def _store_transcript(self, name: str, content: bytes) -> Media:
        sha256 = self.files.save("file", content)
        mime = "application/json" if name.endswith(".json") else "text/markdown"
        return Media(kind="file", name=name, mime=mime, size_bytes=len(content), sha256=sha256)

    def _can_send(self, account: str) -> bool:
        return account in self.platforms and self.platforms[account].features.sends_files

    @cached_property
    def platforms(self) -> Mapping[str, Platform]:
        built = build_platforms(self.settings, self.home, self.commands, load=loader(self.files))
        return {one.account: one for one in built}

    @cached_property
    def local_accounts(self) -> tuple[str, ...]:
        return tuple(account for account, platform in self.platforms.items() if platform.features.local)

    @cached_property
    def live(self) -> LiveReply:
        return build_live_reply(self.settings, self.db, self.platforms, self.redactor)

    @cached_property
    def approvals(self) -> Approvals:
        return Approvals(
            db=self.db,
            mode=self.settings.approvals.mode,
            wait_ms=int(self.settings.approvals.wait_minutes * 60_000),
            owner_accounts=tuple(self.platforms),
            changes=self.changes,
        )

    @cached_property
    def sending(self) -> Sending:
        return Sending(
            db=self.db,
            rules=self.rules,
            accounts=tuple(account for account in self.platforms if account != PROGRAMS),  # nobody reads there
            local_accounts=self.local_accounts,
            age_limit_ms=int(self.settings.gateway.outbox_age_limit_hours * 3_600_000),
            changes=self.changes,
        )

    @cached_property
    def responder(self) -> Responder:
        settings, home, db, model = self.settings, self.home, self.db, self.model
        guard = UrlGuard.of(settings.network.allowed_addresses)
        workplaces = Workplaces(home=home, terminal=settings.terminal, guard=guard)
        tools = build_tools(
            settings,
            home,
            db,
            self.sending,
            memory=self.memory,
            hooks=self.hooks,
            jobs=AgentJobs(db=db, book=self.job_book, changes=self.changes),
            mcp=self.mcp,
            browsers=self.browsers,
        )
        hints = platform_hints(self.platforms) | {cron.PLATFORM: HINT}
        here = settings.terminal.works_here  # elsewhere the folder is not one of this machine
        project = Path(settings.terminal.cwd).expanduser() if here else home.root / "elsewhere"
        runner = TurnRunner(
            db=db,
            settings=settings,
            model=model,
            choose_model=self.chosen_models.open,
            helpers=model.helpers,
            offer_tools=tools.offer,
            compacting=build_compacting(settings, db, model),
            prompts=build_prompts(settings, home, self.memory, hints=hints, project=project),
            memory=self.memory,
            workplace=workplaces.at,
            gate=self.approvals.gate,
            meter=Meter(budgets=build_budgets(settings), owner_accounts=tuple(self.platforms)),
            preferences=read_preferences(settings),
            tool_slots=asyncio.Semaphore(settings.gateway.max_tool_runs),
        )
        return Responder(
            runner=runner,
            attachments=build_attachments(settings, home, db, model, self.platforms, self.files),
            enclosures=build_enclosures(settings, home, db, self.platforms, self.files, workplaces),
            job_files=home.cron,
            watch=self.live.watch,
            resets=self.resets,
            changes=self.changes,
        )

    @cached_property
    def command_runner(self) -> CommandRunner:
        return CommandRunner(
            commands=self.commands,
            model_name=self.model.name,
            owners_model=read_preferences(self.settings).model,
            role_of=self.sending.role_now,
        )

    @cached_property
    def lanes(self) -> Lanes:
        return Lanes(
            self.db,
            self.responder,
            self.command_runner.handle_next,
            max_turns=self.settings.gateway.max_turns,
            resets=self.resets,
            is_waiting=self.approvals.is_waiting,
            changes=self.changes,
        )

    @cached_property
    def intake(self) -> Intake:
        return Intake(
            db=self.db,
            rules=self.rules,
            changes=self.changes,
            handle_unkept=self.command_runner.handle_unkept,
            policy=build_intake_policy(self.settings, busy_mode=self.settings.gateway.busy_mode),
            limits=SenderLimits(per_minute=self.settings.access.messages_per_minute),
            pairing_limits=build_pairing_limits(self.settings),
        )

    @cached_property
    def connected(self) -> tuple[Connected, ...]:
        return tuple(connect(one, self.intake, self.settings, self.redactor) for one in self.platforms.values())

    @cached_property
    def alarm(self) -> Alarm:
        statuses = [one.status for one in self.connected]
        after_seconds = self.settings.gateway.alarm_minutes * 60
        return Alarm(self.db, statuses, after_seconds=after_seconds, changes=self.changes)

    @cached_property
    def housekeeping(self) -> Housekeeping:
        return Housekeeping(db=self.db, resets=self.resets, retention=self.settings.retention, files=self.files)

    @cached_property
    def watchers(self) -> Watchers:
        intake, local = self.intake, self.local_accounts
        return Watchers(
            db=self.db,
            backends=process_backends(self.settings.terminal),
            role_of=lambda tx, message: intake.role_of(tx, message, local=message.key.account_name in local),
            changes=self.changes,
            notifications=self.settings.display.background_process_notifications,
            shortest_interval_seconds=self.settings.terminal.min_check_interval_seconds,
        )

    @cached_property
    def web(self) -> "WebServer | None":
        web = build_web(
            self.settings,
            self.db,
            self.files,
            self.platforms.get("web"),
            self.model,
            self.commands,
            clean=self.redactor.clean,
            changes=self.changes,
            programs=self.platforms.get(PROGRAMS),
            state=self.state,
        )
        if web is not None and self.settings.http.enabled:
            web.webhooks = build_webhooks(self.settings, self.home, self.intake, self.sending)
        return web

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
            "sandbox_problem": self.unboxed,
            "hooks": self.redactor.clean_all(self.hooks.state()),
            "mcp": self.redactor.clean_all(self.mcp.state()),
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
    """Build all parts, and wake those that wait for each other's changes. Raises ConfigError."""
    gateway = Gateway(settings, home, db)
    changes = gateway.changes
    changes.subscribe("inbox", gateway.lanes.wake)
    changes.subscribe("decisions", gateway.approvals.wake)
    changes.subscribe("processes", gateway.watchers.wake)
    changes.subscribe("schedule", gateway.scheduler.wake)
    changes.subscribe("commands", gateway.scheduler.wake)
    _ = gateway.connected, gateway.web, gateway.alarm, gateway.housekeeping  # what cannot be built is found now
    return gateway


def build_intake_policy(settings: Settings, *, busy_mode: BusyMode) -> IntakePolicy:
    """`busy_mode` apart: the responder has it too, so that it is the one thing here which a reload must not change."""
    return IntakePolicy(
        max_waiting_per_session=settings.gateway.max_waiting_per_session,
        group_scope_per_user=settings.sessions.group_scope == "per_user",
        free_response_chats=frozenset(settings.gateway.free_response_chats),
        overheard_messages=settings.sessions.overheard_messages,
        busy_mode=busy_mode,
    )
