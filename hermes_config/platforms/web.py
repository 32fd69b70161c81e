"""Settings of the web page."""

from typing import ClassVar

from hermes_config.platforms.base import PlatformConfig, PlatformSection
from hermes_config.types import Host, ProxyHosts, setting


class WebSettings(PlatformSection):
    config: ClassVar = PlatformConfig(label="the web page", summary="a chat page in your browser")

    enabled: bool = setting(True, "Serve the chat page and the health checks.")
    host: Host = setting("127.0.0.1", "The address to listen on; any other than loopback requires HERMES_WEB_TOKEN.")
    port: int = setting(8642, "The port to listen on; 0 picks a free one.", ge=0, le=65535)
    allowed_hosts: ProxyHosts = setting((), "Host names of a proxy before the page.", example="hermes.example.org")
    max_file_bytes: int = setting(20_000_000, "The largest file that can be uploaded.", ge=1024, le=1_000_000_000)
