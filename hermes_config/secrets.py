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
    unused: bool = False  # known so that it is hidden wherever it turns up; nothing in this version needs it
    form: re.Pattern[str] | None = None
    looks_like: str = ""

    def env_of(self, account: str) -> str:
        return f"{self.env}_{account.upper()}"

    def describe_mistake(self, value: str) -> str:
        """Say what a value of the wrong form should look like, without quoting it; empty if the form is right."""
        if self.form is None or self.form.fullmatch(value):
            return ""
        return f"{self.env} does not look like {self.looks_like}. Get it: {self.where_to_get}."


def _secret(env: str, purpose: str, where_to_get: str, *enables: str) -> Secret:
    return Secret(env=env, field=env.lower(), purpose=purpose, where_to_get=where_to_get, enables=enables)


def _token(platform: str, env: str, purpose: str, where_to_get: str, form: str, looks_like: str) -> Secret:
    plain = _secret(env, purpose, where_to_get, platform)
    return replace(plain, per_account=True, form=re.compile(form, re.ASCII), looks_like=looks_like)


def _unused(env: str, purpose: str, where_to_get: str, *enables: str) -> Secret:
    return replace(_secret(env, purpose, where_to_get, *enables), unused=True)


SECRETS: tuple[Secret, ...] = (
    _token(
        "telegram",
        "TELEGRAM_BOT_TOKEN",
        "signs the bot in to Telegram",
        "/newbot in a chat with @BotFather",
        r"[0-9]+:[\w-]{10,}",
        "a bot token of Telegram, such as 123456:AA… (digits, a colon, about 35 characters)",
    ),
    _token(
        "discord",
        "DISCORD_BOT_TOKEN",
        "signs the bot in to Discord",
        "discord.com/developers, Bot, Reset Token",
        r"[\w-]+\.[\w-]+\.[\w-]+",
        "a bot token of Discord, which has three parts with dots between them",
    ),
    _token(
        "slack",
        "SLACK_BOT_TOKEN",
        "lets the bot read and write in Slack",
        "api.slack.com/apps, OAuth (xoxb-…)",
        r"(?:xoxe\.)?xoxb-[A-Za-z0-9-]+",
        "a bot token of Slack, which begins with xoxb-",
    ),
    _token(
        "slack",
        "SLACK_APP_TOKEN",
        "opens Slack's Socket Mode",
        "api.slack.com/apps, Basic Information (xapp-…)",
        r"xapp-[A-Za-z0-9-]+",
        "an app-level token of Slack, which begins with xapp-",
    ),
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
    _unused("FIRECRAWL_API_KEY", "reads web pages", "firecrawl.dev, API Keys", "web_extract", "web_search"),
    _unused("PARALLEL_API_KEY", "searches the web", "platform.parallel.ai, API Keys", "web_search"),
    _unused("BROWSERBASE_API_KEY", "drives a remote browser", "browserbase.com, Settings", "browser"),
    replace(
        _unused(
            "BROWSERBASE_PROJECT_ID",
            "names the project the remote browser runs in",
            "browserbase.com, Settings",
            "browser",
        ),
        masked=False,
    ),
    _secret(
        "HERMES_WEB_TOKEN",
        "opens the web page and its health checks for scripts, and from other machines",
        "make one up, for instance with `openssl rand -hex 32`",
        "the web page beyond this machine",
    ),
    _unused("FAL_KEY", "makes pictures at fal", "fal.ai/dashboard/keys", "image_generate"),
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
