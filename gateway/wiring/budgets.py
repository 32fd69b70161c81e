"""Builds the budgets from the settings, and says which of the models have no price."""

from agent_core.models.providers import Endpoint, endpoints
from gateway.policies.budgets import Budgets, budgets_for
from hermes_config.settings import Settings


def build_budgets(settings: Settings) -> Budgets:
    return budgets_for(settings.budgets, settings.user.timezone)


def unpriced_models(settings: Settings) -> list[str]:
    """Models, as their servers call them, that a limit in money does not bind; none where money is not limited."""
    budgets = build_budgets(settings)
    if not budgets.limit_money:
        return []
    found = [one for one in endpoints(settings).values() if isinstance(one, Endpoint)]
    return [one.model for one in found if not one.tells_cost and budgets.price(one.model) is None]
