"""Where each model that is set would be asked, found out without asking."""

from collections.abc import Mapping

from agent_core.model_errors import NoEndpoint
from agent_core.providers import Endpoint, choose
from hermes_config.settings import Settings


def endpoints(settings: Settings) -> dict[str, Endpoint | NoEndpoint]:
    """By name, the first one first: its endpoint, or why there is none. The demo model has no need of one."""
    model, keys = settings.model, settings.secrets.by_variable()
    wanted = {model.name: model.base_url} | {name: "" for name in model.fallbacks if name != model.name}
    return {name: _choose(name, base_url, keys) for name, base_url in wanted.items() if name != "demo"}


def _choose(name: str, base_url: str, keys: Mapping[str, str]) -> Endpoint | NoEndpoint:
    try:
        return choose(name, base_url, keys)
    except NoEndpoint as problem:
        return problem
