"""Settings of the web page."""

from typing import ClassVar

from pydantic import Field

from hermes_config.platforms.base import PlatformConfig, PlatformSection
from hermes_config.types import Host, ProxyHosts


class WebSettings(PlatformSection):
    config: ClassVar = PlatformConfig(label="the web page", summary="a chat page in your browser")

    enabled: bool = Field(True, description="Serve the chat page and the health checks.")
    host: Host = Field(
        "127.0.0.1", description="The address to listen on; any other than loopback requires HERMES_WEB_TOKEN."
    )
    port: int = Field(8642, ge=0, le=65535, description="The port to listen on; 0 picks a free one.")
    allowed_hosts: ProxyHosts = Field(
        (), description="Host names under which a proxy serves the page, such as hermes.example.org."
    )
    max_file_bytes: int = Field(
        20_000_000, ge=1024, le=1_000_000_000, description="The largest file that can be uploaded."
    )
