"""Settings, tokens and ids of Telegram."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from hermes_config.platforms.base import BotSettings, PlatformConfig, check_user_id
from hermes_config.secret_shapes import SecretShape
from hermes_config.types import Secret, ServerAddress, SplitList, setting

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
        tokens=(
            Secret(
                env="TELEGRAM_BOT_TOKEN",
                purpose="signs the bot in to Telegram",
                where_to_get="/newbot in a chat with @BotFather",
                form=re.compile(r"[0-9]+:[\w-]{10,}", re.ASCII),
                looks_like="a bot token of Telegram, such as 123456:AA… (digits, a colon, about 35 characters)",
            ),
        ),
        shapes=(
            SecretShape(
                pattern=re.compile(r"(?<![0-9])([0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-]))"),
                beginning=r"(?<![0-9])[0-9]{1,10}(?::[A-Za-z0-9_-]{0,35})?",
            ),
        ),
    )

    api_url: ServerAddress = setting(
        "https://api.telegram.org",
        "The root of the Bot API server.",
        min_length=1,
        max_length=2000,
        env="TELEGRAM_API_URL",
    )
    allowed_users: Annotated[tuple[UserId, ...], SplitList] = setting(
        (), "Ids of the people who may talk to the bot on Telegram.", example="123456789", env="TELEGRAM_ALLOWED_USERS"
    )
    poll_seconds: int = setting(25, "How long one poll waits for updates.", ge=1, le=50)
    sends_per_second: int = setting(30, "Messages per second to all chats; 0: no limit.", ge=0, le=10_000)
    chat_sends_per_minute: int = setting(60, "Messages per minute to a person; 0: no limit.", ge=0, le=60_000)
    group_sends_per_minute: int = setting(20, "Messages per minute to a group; 0: no limit.", ge=0, le=10_000)
