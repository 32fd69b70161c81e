"""Build from settings the commands of chats and of the terminal."""

from collections.abc import Callable

from agent_core.models.catalog import ModelCatalog
from gateway.commands.agent import AgentOptions
from gateway.commands.catalog import make_commands
from gateway.commands.history import TranscriptFiles
from gateway.commands.registry import Commands
from gateway.commands.skills import SkillCommands
from gateway.policies.access import Rules
from gateway.schedule.book import JobOptions
from gateway.wiring.basics import build_library
from gateway.wiring.network_tools import build_network_tools, build_speech
from gateway.wiring.policies import build_budgets, build_pairing_limits, build_rules, unpriced_models
from gateway.wiring.schedule import build_job_options
from gateway.wiring.tools import build_catalog, read_preferences
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.builtin.speech import speech_tool
from tools.loading import load_builtin
from tools.mcp.hub import McpHub
from tools.toolsets import choose_tools


def build_commands(
    settings: Settings,
    home: Home,
    rules: Rules | None = None,
    *,
    models: ModelCatalog | None = None,
    model_in_use: Callable[[], str] = lambda: "",
    files: TranscriptFiles | None = None,
    jobs: JobOptions | None = None,
    describe_config: Callable[[], str] = lambda: "",
    mcp: McpHub | None = None,
    in_chat: bool = False,
) -> Commands:
    """Build the commands. `in_chat` says whether files can be sent to whoever gives them."""
    options = AgentOptions(
        models=models or build_catalog(settings),
        tools=choose_tools(load_builtin(), settings.agent, build_network_tools(settings, in_chat=in_chat), mcp),
        model_in_use=model_in_use,
        preferences=read_preferences(settings),
        why_silent=speech_tool(build_speech(settings), in_chat=True).unavailable(),
    )
    return make_commands(
        rules or build_rules(settings),
        build_pairing_limits(settings),
        build_budgets(settings),
        unpriced=unpriced_models(settings),
        agent=options,
        files=files,
        jobs=jobs or build_job_options(settings, home),
        skills=SkillCommands(library=build_library(settings, home)),
        describe_config=describe_config,
        mcp=mcp,
    )
