"""Settings of the local socket."""

from typing import ClassVar

from hermes_config.platforms.base import PlatformConfig, PlatformSection
from hermes_config.types import setting


class SocketSettings(PlatformSection):
    config: ClassVar = PlatformConfig(label="the local socket", summary="local scripts, JSON lines over hermes.sock")

    enabled: bool = setting(False, "Let local programs talk to the bot through hermes.sock.")
    max_line_bytes: int = setting(1_000_000, "The longest line accepted on the socket.", ge=1024, le=100_000_000)
