"""Settings of the local socket."""

from typing import ClassVar

from pydantic import Field

from hermes_config.platforms.base import PlatformConfig, PlatformSection


class SocketSettings(PlatformSection):
    config: ClassVar = PlatformConfig(label="the local socket", summary="local scripts, JSON lines over hermes.sock")

    enabled: bool = Field(False, description="Let local programs talk to the bot through hermes.sock.")
    max_line_bytes: int = Field(
        1_000_000, ge=1024, le=100_000_000, description="The longest line accepted on the socket."
    )
