"""All secrets: a field each, annotated with its purpose and where to get it."""

from dataclasses import replace
from typing import Any, cast

from pydantic import SecretStr

from hermes_config.platforms import PlatformSecrets
from hermes_config.types import ACCOUNT_NAME, Secret, secret

SHOWN_CHARS = 4
WEBHOOK_SECRET = "HERMES_WEBHOOK_SECRET_"  # noqa: S105 a variable, followed by the name of the webhook in capitals


def _secret(purpose: str, where_to_get: str, *enables: str, masked: bool = True) -> Any:
    return secret(Secret(purpose=purpose, where_to_get=where_to_get, enables=enables, masked=masked))


class Secrets(PlatformSecrets):
    """The variable of a secret is its name in capitals."""

    openrouter_api_key: SecretStr | None = _secret(
        "pays for models at OpenRouter", "openrouter.ai/keys", "models at OpenRouter"
    )
    openai_api_key: SecretStr | None = _secret(
        "pays for models at OpenAI or at the server in model.base_url",
        "platform.openai.com/api-keys, or whoever runs that server",
        "models at OpenAI and compatible servers",
    )
    nous_api_key: SecretStr | None = _secret(
        "pays for models at Nous Research", "portal.nousresearch.com", "models at Nous"
    )
    anthropic_api_key: SecretStr | None = _secret(
        "pays for models at Anthropic", "console.anthropic.com, API Keys", "Claude models"
    )
    gemini_api_key: SecretStr | None = _secret(
        "pays for models at Google", "aistudio.google.com, Get API key", "Gemini models"
    )
    sudo_password: SecretStr | None = _secret(
        "answers sudo in the terminal tool", "your password on that machine", "sudo in terminal"
    )
    hermes_web_token: SecretStr | None = _secret(
        "opens the web page and its health checks for scripts, and from other machines",
        "make one up, for instance with `openssl rand -hex 32`",
        "the web page beyond this machine",
    )
    firecrawl_api_key: SecretStr | None = _secret("searches the web", "firecrawl.dev, API Keys", "web_search")
    parallel_api_key: SecretStr | None = _secret("searches the web", "platform.parallel.ai, API Keys", "web_search")
    browserbase_api_key: SecretStr | None = _secret(
        "drives a remote browser", "browserbase.com, Settings", "browser_navigate"
    )
    browserbase_project_id: SecretStr | None = _secret(
        "names the project of the remote browser", "browserbase.com, Settings", "browser_navigate", masked=False
    )
    fal_key: SecretStr | None = _secret("makes pictures at fal", "fal.ai/dashboard/keys", "image_generate")

    modal_token_id: SecretStr | None = _secret(
        "names the token for sandboxes at Modal", "modal.com/settings, API Tokens", "the modal backend"
    )
    modal_token_secret: SecretStr | None = _secret(
        "signs in at Modal", "modal.com/settings, API Tokens", "the modal backend"
    )
    daytona_api_key: SecretStr | None = _secret(
        "signs in at Daytona", "app.daytona.io/dashboard/keys", "the daytona backend"
    )

    def by_variable(self) -> dict[str, str]:
        """Return those that are set, in plain text, by variable."""
        return {name.upper(): value.get_secret_value() for name, value in self if value is not None}


SECRETS: tuple[Secret, ...] = tuple(
    replace(cast(dict[str, Secret], info.json_schema_extra)["secret"], field=name, env=name.upper())
    for name, info in Secrets.model_fields.items()
)


def find(name: str) -> Secret | None:
    """Find a secret by its variable, its field or its dotted key, in any case."""
    wanted = name.strip().lower().removeprefix("secrets.")
    return next((one for one in SECRETS if one.field == wanted), None)


def get(variable: str) -> Secret:
    return next(one for one in SECRETS if one.env == variable)


def find_of_account(name: str) -> Secret | None:
    """Return the token of an additional bot, or the secret of a webhook, by its variable: neither has a field."""
    wanted = name.strip().upper()
    for one in SECRETS:
        account = wanted.removeprefix(f"{one.env}_").lower() if wanted.startswith(f"{one.env}_") else ""
        if one.per_account and ACCOUNT_NAME.fullmatch(account):
            return replace(one, env=one.env_of(account), field="", per_account=False)
    if wanted.startswith(WEBHOOK_SECRET) and ACCOUNT_NAME.fullmatch(wanted.removeprefix(WEBHOOK_SECRET).lower()):
        return Secret(
            purpose="checks the signatures of a webhook",
            where_to_get="the settings of the webhook at its service, or `hermes webhooks add`",
            enables=("webhooks",),
            env=wanted,
        )
    return None


def find_tokens(platform: str) -> list[Secret]:
    """Return the tokens that each bot on this platform signs in with."""
    return [secret for secret in SECRETS if secret.per_account and platform in secret.enables]


def mask(value: str) -> str:
    """Show enough to tell two keys apart, never more than a quarter of one."""
    shown = min(SHOWN_CHARS, len(value) // 4)
    return "…" + (value[-shown:] if shown else "")
