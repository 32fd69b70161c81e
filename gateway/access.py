"""Who may speak to us. Pure: decided from the message and the rules alone, on who acts."""

from dataclasses import dataclass
from typing import Literal

from gateway.messages import InboundMessage

Role = Literal["owner", "member"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Users are the platform's immutable ids, alone or behind the platform's name: `123`, `telegram:123`."""

    owner_users: frozenset[str] = frozenset()
    allowed_users: frozenset[str] = frozenset()
    allow_all_users: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    role: Role | None  # None: not let in
    reason: str


def decide(message: InboundMessage, rules: Rules, *, local: bool) -> Decision:
    """The default is no."""
    names = {message.sender.id, f"{message.key.platform}:{message.sender.id}"}
    if local:
        return Decision(role="owner", reason="reached us in a way that only the owner has")
    if names & rules.owner_users:
        return Decision(role="owner", reason="listed in access.owner_users")
    if names & rules.allowed_users:
        return Decision(role="member", reason="listed in access.allowed_users")
    if rules.allow_all_users and message.key.kind == "dm":
        return Decision(role="member", reason="access.allow_all_users is on")
    return Decision(role=None, reason="not on an allowlist")
