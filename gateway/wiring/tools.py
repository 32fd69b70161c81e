"""Build from settings what the agent works with: model, tools, prompts, and files both ways."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from agent_core.compactor import CompactionRules
from agent_core.model import HelperModels, Model
from agent_core.models.catalog import ModelCatalog
from agent_core.models.factory import ModelOptions, open_model
from agent_core.models.providers import NOUS_PANEL, Endpoint, endpoints, find_preset, sees_images, window_tokens
from gateway.errors import MediaUnavailable
from gateway.media.incoming import Attachments
from gateway.media.outgoing import Enclosures
from gateway.media.pictures import StoredPictures
from gateway.media.reader import DocumentReader
from gateway.media.stickers import StickerBook
from gateway.memory.engine import MemoryEngine
from gateway.memory.files import MemoryFiles
from gateway.memory.nudge import Nudge
from gateway.messages import Media
from gateway.platforms.base import Platform
from gateway.platforms.outgoing import Load
from gateway.skills.engine import SkillEngine, write_index
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from gateway.store.offered_tools import StoredOffers
from gateway.store.processes import StoredProcesses
from gateway.store.sessions import SessionSettings
from gateway.store.todos import StoredTodos
from gateway.turns.compacting import Compacting
from gateway.turns.hook_feed import ask_hooks_first
from gateway.turns.metering import MonitoredModel
from gateway.turns.prompts import Prompts
from gateway.turns.recall import Recall
from gateway.turns.workplaces import Workplaces
from gateway.wiring.basics import build_library, build_redactor
from gateway.wiring.network_tools import build_network_tools, build_speech
from hermes_config.errors import ConfigError
from hermes_config.load import load
from hermes_config.mcp import read_servers
from hermes_config.places import Home
from hermes_config.settings import Settings
from hooks.dispatcher import Hooks
from hooks.events import TOOL_BEFORE
from hooks.loader import find_hooks
from tools.browser.browsers import Browsers
from tools.builtin.cronjob import NO_JOBS, JobStore, cronjob_tool
from tools.builtin.execute_code import code_tool
from tools.builtin.memory import memory_tool
from tools.builtin.messaging import NOWHERE_TO_SEND, Sends, messaging_tool
from tools.builtin.moa import NOT_SET, moa_tool
from tools.builtin.processes import process_tools
from tools.builtin.session_search import session_search_tool
from tools.builtin.skills import skill_tools
from tools.builtin.terminal import TerminalRules
from tools.builtin.todo import todo_tool
from tools.loading import load_builtin, load_folder
from tools.mcp.hub import McpHub
from tools.mcp.logins import Logins
from tools.media import MediaRoots
from tools.toolsets import TOOLSET_SETTINGS, ToolChoice, ToolsetError, choose_tools
from tools.url_guard import UrlGuard


def build_model(
    settings: Settings, home: Home, *, paced: bool = True, name: str = "", base_url: str | None = None
) -> MonitoredModel:
    """Build the configured model, or the one of that name and address in its place.

    `paced` makes the demo model write slowly, for somebody who watches the answer grow.
    """
    chosen = settings.model
    name = name or chosen.name
    options = ModelOptions.of(chosen, load_media=build_media_files(home).load)
    model = open_model(
        name,
        base_url=chosen.base_url if base_url is None else base_url,
        keys=settings.secrets.by_variable(),
        fallbacks=[other for other in chosen.fallbacks if other != name],
        options=options,
        demo_pace_seconds=chosen.demo_pace_ms / 1000 if paced else 0.0,
    )
    # The main one looks at pictures itself, if it sees.
    vision = _open_other(settings, chosen.vision, replace(options, sees_images=True))
    helpers = HelperModels(
        auxiliary=_open_other(settings, chosen.auxiliary, options),
        vision=vision or (model if sees_images(model.name) else None),
        panel=tuple(filter(None, (_open_other(settings, one, options) for one in _panel_names(settings)))),
        aggregator=_open_other(settings, settings.moa.aggregator, options),
    )
    return MonitoredModel(model, helpers=helpers)


def _panel_names(settings: Settings) -> tuple[str, ...]:
    """Return the models that are asked together."""
    return settings.moa.models or (NOUS_PANEL if settings.secrets.nous_api_key is not None else ())


def moa_problem(settings: Settings) -> str:
    """Return why no models can be asked together; empty when they can."""
    return "" if _panel_names(settings) else NOT_SET


def _open_other(settings: Settings, name: str, options: ModelOptions) -> Model | None:
    """Open a model for some tasks, at the main one's address unless its name begins with a provider's."""
    if not name:
        return None
    prefix, _, rest = name.partition("/")
    base_url = "" if rest and find_preset(prefix) else settings.model.base_url
    return open_model(name, base_url=base_url, keys=settings.secrets.by_variable(), options=options)


def build_compacting(settings: Settings, db: Database, model: MonitoredModel) -> Compacting:
    agent = settings.agent

    def window_of(name: str) -> int:
        is_main = name == model.name and settings.model.context_tokens
        return settings.model.context_tokens if is_main else window_tokens(name)

    return Compacting(
        db=db,
        window_of=window_of,
        rules=CompactionRules(
            threshold=agent.compression_threshold,
            target_tokens=agent.compression_target_tokens,
            keep_turns=agent.compression_keep_turns,
            max_messages=agent.history_messages,
            timeout_seconds=agent.compression_timeout_seconds,
        ),
    )


def read_preferences(settings: Settings) -> SessionSettings:
    """Return the owner's choices, for conversations that have none of their own."""
    given = settings.user.preferences
    model = "" if given.model == settings.model.name else given.model
    personality = "" if given.personality == "default" else given.personality
    return SessionSettings(model=model, personality=personality, verbosity="verbose" if given.display.verbose else "")


