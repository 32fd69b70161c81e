"""Tokens of further bots: `platforms.telegram.accounts: [work]` takes one from TELEGRAM_BOT_TOKEN_WORK."""

from hermes_config import environment
from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings


def bots(settings: Settings, platform: str) -> dict[str, list[str]]:
    """The bots that are switched on, by account, with their tokens: the plain one if it has any, and those that
    `accounts` names. A token that is not set is empty."""
    section = getattr(settings.platforms, platform)
    if not section.enabled:
        return {}
    secrets = [secret for secret in SECRETS if secret.per_account and platform in secret.enables]
    given = [getattr(settings.secrets, secret.field) for secret in secrets]
    plain = [value.get_secret_value() if value is not None else "" for value in given]
    named = {
        f"{platform}@{name}": [environment.lookup(one.env_of(name)) for one in secrets] for name in section.accounts
    }
    return ({platform: plain} if any(plain) else {}) | named


def account_tokens(settings: Settings) -> dict[str, str]:
    """Variable -> token, of every account that is named, switched on or not; empty when it is not set."""
    variables = [one for platform, _ in settings.platforms for one in _variables(settings, platform)]
    return {variable: environment.lookup(variable) for variable in variables}


def missing_tokens(settings: Settings) -> list[str]:
    """A sentence for each token without which a bot that is switched on cannot sign in."""
    return [
        f"platforms.{platform}.accounts names a bot whose {variable} is not set. Set it, it is asked for: "
        f"hermes config set {variable}; or take the name out of platforms.{platform}.accounts."
        for platform, section in settings.platforms
        if section.enabled
        for variable in _variables(settings, platform)
        if not environment.lookup(variable)
    ]


def is_named(settings: Settings, variable: str) -> bool:
    """Whether some account takes its token from this variable."""
    return variable in account_tokens(settings)


def _variables(settings: Settings, platform: str) -> list[str]:
    names = getattr(getattr(settings.platforms, platform), "accounts", ())
    tokens = [secret for secret in SECRETS if secret.per_account and platform in secret.enables]
    return [secret.env_of(name) for name in names for secret in tokens]
