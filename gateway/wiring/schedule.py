"""Build from settings what schedules jobs."""

from collections.abc import Callable, Collection

from agent_core.models.catalog import ModelCatalog
from gateway.platforms.all import PLATFORMS
from gateway.schedule.book import JobOptions
from gateway.schedule.times import find_local_timezone
from gateway.skills.engine import render_for_task
from gateway.wiring.basics import build_library
from gateway.wiring.tools import build_catalog
from hermes_config.accounts import bots
from hermes_config.places import Home
from hermes_config.settings import Settings
from tools.content import Text
from tools.loading import load_builtin
from tools.toolsets import choose_tools


def build_job_options(
    settings: Settings,
    home: Home,
    *,
    accounts: Callable[[], Collection[str]] | None = None,
    models: ModelCatalog | None = None,
) -> JobOptions:
    """`accounts` returns those that are connected; by default all that the settings switch on."""
    catalog = models or build_catalog(settings)
    tools = choose_tools(load_builtin(), settings.agent)
    library = build_library(settings, home)

    def load_skill(name: str) -> Text | None:
        skill = library.find(name)
        return render_for_task(library, skill) if skill is not None else None

    return JobOptions(
        timezone=settings.user.timezone or find_local_timezone(),
        accounts=accounts or (lambda: list_accounts(settings)),
        models=lambda: catalog.names,
        toolsets=lambda: tools.toolsets.keys(),
        skills=lambda: [skill.name for skill in library.list_usable()],
        load_skill=load_skill,
    )


def list_accounts(settings: Settings) -> list[str]:
    """Return the accounts that the settings switch on."""
    return [
        account
        for spec in PLATFORMS
        if getattr(settings.platforms, spec.name).enabled
        for account in (bots(settings, spec.name) if spec.token_checks else [spec.name])
    ]
