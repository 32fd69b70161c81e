"""The list of platforms."""

from gateway.platforms.discord.spec import DISCORD
from gateway.platforms.slack.spec import SLACK
from gateway.platforms.socket import SOCKET
from gateway.platforms.spec import PlatformSpec
from gateway.platforms.telegram.spec import TELEGRAM
from gateway.platforms.web import WEB

PLATFORMS: tuple[PlatformSpec, ...] = (
    SOCKET,
    WEB,
    TELEGRAM,
    DISCORD,
    SLACK,
)


def find_spec(account: str) -> PlatformSpec:
    """Return the spec of an account such as `telegram@work`. Raises StopIteration for an unknown platform."""
    return next(spec for spec in PLATFORMS if spec.name == account.partition("@")[0])
