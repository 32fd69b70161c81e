"""All secrets: a field each, annotated with its purpose and where to get it."""

from dataclasses import replace
from typing import Annotated

from pydantic import SecretStr

from hermes_config.platforms import PlatformSecrets
from hermes_config.types import ACCOUNT_NAME, Secret

SHOWN_CHARS = 4


def _secret(purpose: str, where_to_get: str, *enables: str, unused: bool = False, masked: bool = True) -> Secret:
    return Secret(purpose=purpose, where_to_get=where_to_get, enables=enables, unused=unused, masked=masked)


class Secrets(PlatformSecrets):
    """The variable of a secret is its name in capitals."""

    openrouter_api_key: Annotated[
        SecretStr | None, _secret("pays for models at OpenRouter", "openrouter.ai/keys", "models at OpenRouter")
    ] = None
    openai_api_key: Annotated[
        SecretStr | None,
        _secret(
            "pays for models at OpenAI or at the server in model.base_url",
            "platform.openai.com/api-keys, or whoever runs that server",
            "models at OpenAI and compatible servers",
        ),
    ] = None
    nous_api_key: Annotated[
        SecretStr | None, _secret("pays for models at Nous Research", "portal.nousresearch.com", "models at Nous")
    ] = None
    anthropic_api_key: Annotated[
        SecretStr | None, _secret("pays for models at Anthropic", "console.anthropic.com, API Keys", "Claude models")
    ] = None
    gemini_api_key: Annotated[
        SecretStr | None, _secret("pays for models at Google", "aistudio.google.com, Get API key", "Gemini models")
    ] = None
    sudo_password: Annotated[
        SecretStr | None,
        _secret("answers sudo in the terminal tool", "your password on that machine", "sudo in terminal"),
    ] = None
    hermes_web_token: Annotated[
        SecretStr | None,
        _secret(
            "opens the web page and its health checks for scripts, and from other machines",
            "make one up, for instance with `openssl rand -hex 32`",
            "the web page beyond this machine",
        ),
    ] = None
    firecrawl_api_key: Annotated[
        SecretStr | None,
        _secret("reads web pages", "firecrawl.dev, API Keys", "web_extract", "web_search", unused=True),
    ] = None
    parallel_api_key: Annotated[
        SecretStr | None, _secret("searches the web", "platform.parallel.ai, API Keys", "web_search", unused=True)
    ] = None
    browserbase_api_key: Annotated[
        SecretStr | None, _secret("drives a remote browser", "browserbase.com, Settings", "browser", unused=True)
    ] = None
    browserbase_project_id: Annotated[
        SecretStr | None,
        _secret(
            "names the project of the remote browser", "browserbase.com, Settings", "browser", unused=True, masked=False
        ),
    ] = None
    fal_key: Annotated[
        SecretStr | None, _secret("makes pictures at fal", "fal.ai/dashboard/keys", "image_generate", unused=True)
    ] = None

    def by_variable(self) -> dict[str, str]:
        """Return those that are set, in plain text, by variable."""
        return {name.upper(): value.get_secret_value() for name, value in self if value is not None}


SECRETS: tuple[Secret, ...] = tuple(
    replace(secret, field=name, env=name.upper())
    for name, info in Secrets.model_fields.items()
    for secret in info.metadata
    if isinstance(secret, Secret)
)


def find(name: str) -> Secret | None:
    """Find a secret by its variable, its field or its dotted key, in any case."""
    wanted = name.strip().lower().removeprefix("secrets.")
    return next((secret for secret in SECRETS if secret.field == wanted), None)


def find_of_account(name: str) -> Secret | None:
    """Return the token of an additional bot by its variable; it has no field in the settings."""
    wanted = name.strip().upper()
    for secret in SECRETS:
        account = wanted.removeprefix(f"{secret.env}_").lower() if wanted.startswith(f"{secret.env}_") else ""
        if secret.per_account and ACCOUNT_NAME.fullmatch(account):
            return replace(secret, env=secret.env_of(account), field="", per_account=False)
    return None


def find_tokens(platform: str) -> list[Secret]:
    """Return the tokens that each bot on this platform signs in with."""
    return [secret for secret in SECRETS if secret.per_account and platform in secret.enables]


def mask(value: str) -> str:
    """Show enough to tell two keys apart, never more than a quarter of one."""
    shown = min(SHOWN_CHARS, len(value) // 4)
    return "…" + (value[-shown:] if shown else "")
