"""The configuration half of a platform: its settings and what the rest of the settings must know about it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from hermes_config.secret_shapes import SecretShape
from hermes_config.types import AccountNames, Secret, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformConfig:
    """Facts about a platform. One without ids is local: whoever can reach it is the owner."""

    label: str
    summary: str  # for the list of what is on and off
    obtained_from: str = ""  # where to get the tokens
    user_id: str = ""  # patterns
    chat_id: str = ""
    example_user_id: str = ""
    example_chat_id: str = ""
    find_user_id: str = ""
    tokens: tuple[Secret, ...] = ()  # each bot on the platform signs in with all of them
    signs_webhooks: bool = False  # in a way of its own, which others have taken over
    shapes: tuple[SecretShape, ...] = ()  # of its tokens and webhooks, wherever they turn up in text

    @property
    def is_local(self) -> bool:
        return not self.user_id


class PlatformSection(Section):
    """The settings of one platform."""

    config: ClassVar[PlatformConfig]


class BotSettings(PlatformSection):
    """The settings of a platform on which bots sign in with tokens."""

    enabled: bool = setting(True, "Connect as soon as the tokens of a bot are set.")
    accounts: AccountNames = setting(
        (), "Names of additional bots; the tokens of `work` are in the variables that end in _WORK.", example="work"
    )
    streaming: bool = setting(True, "Show answers while they are being written.")


def check_user_id(platform: str, pattern: str, how_to_find: str) -> Callable[[str], str]:
    """Return a validator for user ids of one platform, with or without its name in front."""
    qualified = re.compile(rf"(?:{platform}(?:@[a-z0-9_]+)?:)?(?:{pattern})")

    def check(entry: str) -> str:
        prefix, _, user_id = entry.rpartition(":")
        if prefix.partition("@")[0] not in ("", platform):
            raise ValueError(
                f"{entry[:60]!r} is an id of another platform; this list is for {platform}, so write "
                f"{platform}:{user_id[:60]} if you mean that, or put {entry[:60]} into access.allowed_users"
            )
        if not qualified.fullmatch(entry):
            raise ValueError(f"{entry[:60]!r} is not a user id; to find it, {how_to_find}")
        return entry

    return check
