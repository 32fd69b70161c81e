"""What the three platforms share: not connected, nothing can be done; a wrong token is told before anything else."""

import pytest

from gateway.errors import PlatformAuthFailed, PlatformUnavailable
from gateway.messages import Address, OutboundMessage, Text
from gateway.platforms.base import KnownMessages, Platform, Reacts, ShowsDrafts, ShowsTyping
from gateway.platforms.discord.platform import DiscordPlatform
from gateway.platforms.slack.platform import SlackPlatform
from gateway.platforms.telegram.platform import TelegramPlatform
from tests.gateway.platforms.gate import Gate, build

TS = "1700000000.000100"
EACH = pytest.mark.parametrize(
    ("platform", "address"),
    [
        (build("telegram", "42:token"), Address(account="telegram", chat="-5", reply_to="3")),
        (build("discord", "token"), Address(account="discord", chat="5", reply_to="3")),
        (build("slack", "xoxb-1", "xapp-1"), Address(account="slack", chat="C1", thread=TS, reply_to=TS)),
    ],
    ids=["telegram", "discord", "slack"],
)


@EACH
async def test_not_connected_nothing_can_be_done(
    platform: TelegramPlatform | DiscordPlatform | SlackPlatform, address: Address
) -> None:
    message = OutboundMessage(key="k", address=address, parts=(Text(text="…"),))
    known = KnownMessages(ids=frozenset({"9"}), is_all=True)
    for call in (
        platform.send(message),
        platform.show_draft(message),
        platform.find_draft(message, known),
        platform.delete(address, "4"),
        platform.react(address, "seen"),
        platform.show_typing(address),
    ):
        with pytest.raises(PlatformUnavailable, match="not connected"):
            await call


@EACH
def test_each_can_show_drafts_react_and_type(platform: Platform, address: Address) -> None:
    assert isinstance(platform, ShowsDrafts)
    assert isinstance(platform, Reacts)
    assert isinstance(platform, ShowsTyping)


@pytest.mark.parametrize("token", ["", "not a token"])
async def test_a_token_that_cannot_be_right_is_told_with_its_variable(token: str) -> None:
    for platform, variable in (
        (build("telegram@work", token), "TELEGRAM_BOT_TOKEN_WORK"),
        (build("discord", token), "DISCORD_BOT_TOKEN"),
        (build("slack", token, "xapp-1"), "SLACK_BOT_TOKEN"),
        (build("slack", "xoxb-1", token), "SLACK_APP_TOKEN"),
    ):
        with pytest.raises(PlatformAuthFailed, match=f"{variable} is not (set|an? (bot|app) token)"):
            await platform.run(Gate().inlet())
