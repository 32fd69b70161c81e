"""Discord as the gateway knows it before discord.py is loaded."""

from gateway.platforms.base import Platform
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck


def build(setup: AccountSetup, *, api_url: str, thread_per_conversation: bool, **_: object) -> Platform:
    from gateway.platforms.discord.platform import DiscordPlatform

    return DiscordPlatform(
        *setup.tokens,
        account=setup.account,
        api_url=api_url,
        commands=setup.commands,
        thread_per_conversation=thread_per_conversation,
        load=setup.load,
    )


DISCORD = PlatformSpec(
    name="discord",
    hint=(
        "You are talking in a Discord chat. Markdown is rendered: bold, italics, code, links, lists, quotes and "
        "headings; tables are shown as monospace text, so keep them narrow. Keep answers short."
    ),
    build=build,
    sdk="discord",
    token_checks=(TokenCheck(path="/users/@me", authorization="Bot {token}", method="GET", bot_name=("username",)),),
)
