"""Every secret described once: the wizard, `config check`, the doctor and the docs read this table."""

import re
from dataclasses import dataclass, replace

SHOWN_CHARS = 4
ACCOUNT_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    env: str
    field: str
    purpose: str
    where_to_get: str
    enables: tuple[str, ...]
    masked: bool = True
    per_account: bool = False  # further bots have one each, under the same name with theirs behind it

    def env_of(self, account: str) -> str:
        return f"{self.env}_{account.upper()}"


def _secret(env: str, purpose: str, where_to_get: str, *enables: str, masked: bool = True) -> Secret:
    return Secret(
        env=env, field=env.lower(), purpose=purpose, where_to_get=where_to_get, enables=enables, masked=masked
    )


def _token(env: str, purpose: str, where_to_get: str, platform: str) -> Secret:
    return replace(_secret(env, purpose, where_to_get, platform), per_account=True)


SECRETS: tuple[Secret, ...] = (
    _token("TELEGRAM_BOT_TOKEN", "signs the bot in to Telegram", "/newbot in a chat with @BotFather", "telegram"),
    _token("DISCORD_BOT_TOKEN", "signs the bot in to Discord", "discord.com/developers, Bot, Reset Token", "discord"),
    _token("SLACK_BOT_TOKEN", "lets the bot read and write in Slack", "api.slack.com/apps, OAuth (xoxb-…)", "slack"),
    _token("SLACK_APP_TOKEN", "opens Slack's Socket Mode", "api.slack.com/apps, Basic Information (xapp-…)", "slack"),
    _secret("OPENROUTER_API_KEY", "pays for models at OpenRouter", "openrouter.ai/keys", "models at OpenRouter"),
    _secret(
        "OPENAI_API_KEY",
        "pays for models at OpenAI or at the server in model.base_url",
        "platform.openai.com/api-keys, or whoever runs that server",
        "models at OpenAI and compatible servers",
    ),
    _secret("NOUS_API_KEY", "pays for models at Nous Research", "portal.nousresearch.com", "models at Nous"),
    _secret("ANTHROPIC_API_KEY", "pays for models at Anthropic", "console.anthropic.com, API Keys", "Claude models"),
    _secret("GEMINI_API_KEY", "pays for models at Google", "aistudio.google.com, Get API key", "Gemini models"),
    _secret("SUDO_PASSWORD", "answers sudo in the terminal tool", "your password on that machine", "sudo in terminal"),
    _secret("FIRECRAWL_API_KEY", "reads web pages", "firecrawl.dev, API Keys", "web_extract", "web_search"),
    _secret("PARALLEL_API_KEY", "searches the web", "platform.parallel.ai, API Keys", "web_search"),
    _secret("BROWSERBASE_API_KEY", "drives a remote browser", "browserbase.com, Settings", "browser"),
    _secret(
        "BROWSERBASE_PROJECT_ID",
        "names the project the remote browser runs in",
        "browserbase.com, Settings",
        "browser",
        masked=False,
    ),
    _secret(
        "HERMES_WEB_TOKEN",
        "opens the web page and its health checks for scripts, and from other machines",
        "make one up, for instance with `openssl rand -hex 32`",
        "the web page beyond this machine",
    ),
    _secret("FAL_KEY", "makes pictures at fal", "fal.ai/dashboard/keys", "image_generate"),
)


def find(name: str) -> Secret | None:
    """By its variable, its field or its dotted key, in any case."""
    wanted = name.strip().lower().removeprefix("secrets.")
    return next((secret for secret in SECRETS if secret.field == wanted), None)


def find_of_account(name: str) -> Secret | None:
    """The token of a further bot, such as TELEGRAM_BOT_TOKEN_WORK; it has no field in the settings."""
    wanted = name.strip().upper()
    for secret in SECRETS:
        account = wanted.removeprefix(f"{secret.env}_").lower() if wanted.startswith(f"{secret.env}_") else ""
        if secret.per_account and ACCOUNT_NAME.fullmatch(account):
            return replace(secret, env=secret.env_of(account), field="", per_account=False)
    return None


def mask(value: str) -> str:
    """Enough to tell two keys apart, never more than a quarter of one."""
    shown = min(SHOWN_CHARS, len(value) // 4)
    return "…" + (value[-shown:] if shown else "")