def build_catalog(settings: Settings) -> ModelCatalog:
    configured = (settings.model.name, *(name for name in settings.model.fallbacks if name != settings.model.name))
    endpoint = endpoints(settings).get(settings.model.name)
    return ModelCatalog(configured, endpoint if isinstance(endpoint, Endpoint) else None)


class ChosenModels:
    """The models that conversations have chosen instead of the configured one, each opened once."""

    def __init__(self, settings: Settings, home: Home, catalog: ModelCatalog) -> None:
        self._settings = settings
        self._home = home
        self.catalog = catalog
        self._models: dict[str, MonitoredModel] = {}

    def open(self, name: str) -> MonitoredModel:
        if name not in self._models:
            self._models[name] = build_model(self._settings, self._home, name=name, base_url=self._find_address(name))
        return self._models[name]

    def _find_address(self, name: str) -> str:
        given, endpoint = self._settings.model, self.catalog.endpoint
        if name in (given.name, self._settings.user.preferences.model):
            return given.base_url
        # A fallback has the address that goes with its name; any other was listed by the configured server.
        is_listed = name not in self.catalog.configured and endpoint is not None
        return endpoint.base_url if is_listed and endpoint else ""

    async def aclose(self) -> None:
        for model in self._models.values():
            await model.aclose()


def build_tools(
    settings: Settings,
    home: Home,
    db: Database,
    sends: Sends | None = None,
    *,
    memory: MemoryEngine,
    hooks: Hooks | None = None,
    jobs: JobStore | None = None,
    mcp: McpHub | None = None,
    browsers: Browsers | None = None,
    on_broken: Callable[[str, str], None] = lambda file, reason: None,
) -> ToolChoice:
    """Return the tools with their stores. Without `sends`, messages cannot be sent and background processes are not
    watched. `on_broken` is called with each file of the user that could not be loaded and the reason, which are logged
    too."""
    registry = load_builtin()
    for file, reason in load_folder(home.root / "tools").items():
        on_broken(file, reason)
    terminal, process = process_tools(StoredProcesses(db, is_watched=sends is not None), _terminal_rules(settings))
    messaging = messaging_tool(sends or NOWHERE_TO_SEND)
    past = session_search_tool(Recall(db=db))
    stored = (todo_tool(StoredTodos(db)), memory_tool(memory), *skill_tools(build_skills(settings, home, db)))
    given = (*stored, messaging, terminal, process, past, cronjob_tool(jobs or NO_JOBS))
    given = (*given, moa_tool(moa_problem(settings)), code_tool(_terminal_rules(settings)))
    handed = {tool.name: tool for tool in given}
    pictures = StoredPictures(db=db, files=build_media_files(home), max_pixels=settings.media.max_image_pixels)
    speech = build_speech(settings, db, build_media_files(home))
    network = build_network_tools(settings, pictures, speech, browsers=browsers, in_chat=sends is not None)
    choice = choose_tools(registry, settings.agent, handed | network, mcp or McpHub(read_servers(settings.mcp.servers)))
    if hooks is not None and hooks.wants(TOOL_BEFORE):
        choice = replace(choice, wrap=lambda tool: ask_hooks_first(tool, hooks, db))
    try:
        choice.check()
    except ToolsetError as error:
        raise ConfigError(f"{TOOLSET_SETTINGS}: {error}") from error
    return choice


