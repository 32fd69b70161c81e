"""The list of platforms. To add one, write its file and enter it here."""

from hermes_config.platforms.base import PlatformConfig
from hermes_config.platforms.discord import DiscordSecrets, DiscordSettings
from hermes_config.platforms.slack import SlackSecrets, SlackSettings
from hermes_config.platforms.socket import SocketSettings
from hermes_config.platforms.telegram import TelegramSecrets, TelegramSettings
from hermes_config.platforms.web import WebSettings
from hermes_config.types import Section


class PlatformsSettings(Section):
    socket: SocketSettings = SocketSettings()
    telegram: TelegramSettings = TelegramSettings()
    discord: DiscordSettings = DiscordSettings()
    slack: SlackSettings = SlackSettings()
    web: WebSettings = WebSettings()


class PlatformSecrets(SlackSecrets, DiscordSecrets, TelegramSecrets):
    """The tokens of the platforms' default bots."""


PLATFORMS: dict[str, PlatformConfig] = {name: section.config for name, section in PlatformsSettings()}
