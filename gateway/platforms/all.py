"""The platforms by their specs, each in the package or module that the settings name."""

from importlib import import_module

from gateway.platforms.api import API
from gateway.platforms.spec import PlatformSpec
from hermes_config.platforms import NAMES

PLATFORMS: tuple[PlatformSpec, ...] = tuple(
    getattr(import_module(f"gateway.platforms.{name}"), name.upper()) for name in NAMES
)


def find_spec(account: str) -> PlatformSpec:
    """Return the spec of an account such as `telegram@work`. Raises StopIteration for an unknown platform."""
    return next(spec for spec in (*PLATFORMS, API) if spec.name == account.partition("@")[0])
