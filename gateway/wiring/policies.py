"""Build from settings who may talk to the bot and what may be spent, for the gateway and for commands."""

from gateway.policies.access import Rules
from gateway.policies.budgets import Budgets, budgets_for
from gateway.policies.pairing import PairingLimits
from hermes_config.settings import Settings


def build_rules(settings: Settings) -> Rules:
    on_platforms = (
        id_ if ":" in id_ else f"{platform}:{id_}"
        for platform, section in settings.platforms
        for id_ in getattr(section, "allowed_users", ())
    )
    return Rules(
        owner_users=frozenset(settings.access.owner_users),
        allowed_users=frozenset((*settings.access.allowed_users, *on_platforms)),
        allowed_chats=frozenset(settings.access.allowed_chats),
        allow_all_users=settings.access.allow_all_users,
        pair_strangers=settings.access.unauthorized_dm_behavior == "pair",
    )


def build_pairing_limits(settings: Settings) -> PairingLimits:
    access = settings.access
    return PairingLimits(
        code_ms=int(access.pairing_code_minutes * 60_000),
        request_ms=int(access.pairing_request_minutes * 60_000),
        max_pending=access.max_pending_pairings,
        max_failures=access.max_failed_approvals,
        lockout_ms=int(access.lockout_minutes * 60_000),
    )


def build_budgets(settings: Settings) -> Budgets:
    return budgets_for(settings.budgets, settings.user.timezone)


def unpriced_models(settings: Settings) -> list[str]:
    """Return the models without a price, by their servers' names; none where money is not limited."""
    from agent_core.models.providers import Endpoint, endpoints  # loads what most commands do not need

    budgets = build_budgets(settings)
    if not budgets.limit_money:
        return []
    found = [one for one in endpoints(settings).values() if isinstance(one, Endpoint)]
    return [one.model for one in found if not one.reports_cost and budgets.price(one.model) is None]
