"""Builds the budgets from the settings, and says which of the models have no price."""

from agent_core.model_errors import NoEndpoint
from agent_core.providers import choose
from gateway.budgets import Budgets, budgets_for
from hermes_config.settings import Settings


def build_budgets(settings: Settings) -> Budgets:
    return budgets_for(settings.budgets, settings.user.timezone)


def unpriced_models(settings: Settings) -> list[str]:
    """Models, as their servers call them, that a limit in money does not bind; none where money is not limited."""
    budgets, chosen, keys = build_budgets(settings), settings.model, settings.secrets.by_variable()
    if not budgets.limit_money:
        return []
    names = []
    for name, base_url in ((chosen.name, chosen.base_url), *((name, "") for name in chosen.fallbacks)):
        try:
            endpoint = choose(name, base_url, keys) if name != "demo" else None
        except NoEndpoint:
            continue  # it says so itself when it is asked
        if endpoint is not None and not endpoint.tells_cost and budgets.price(endpoint.model) is None:
            names.append(endpoint.model)
    return names
