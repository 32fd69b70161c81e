"""Discord as the gateway knows it before discord.py is loaded."""

from typing import Protocol

from gateway.platforms.base import Platform
from gateway.platforms.spec import AccountSetup, PlatformSpec, TokenCheck


class DiscordOptions(Protocol):
    """The settings of Discord that the adapter reads."""

    @property
    def api_url(self) -> str: ...
    @property
    def thread_per_conversation(self) -> bool: ...


def build(options: DiscordOptions, setup: AccountSetup) -> Platform:
    from gateway.platforms.discord.platform import DiscordPlatform

    return DiscordPlatform(
        *setup.tokens,
        account=setup.account,
        api_url=options.api_url,
        commands=setup.commands,
        thread_per_conversation=options.thread_per_conversation,
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
