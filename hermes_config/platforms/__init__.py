"""The list of platforms: sections, tokens and facts of each come from its file."""

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from pydantic import SecretStr, create_model

from hermes_config.platforms.base import PlatformConfig, PlatformSection
from hermes_config.platforms.web import WebSettings
from hermes_config.types import Section, secret

# To add a platform, write its file here and its package in `gateway/platforms`, and name both in this list.
NAMES = (
    "socket",
    "telegram",
    "discord",
    "slack",
    "web",
)

_SECTIONS: dict[str, type[PlatformSection]] = {
    name: getattr(import_module(f"{__name__}.{name}"), f"{name.title()}Settings") for name in NAMES
}
PLATFORMS: dict[str, PlatformConfig] = {name: section.config for name, section in _SECTIONS.items()}

if TYPE_CHECKING:

    class PlatformsSettings(Section):
        """A section for each platform; only this one is named in code."""

        web: WebSettings = WebSettings()

    class PlatformSecrets(Section):
        """The tokens of the platforms' default bots."""

else:
    PlatformsSettings = create_model(
        "PlatformsSettings", __base__=Section, **{name: (section, section()) for name, section in _SECTIONS.items()}
    )
    PlatformSecrets = create_model(
        "PlatformSecrets",
        __base__=Section,
        **{
            token.env.lower(): (SecretStr | None, secret(replace(token, enables=(name,), per_account=True)))
            for name, config in PLATFORMS.items()
            for token in config.tokens
        },
    )
