"""The bots of a platform and their tokens: `accounts: [work]` takes them from variables that end in _WORK."""

from hermes_config import environment
from hermes_config.secrets import WEBHOOK_SECRET, find_tokens
from hermes_config.settings import Settings

SHORTEST_WEBHOOK_SECRET = 16


def bots(settings: Settings, platform: str) -> dict[str, list[str]]:
    """Return the enabled bots by account, with their tokens; a token that is not set is empty.

    The default bot is left out when it has no token at all, those that `accounts` names are not.
    """
    section = getattr(settings.platforms, platform)
    tokens = find_tokens(platform)
    if not section.enabled or not tokens:
        return {}
    held = [getattr(settings.secrets, token.field) for token in tokens]
    default = [value.get_secret_value() if value is not None else "" for value in held]
    named = {
        f"{platform}@{account}": [environment.lookup(token.env_of(account)) for token in tokens]
        for account in section.accounts
    }
    return ({platform: default} if any(default) else {}) | named


def account_tokens(settings: Settings) -> dict[str, str]:
    """Return the tokens of all named accounts by variable, enabled or not; empty when one is not set."""
    names = [name for platform, _ in settings.platforms for name in _list_variables(settings, platform)]
    return {name: environment.lookup(name) for name in names}


def webhook_secrets(settings: Settings) -> dict[str, str]:
    """Return the secrets of all webhooks by name; empty when one is not set."""
    names = [entry.partition("=")[0] for entry in settings.http.webhooks]
    return {name: environment.lookup(WEBHOOK_SECRET + name.upper()) for name in names}


def missing_tokens(settings: Settings) -> list[str]:
    """Return a sentence for each token that an enabled bot lacks, and for each webhook without a secret."""
    webhooks = [
        f"http.webhooks names {name}, whose {WEBHOOK_SECRET}{name.upper()} is missing or shorter than "
        f"{SHORTEST_WEBHOOK_SECRET} characters. Run `hermes config set {WEBHOOK_SECRET}{name.upper()}`, or "
        f"`hermes webhooks remove {name}`."
        for name, held in webhook_secrets(settings).items()
        if len(held) < SHORTEST_WEBHOOK_SECRET
    ]
    return webhooks + [
        f"platforms.{platform}.accounts names a bot whose {variable} is not set. Run `hermes config set {variable}`, "
        f"or remove the name from platforms.{platform}.accounts."
        for platform, section in settings.platforms
        if section.enabled
        for variable in _list_variables(settings, platform)
        if not environment.lookup(variable)
    ]


def _list_variables(settings: Settings, platform: str) -> list[str]:
    accounts = getattr(getattr(settings.platforms, platform), "accounts", ())
    return [token.env_of(account) for account in accounts for token in find_tokens(platform)]
