"""A platform before it is built: its name, how to build it, how to check its tokens, and the SDK it needs.

Importing a spec loads no SDK. To add a platform, write its package, which exports its spec under its name in capitals,
describe its settings in a file of `hermes_config/platforms`, and name it in the list there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.platforms.base import MenuCommand, Platform
from gateway.platforms.outgoing import Load


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSetup:
    """Everything besides its settings that a platform is built with."""

    account: str
    socket_path: Path  # for local programs
    tokens: Sequence[str] = field(default=(), repr=False)  # in the order of the spec's `token_checks`
    commands: Sequence[MenuCommand] = ()  # for the menu, and to recognise ours among what people write
    load: Load | None = None  # returns the bytes of a file to send


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCheck:
    """The request that tells whether a token is valid. `{token}` stands for the token."""

    path: str  # below the platform's API address
    authorization: str = ""
    method: str = "POST"
    label: str = ""  # tells two tokens of one account apart
    bot_name: tuple[str, ...] = ()  # the keys that lead to the bot's name in the answer
    next_step: str = ""  # a link for who set the token, with keys of the answer in braces

    def find_bot_name(self, answer: Mapping[str, Any]) -> str:
        """Return the name of the bot; empty when the answer does not give it."""
        found: object = answer if self.bot_name else ""
        for key in self.bot_name:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else ""

    def find_next_step(self, answer: Mapping[str, Any]) -> str:
        """Return what to do next and where; empty when the answer lacks what the link needs."""
        try:
            return self.next_step.format_map(answer)
        except (KeyError, TypeError):
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSpec:
    """A kind of platform."""

    name: str  # also of its section in the settings
    hint: str  # for the system prompt: where the agent is speaking, and what is displayed there
    build: Callable[..., Platform]  # of an AccountSetup, and the settings of its section by name
    sdk: str = ""  # the module that must be installed
    invites_by_link: bool = False  # a link can carry the code
    token_checks: tuple[TokenCheck, ...] = ()  # one for each token; empty where none is needed
