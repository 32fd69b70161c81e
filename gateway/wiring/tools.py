"""Build from settings what the agent works with: model, tools, prompts, and files both ways."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_core.model import Model
from agent_core.models.factory import ModelOptions, open_model
from agent_core.models.providers import sees_images
from agent_core.models.retries import Patience, Retries
from gateway.errors import MediaUnavailable
from gateway.media.incoming import Attachments, IntakeLimits
from gateway.media.outgoing import Enclosures
from gateway.media.reader import DocumentReader
from gateway.media.stickers import StickerBook
from gateway.messages import Media
from gateway.platforms.base import Platform
from gateway.platforms.outgoing import Load
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.processes import StoredProcesses
from gateway.store.todos import StoredTodos
from gateway.turns.metering import MonitoredModel
from gateway.turns.prompts import Prompts
from gateway.turns.workplaces import Workplaces
from hermes_config.errors import ConfigError
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.base import Tool
from tools.builtin.messaging import NowhereToSend, Sends, messaging_tool
from tools.builtin.processes import process_tools
from tools.builtin.terminal import TerminalRules
from tools.builtin.todo import todo_tool
from tools.loading import load_builtin, load_folder
from tools.media import MediaRoots
from tools.toolsets import ToolsetError, select


def build_model(settings: Settings, home: Home, *, paced: bool = True) -> MonitoredModel:
    """Build the model. `paced` makes the demo model write slowly, for somebody who watches the answer grow."""
    chosen = settings.model
    options = ModelOptions(
        stream=chosen.stream,
        patience=Patience(
            connect_seconds=chosen.connect_timeout_seconds,
            first_byte_seconds=chosen.first_byte_timeout_seconds,
            idle_seconds=chosen.idle_timeout_seconds,
            whole_seconds=chosen.total_timeout_seconds,
        ),
        retries=Retries(attempts=chosen.attempts),
        cooldown_seconds=chosen.fallback_cooldown_seconds,
        load_media=build_media_files(home).load,
    )
    model = open_model(
        chosen.name,
        base_url=chosen.base_url,
        keys=settings.secrets.by_variable(),
        fallbacks=chosen.fallbacks,
        options=options,
        demo_pace_seconds=chosen.demo_pace_ms / 1000 if paced else 0.0,
    )
    return MonitoredModel(model)


def build_tools(
    settings: Settings,
    home: Home,
    db: Database,
    sends: Sends | None = None,
    *,
    on_broken: Callable[[str, str], None] = lambda file, reason: None,
) -> list[Tool]:
    """Return the enabled tools with their stores. Without `sends`, messages cannot be sent and background processes are
    not watched. `on_broken` is called with each file of the user that could not be loaded and the reason, which are
    logged too."""
    known = load_builtin()
    for file, reason in load_folder(home.root / "tools").items():
        on_broken(file, reason)
    try:
        chosen = select(known, settings.agent.enabled_toolsets, settings.agent.disabled_toolsets, has_workplace=True)
    except ToolsetError as error:
        raise ConfigError(f"agent.enabled_toolsets or agent.disabled_toolsets: {error}") from error
    terminal, process = process_tools(StoredProcesses(db, is_watched=sends is not None), _terminal_rules(settings))
    messaging = messaging_tool(sends or NowhereToSend())
    handed = {tool.name: tool for tool in (todo_tool(StoredTodos(db)), messaging, terminal, process)}
    return [handed.get(tool.name, tool) for tool in chosen]


def _terminal_rules(settings: Settings) -> TerminalRules:
    password = settings.secrets.sudo_password
    return TerminalRules(
        timeout_seconds=settings.terminal.timeout_seconds,
        max_timeout_seconds=settings.terminal.max_timeout_seconds,
        min_check_interval_seconds=settings.terminal.min_check_interval_seconds,
        policy=settings.approvals.policy,
        allowlist=tuple(settings.command_allowlist),
        sudo_password=password.get_secret_value() if password is not None else "",
    )


def build_prompts(settings: Settings, home: Home, db: Database, *, hints: Mapping[str, str], project: Path) -> Prompts:
    return Prompts(
        db=db,
        soul=home.root / "SOUL.md",
        project=project,
        hints=hints,
        user_name=settings.user.name,
        user_timezone=settings.user.timezone,
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


def build_attachments(
    settings: Settings, home: Home, db: Database, model: Model, platforms: Mapping[str, Platform], files: MediaFiles
) -> Attachments:
    chosen = settings.media
    sees = sees_images(model.name)

    async def fetch(account: str, media: Media) -> bytes:
        if account not in platforms:
            raise MediaUnavailable(f"{account} is switched off")
        return await platforms[account].fetch(media, chosen.max_file_bytes)

    return Attachments(
        db=db,
        files=files,
        fetch=fetch,
        limits=IntakeLimits(
            files_per_message=chosen.max_files_per_message,
            files_per_turn=chosen.max_files_per_turn,
            fetch_seconds=chosen.fetch_timeout_seconds,
            fetches_at_once=chosen.fetches_at_once,
            turn_text_chars=chosen.max_turn_text_chars,
            image_pixels=chosen.max_image_pixels,
        ),
        reader=DocumentReader(
            max_text_chars=chosen.max_text_chars,
            timeout_seconds=chosen.read_timeout_seconds,
            memory_mb=chosen.read_memory_mb,
        ),
        stickers=StickerBook(home.root / "sticker_cache.json", model if sees else None),
        sees=sees or model.name == "demo",  # the demo model explains its own limits
    )


def build_enclosures(
    settings: Settings,
    home: Home,
    db: Database,
    platforms: Mapping[str, Platform],
    files: MediaFiles,
    workplaces: Workplaces,
) -> Enclosures:
    """Build the enclosures. From our own home, only the caches and the sender's own sandbox may be sent."""
    named = (settings.terminal.cwd, *settings.media.allowed_dirs)
    caches = (home.image_cache, home.audio_cache, home.document_cache)
    return Enclosures(
        db=db,
        files=files,
        accounts=frozenset(name for name, one in platforms.items() if one.features.sends_files),
        for_owner=MediaRoots.of([*(Path(folder).expanduser() for folder in named), *caches], closed=[home.root]),
        folder=workplaces.folder,
        home=workplaces.home_folder,
        max_bytes=settings.media.max_outgoing_bytes,
    )


def loader(files: MediaFiles) -> Load:
    async def load(media: Media) -> bytes | None:
        return await asyncio.to_thread(files.load, media)

    return load
