"""Settings, tokens and ids of Telegram."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, SecretStr

from hermes_config.platforms.base import BotSettings, PlatformConfig, check_user_id
from hermes_config.secret_shapes import SecretShape
from hermes_config.types import Secret, Section, ServerAddress, SplitList, env_named

USER_ID = "[0-9]{1,32}"
FIND_USER_ID = "ask @userinfobot"
UserId = Annotated[str, AfterValidator(check_user_id("telegram", USER_ID, FIND_USER_ID))]


class TelegramSettings(BotSettings):
    config: ClassVar = PlatformConfig(
        label="Telegram",
        summary="a bot on Telegram",
        obtained_from="@BotFather",
        user_id=USER_ID,
        chat_id="-?[0-9]{1,32}",
        example_user_id="123456789",
        example_chat_id="-1001234567890",
        find_user_id=FIND_USER_ID,
        shapes=(
            SecretShape(
                pattern=re.compile(r"(?<![0-9])([0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-]))"),
                beginning=r"(?<![0-9])[0-9]{1,10}(?::[A-Za-z0-9_-]{0,35})?",
            ),
        ),
    )

    api_url: ServerAddress = Field(
        "https://api.telegram.org",
        min_length=1,
        max_length=2000,
        description="The root of the Bot API server.",
        json_schema_extra=env_named("TELEGRAM_API_URL"),
    )
    allowed_users: Annotated[tuple[UserId, ...], SplitList] = Field(
        (),
        description="Ids of the people who may talk to the bot on Telegram.",
        examples=["123456789"],
        json_schema_extra=env_named("TELEGRAM_ALLOWED_USERS"),
    )
    poll_seconds: int = Field(25, ge=1, le=50, description="How long one poll waits for updates.")
    sends_per_second: int = Field(30, ge=0, le=10_000, description="Messages per second to all chats; 0: no limit.")
    chat_sends_per_minute: int = Field(60, ge=0, le=60_000, description="Messages per minute to a person; 0: no limit.")
    group_sends_per_minute: int = Field(20, ge=0, le=10_000, description="Messages per minute to a group; 0: no limit.")


class TelegramSecrets(Section):
    telegram_bot_token: Annotated[
        SecretStr | None,
        Secret(
            purpose="signs the bot in to Telegram",
            where_to_get="/newbot in a chat with @BotFather",
            enables=("telegram",),
            per_account=True,
            form=re.compile(r"[0-9]+:[\w-]{10,}", re.ASCII),
            looks_like="a bot token of Telegram, such as 123456:AA… (digits, a colon, about 35 characters)",
        ),
    ] = None