def build_mcp(settings: Settings, home: Home, db: Database, hooks: Hooks) -> McpHub:
    """Build what keeps the MCP servers; without any it imports and does nothing."""
    asks_hooks = hooks.wants(TOOL_BEFORE)
    return McpHub(
        read_servers(settings.mcp.servers),
        StoredPictures(db=db, files=build_media_files(home), max_pixels=settings.media.max_image_pixels),
        wrap=lambda tool: ask_hooks_first(tool, hooks, db) if asks_hooks else tool,
        read_again=lambda: read_servers(load(home).settings.mcp.servers),
        wait_seconds=settings.mcp.wait_seconds,
        offers=StoredOffers(db),
        logins=Logins(home.mcp_logins),
    )


def build_memory(settings: Settings, home: Home, db: Database) -> MemoryEngine:
    """Build the memory. The demo model cannot find facts in a conversation, so it is not asked to."""
    redactor = build_redactor(settings)
    is_demo = (settings.model.auxiliary or settings.model.name) == "demo"
    return MemoryEngine(
        db=db,
        files=MemoryFiles(root=home.memories, redactor=redactor),
        nudge=Nudge(every_turns=0 if is_demo else settings.memory.nudge_turns, redactor=redactor),
    )


def build_skills(settings: Settings, home: Home, db: Database) -> SkillEngine:
    return SkillEngine(
        library=build_library(settings, home),
        db=db,
        redactor=build_redactor(settings),
        guard=UrlGuard.of(settings.network.allowed_addresses),
        mode=settings.skills.proposals,
    )


def build_hooks(settings: Settings, home: Home) -> Hooks:
    """Find the hooks that are switched on. None of their code runs before their first event."""
    found = find_hooks(home.root, settings.hooks.disabled, only_usable=True)
    return Hooks(found, clean=build_redactor(settings).clean_all)


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


def build_prompts(
    settings: Settings, home: Home, memory: MemoryEngine, *, hints: Mapping[str, str], project: Path
) -> Prompts:
    return Prompts(
        db=memory.db,
        soul=home.root / "SOUL.md",
        project=project,
        hints=hints,
        user_name=settings.user.name,
        user_timezone=settings.user.timezone,
        list_skills=lambda: write_index(build_library(settings, home)),
        recall=memory.snapshot,
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
        limits=chosen,
        reader=DocumentReader(
            max_text_chars=chosen.max_text_chars,
            timeout_seconds=chosen.read_timeout_seconds,
            memory_mb=chosen.read_memory_mb,
        ),
        stickers=StickerBook(home.root / "sticker_cache.json", model if sees else None),
        speech=build_speech(settings),
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
    here = (settings.terminal.cwd,) if settings.terminal.works_here else ()
    named = (*here, *settings.media.allowed_dirs)
    caches = (home.image_cache, home.audio_cache, home.document_cache)
    return Enclosures(
        db=db,
        files=files,
        accounts=frozenset(name for name, one in platforms.items() if one.features.sends_files),
        for_owner=MediaRoots.of([*(Path(folder).expanduser() for folder in named), *caches], closed=[home.root]),
        folder=workplaces.folder,
        home=workplaces.home_folder,
        fetch=workplaces.fetch,
        max_bytes=settings.media.max_outgoing_bytes,
        speech=build_speech(settings, db, files),
    )


def loader(files: MediaFiles) -> Load:
    async def load(media: Media) -> bytes | None:
        return await asyncio.to_thread(files.load, media)

    return load
