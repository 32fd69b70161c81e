"""The composition root: the only place that builds things from settings. Functions, no state."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_core.demo_model import DemoModel
from agent_core.model import Model
from gateway.access import Rules
from gateway.attachments import Attachments
from gateway.commands.desk import CommandDesk
from gateway.commands.table import all_commands
from gateway.delivery import Delivery, Limits
from gateway.errors import MediaUnavailable
from gateway.intake import Intake
from gateway.lanes import Lanes
from gateway.messages import Cursor, InboundMessage, Media
from gateway.platforms.base import Inlet, Platform
from gateway.responder import Responder
from gateway.store import inbox
from gateway.store.database import Database
from gateway.store.media import MediaFiles
from gateway.store.prepare import Care
from gateway.store.todos import StoredTodos
from gateway.supervisor import Hearing
from hermes_config.errors import ConfigError
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.base import Tool
from tools.builtin import load_builtin
from tools.todo import todo_tool
from tools.toolsets import select

_MAX_ATTACHMENT_BYTES = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A platform with its way in and its way out."""

    platform: Platform
    inlet: Inlet
    hearing: Hearing
    delivery: Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    db: Database
    intake: Intake
    lanes: Lanes
    connected: tuple[Connected, ...]

    def wake(self) -> None:
        """Look again at everything: another process may have written."""
        self.lanes.wake()
        self.wake_deliveries()

    def wake_deliveries(self) -> None:
        for one in self.connected:
            one.delivery.wake()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of what is on and what is off."""

    name: str
    on: bool
    text: str
    switch: str  # the command that turns it on or changes it


def parts(settings: Settings) -> list[Part]:
    socket = settings.platforms.socket.enabled
    return [
        Part(
            name="model",
            on=True,
            text="demo: offline and rule-based, to try things out",
            switch="hermes config set model.name …",
        ),
        Part(
            name="socket",
            on=socket,
            text="local scripts, JSON lines over hermes.sock" if socket else "for local scripts",
            switch=f"hermes config set platforms.socket.enabled {str(not socket).lower()}",
        ),
    ]


def build_gateway(settings: Settings, home: Home, db: Database) -> Gateway:
    platforms = {platform.account: platform for platform in build_platforms(settings, home)}
    model = build_model(settings)

    async def fetch(account: str, media: Media) -> bytes:
        if account not in platforms:
            raise MediaUnavailable(f"{account} is switched off")
        return await platforms[account].fetch(media, _MAX_ATTACHMENT_BYTES)

    responder = Responder(
        db=db,
        model=model,
        tools=build_tools(settings, db),
        attachments=Attachments(db=db, files=build_media_files(home), fetch=fetch),
        tool_slots=asyncio.Semaphore(settings.gateway.max_tool_runs),
        max_iterations=settings.agent.max_iterations,
        max_resumes=settings.gateway.max_resumes,
        history_messages=settings.agent.history_messages,
        age_limit_ms=int(settings.gateway.outbox_age_limit_hours * 3_600_000),
    )
    desk = CommandDesk(commands=all_commands(), model_name=model.name)
    lanes = Lanes(db, responder, desk.handle_next, max_turns=settings.gateway.max_turns)
    intake = Intake(
        db=db,
        rules=build_rules(settings),
        max_waiting_per_session=settings.gateway.max_waiting_per_session,
        wake=lanes.wake,
    )
    connected = tuple(_connect(platform, intake, settings) for platform in platforms.values())
    gateway = Gateway(db=db, intake=intake, lanes=lanes, connected=connected)
    lanes.after_commit = gateway.wake_deliveries
    return gateway


def build_platforms(settings: Settings, home: Home) -> list[Platform]:
    """SDKs are imported here, and only those of platforms that are switched on."""
    platforms: list[Platform] = []
    if settings.platforms.socket.enabled:
        from gateway.platforms.socket import SocketPlatform

        platforms.append(SocketPlatform(home.socket, max_line_bytes=settings.platforms.socket.max_line_bytes))
    return platforms


def build_model(settings: Settings) -> Model:
    if settings.model.name != "demo":
        raise ConfigError(
            f"model.name is {settings.model.name!r}, but this version of Hermes has only the offline model 'demo'. "
            "Set it back: hermes config set model.name demo"
        )
    return DemoModel()


def build_tools(settings: Settings, db: Database) -> list[Tool]:
    """The tools that are switched on, those that keep something handed the place to keep it."""
    chosen = select(load_builtin(), settings.agent.enabled_toolsets, settings.agent.disabled_toolsets)
    handed = {"todo": todo_tool(StoredTodos(db))}
    return [handed.get(tool.name, tool) for tool in chosen]


def build_rules(settings: Settings) -> Rules:
    return Rules(
        owner_users=frozenset(settings.access.owner_users),
        allowed_users=frozenset(settings.access.allowed_users),
        allow_all_users=settings.access.allow_all_users,
    )


def build_media_files(home: Home) -> MediaFiles:
    return MediaFiles(
        {
            "image": home.image_cache,
            "audio": home.audio_cache,
            "video": home.document_cache,
            "file": home.document_cache,
        }
    )


def care_for(settings: Settings, backups: Path) -> Care:
    return Care(
        backups=backups,
        backups_kept=settings.store.backups_kept,
        full_check_max_mb=settings.store.full_check_max_mb,
        busy_timeout_seconds=settings.store.busy_timeout_seconds,
    )


def secret_values(settings: Settings) -> list[str]:
    return [value.get_secret_value() for _, value in settings.secrets if value is not None]


def _connect(platform: Platform, intake: Intake, settings: Settings) -> Connected:
    limits = Limits(
        sends_at_once=settings.gateway.max_sends_per_account,
        send_timeout_seconds=settings.gateway.send_timeout_seconds,
    )
    hearing = Hearing(account=platform.account, on_connect=lambda: delivery.wake())
    delivery = Delivery(intake.db, platform, lambda: hearing.is_connected, limits)

    async def accept(messages: Sequence[InboundMessage], cursor: Cursor | None) -> None:
        await intake.accept(messages, cursor, account=platform.account, local=platform.features.local)

    async def cursor(channel: str) -> str:
        return await intake.db.read(lambda tx: inbox.cursor(tx, platform.account, channel))

    inlet = Inlet(accept=accept, cursor=cursor, heard=hearing.heard, reachable=delivery.reachable)
    return Connected(platform=platform, inlet=inlet, hearing=hearing, delivery=delivery)
