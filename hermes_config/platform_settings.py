"""The settings of each platform: their names, defaults, bounds and meaning."""

from pydantic import Field

from hermes_config.section import Section, env_named
from hermes_config.types import (
    AccountNames,
    DiscordUserIds,
    Host,
    ProxyHosts,
    ServerAddress,
    SlackUserIds,
    TelegramUserIds,
)


class SocketSettings(Section):
    enabled: bool = Field(False, description="Let local programs talk to the bot through hermes.sock.")
    max_line_bytes: int = Field(
        1_000_000, ge=1024, le=100_000_000, description="The longest line accepted on the socket."
    )


class WebSettings(Section):
    enabled: bool = Field(True, description="Serve the chat page and the health checks.")
    host: Host = Field(
        "127.0.0.1", description="The address the page listens on; beyond loopback HERMES_WEB_TOKEN must be set."
    )
    port: int = Field(8642, ge=0, le=65535, description="The port the page listens on; 0 takes any free one.")
    allowed_hosts: ProxyHosts = Field(
        (), description="Names by which browsers reach the page through a proxy, such as hermes.example.org."
    )
    max_file_bytes: int = Field(
        20_000_000, ge=1024, le=1_000_000_000, description="The largest file that can be uploaded."
    )


class TelegramSettings(Section):
    enabled: bool = Field(True, description="Talk through Telegram as soon as TELEGRAM_BOT_TOKEN is set.")
    api_url: ServerAddress = Field(
        "https://api.telegram.org",
        min_length=1,
        max_length=2000,
        description="The root of the Bot API server.",
        json_schema_extra=env_named("TELEGRAM_API_URL"),
    )
    allowed_users: TelegramUserIds = Field(
        (),
        description="Ids of the people who may talk to the bot on Telegram.",
        json_schema_extra=env_named("TELEGRAM_ALLOWED_USERS"),
    )
    accounts: AccountNames = Field(
        (), description="Names of further bots; the token of work is in TELEGRAM_BOT_TOKEN_WORK."
    )
    poll_seconds: int = Field(25, ge=1, le=50, description="How long one poll waits for something new.")
    sends_per_second: int = Field(30, ge=0, le=10_000, description="Messages sent in a second over all chats; 0: any.")
    chat_sends_per_minute: int = Field(
        60, ge=0, le=60_000, description="Messages sent to one person in a minute; 0: any."
    )
    group_sends_per_minute: int = Field(
        20, ge=0, le=10_000, description="Messages sent to one group in a minute; 0: any."
    )
    streaming: bool = Field(True, description="Let answers be seen growing.")


class DiscordSettings(Section):
    enabled: bool = Field(True, description="Talk through Discord as soon as DISCORD_BOT_TOKEN is set.")
    api_url: ServerAddress = Field(
        "https://discord.com/api/v10",
        min_length=1,
        max_length=2000,
        description="The root of Discord's REST interface.",
        json_schema_extra=env_named("DISCORD_API_URL"),
    )
    allowed_users: DiscordUserIds = Field(
        (),
        description="Ids of the people who may talk to the bot on Discord.",
        json_schema_extra=env_named("DISCORD_ALLOWED_USERS"),
    )
    accounts: AccountNames = Field(
        (), description="Names of further bots; the token of work is in DISCORD_BOT_TOKEN_WORK."
    )
    thread_per_conversation: bool = Field(
        False, description="Answer a mention in a channel in a thread of its own, opened below it."
    )
    streaming: bool = Field(True, description="Let answers be seen growing.")


class SlackSettings(Section):
    enabled: bool = Field(True, description="Talk through Slack as soon as its two tokens are set.")
    api_url: ServerAddress = Field(
        "https://slack.com/api/",
        min_length=1,
        max_length=2000,
        description="The root of Slack's Web API.",
        json_schema_extra=env_named("SLACK_API_URL"),
    )
    allowed_users: SlackUserIds = Field(
        (),
        description="Ids of the people who may talk to the bot on Slack.",
        json_schema_extra=env_named("SLACK_ALLOWED_USERS"),
    )
    accounts: AccountNames = Field(
        (),
        description="Names of further bots; the tokens of work are in SLACK_BOT_TOKEN_WORK and SLACK_APP_TOKEN_WORK.",
    )
    streaming: bool = Field(True, description="Let answers be seen growing.")


class PlatformsSettings(Section):
    socket: SocketSettings = Field(SocketSettings(), description="The local socket.")
    web: WebSettings = Field(WebSettings(), description="The page in the browser.")
    telegram: TelegramSettings = Field(TelegramSettings(), description="The bot on Telegram.")
    discord: DiscordSettings = Field(DiscordSettings(), description="The bot on Discord.")
    slack: SlackSettings = Field(SlackSettings(), description="The bot on Slack.")
