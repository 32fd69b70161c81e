"""What is on and what is off, and the commands that change it: the first thing a gateway prints."""

from dataclasses import dataclass

from hermes_config.accounts import bots
from hermes_config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of what is on and what is off."""

    name: str
    on: bool
    text: str
    switch: str  # the command that turns it on or changes it


def parts(settings: Settings, *, command: str = "hermes") -> list[Part]:
    name = settings.model.name
    socket, web = settings.platforms.socket.enabled, settings.platforms.web.enabled
    return [
        Part(
            name="model",
            on=True,
            text="demo: offline and rule-based, to try things out" if name == "demo" else name,
            switch=f"{command} config set model.name …",
        ),
        Part(
            name="socket",
            on=socket,
            text="local scripts, JSON lines over hermes.sock" if socket else "for local scripts",
            switch=f"{command} config set platforms.socket.enabled {str(not socket).lower()}",
        ),
        _bots_part(settings, "telegram", "Telegram; its token comes from @BotFather", command),
        _bots_part(settings, "discord", "Discord; its token comes from discord.com/developers", command),
        _bots_part(settings, "slack", "Slack; its two tokens come from api.slack.com/apps", command),
        Part(
            name="web",
            on=web,
            text="a chat page in your browser",
            switch=f"{command} config set platforms.web.enabled {str(not web).lower()}",
        ),
    ]


def _bots_part(settings: Settings, platform: str, title: str, command: str) -> Part:
    accounts = bots(settings, platform)
    named = f"a bot on {title.partition(';')[0]}: {', '.join(accounts)}"
    return Part(
        name=platform,
        on=bool(accounts),
        text=named if accounts else f"a bot on {title}",
        switch=f"{command} config set {platform.upper()}_BOT_TOKEN",
    )
