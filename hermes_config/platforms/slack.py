"""Settings, tokens and ids of Slack."""

import re
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from hermes_config.platforms.base import BotSettings, PlatformConfig, check_user_id
from hermes_config.secret_shapes import SecretShape, is_varied_with_digit
from hermes_config.types import Secret, ServerAddress, SplitList, setting

USER_ID = "[UW](?=[A-Z]*[0-9])[A-Z0-9]{2,32}"
FIND_USER_ID = "open the profile, then Copy member ID"
UserId = Annotated[str, AfterValidator(check_user_id("slack", USER_ID, FIND_USER_ID))]


class SlackSettings(BotSettings):
    config: ClassVar = PlatformConfig(
        label="Slack",
        summary="a bot on Slack",
        obtained_from="api.slack.com/apps",
        user_id=USER_ID,
        chat_id="[CGD](?=[A-Z]*[0-9])[A-Z0-9]{2,32}",
        example_user_id="U012AB3CD",
        example_chat_id="C012AB3CD",
        find_user_id=FIND_USER_ID,
        signs_webhooks=True,
        tokens=(
            Secret(
                env="SLACK_BOT_TOKEN",
                purpose="lets the bot read and write in Slack",
                where_to_get="api.slack.com/apps, OAuth (xoxb-…)",
                form=re.compile(r"(?:xoxe\.)?xoxb-[A-Za-z0-9-]+"),
                looks_like="a bot token of Slack, which begins with xoxb-",
            ),
            Secret(
                env="SLACK_APP_TOKEN",
                purpose="opens Slack's Socket Mode",
                where_to_get="api.slack.com/apps, Basic Information (xapp-…)",
                form=re.compile(r"xapp-[A-Za-z0-9-]+"),
                looks_like="an app-level token of Slack, which begins with xapp-",
            ),
        ),
        shapes=(
            SecretShape(
                openings=("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
                pattern=re.compile(r"(?<![A-Za-z0-9])((?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}+)"),
                is_real=is_varied_with_digit,
            ),
            SecretShape(
                openings=("hooks.slack.com/",),
                pattern=re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{20,}+)"),
                is_real=is_varied_with_digit,
            ),
        ),
    )

    api_url: ServerAddress = setting(
        "https://slack.com/api/", "The root of Slack's Web API.", min_length=1, max_length=2000, env="SLACK_API_URL"
    )
    allowed_users: Annotated[tuple[UserId, ...], SplitList] = setting(
        (), "Ids of the people who may talk to the bot on Slack.", example="U012AB3CD", env="SLACK_ALLOWED_USERS"
    )
