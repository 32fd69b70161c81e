"""The bots of a platform and their tokens: `accounts: [work]` takes them from variables that end in _WORK."""

from hermes_config import environment
from hermes_config.secrets import find_tokens
from hermes_config.settings import Settings


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


def missing_tokens(settings: Settings) -> list[str]:
    """Return a sentence for each token that an enabled bot lacks."""
    return [
        f"platforms.{platform}.accounts names a bot whose {variable} is not set. Run `hermes config set {variable}`, "
        f"or remove the name from platforms.{platform}.accounts."
        for platform, section in settings.platforms
        if section.enabled
        for variable in _list_variables(settings, platform)
        if not environment.lookup(variable)
    ]


def is_named(settings: Settings, variable: str) -> bool:
    """Tell whether an account takes its token from this variable."""
    return variable in account_tokens(settings)


def _list_variables(settings: Settings, platform: str) -> list[str]:
    accounts = getattr(getattr(settings.platforms, platform), "accounts", ())
    return [token.env_of(account) for account in accounts for token in find_tokens(platform)]
