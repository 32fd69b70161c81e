"""Discord as the gateway knows it before discord.py is loaded."""

from gateway.platforms.base import Platform
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck

# View channels, send messages, attach files, read the history, send in threads, create public threads.
_PERMISSIONS = 1 << 10 | 1 << 11 | 1 << 15 | 1 << 16 | 1 << 38 | 1 << 35


def build(setup: AccountSetup, *, api_url: str, thread_per_conversation: bool, **_: object) -> Platform:
    from gateway.platforms.discord.platform import DiscordPlatform

    return DiscordPlatform(
        setup,
        api_url=api_url,
        thread_per_conversation=thread_per_conversation,
        # Less than Discord allows (5 and 50): after the last allowed one discord.py waits before it returns, and a
        # late receipt is one more chance to be in doubt.
        rate_limits=RateLimits(per_chat=Rate(count=4, seconds=5), overall=Rate(count=45, seconds=1)),
    )


DISCORD = PlatformSpec(
    name="discord",
    hint=(
        "You are talking in a Discord chat. Markdown is rendered: bold, italics, code, links, lists, quotes and "
        "headings; tables are shown as monospace text, so keep them narrow. Keep answers short."
    ),
    build=build,
    sdk="discord",
    token_checks=(
        TokenCheck(
            path="/users/@me",
            authorization="Bot {token}",
            method="GET",
            bot_name=("username",),
            next_step=(
                "bring the bot into your server: https://discord.com/oauth2/authorize?client_id={id}"
                f"&scope=bot%20applications.commands&permissions={_PERMISSIONS}"
            ),
        ),
    ),
)
