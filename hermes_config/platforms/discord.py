"""Settings, tokens and ids of Discord."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from hermes_config.platforms.base import BotSettings, PlatformConfig, check_user_id
from hermes_config.secret_shapes import SecretShape, is_varied
from hermes_config.types import Secret, ServerAddress, SplitList, setting

USER_ID = "[0-9]{1,32}"
FIND_USER_ID = "turn on Developer Mode, then Copy User ID"
UserId = Annotated[str, AfterValidator(check_user_id("discord", USER_ID, FIND_USER_ID))]


class DiscordSettings(BotSettings):
    config: ClassVar = PlatformConfig(
        label="Discord",
        summary="a bot on Discord",
        obtained_from="discord.com/developers",
        user_id=USER_ID,
        chat_id="[0-9]{1,32}",
        example_user_id="123456789012345678",
        example_chat_id="123456789012345678",
        find_user_id=FIND_USER_ID,
        tokens=(
            Secret(
                env="DISCORD_BOT_TOKEN",
                purpose="signs the bot in to Discord",
                where_to_get="discord.com/developers, Bot, Reset Token",
                form=re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII),
                looks_like="a bot token of Discord, which has three parts with dots between them",
            ),
        ),
        shapes=(
            SecretShape(
                pattern=re.compile(
                    r"(?<![A-Za-z0-9_.-])([MNO](?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{23,27}"
                    r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}+)"
                ),
                beginning=r"(?<![A-Za-z0-9_.-])[MNO][A-Za-z0-9_-]{5,27}(?:\.[A-Za-z0-9_-]*+){0,2}",
            ),
            SecretShape(
                openings=("/api/webhooks/",),
                pattern=re.compile(r"/api/webhooks/[0-9]{10,24}/([A-Za-z0-9_-]{40,}+)"),
                is_real=is_varied,
            ),
        ),
    )

    api_url: ServerAddress = setting(
        "https://discord.com/api/v10",
        "The root of Discord's REST API.",
        min_length=1,
        max_length=2000,
        env="DISCORD_API_URL",
    )
    allowed_users: Annotated[tuple[UserId, ...], SplitList] = setting(
        (),
        "Ids of the people who may talk to the bot on Discord.",
        example="123456789012345678",
        env="DISCORD_ALLOWED_USERS",
    )
    thread_per_conversation: bool = setting(False, "Answer a mention in a channel in a new thread.")
