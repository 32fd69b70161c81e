"""Build from settings who may talk to the bot, for the gateway and for commands."""

from gateway.policies.access import Rules
from gateway.store.pairing import PairingLimits
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
