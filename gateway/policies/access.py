"""Decide who may talk to the bot, from the sender, the chat, the rules and the store's records. Pure.

The same check applies to messages, edits, reactions, buttons, commands, forwarded posts and other bots.
"""

from dataclasses import dataclass, fields
from typing import Literal

from gateway.messages import InboundMessage

Role = Literal["owner", "member", "guest"]
Verdict = Literal["serve", "pair", "ignore"]


@dataclass(slots=True, kw_only=True)
class Rules:
    """The settings about access. Users are immutable ids of a platform, alone or after its name (`123`,
    `telegram:123`); chats always have the name before them."""

    owner_users: frozenset[str] = frozenset()
    allowed_users: frozenset[str] = frozenset()
    allowed_chats: frozenset[str] = frozenset()
    allow_all_users: bool = False
    pair_strangers: bool = True

    def take(self, new: "Rules") -> None:
        """Become the same as others: everybody who decides by these decides by the new ones from now on."""
        for one in fields(self):
            setattr(self, one.name, getattr(new, one.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderStatus:
    """The store's records of a sender and of the chat they write in."""

    paired_as: Role | None = None
    revoked: bool = False
    chat_allowed: bool = False  # an owner sent /allow here


UNKNOWN = SenderStatus()
_BY_RIGHTS: tuple[Role, ...] = ("guest", "member", "owner")  # from the least rights to the most


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    verdict: Verdict
    reason: str
    role: Role | None = None  # None when not served


def lesser(one: Role, other: Role) -> Role:
    """Return the role with fewer rights."""
    return min(one, other, key=_BY_RIGHTS.index)


def decide(message: InboundMessage, rules: Rules, standing: SenderStatus = UNKNOWN, *, local: bool = False) -> Decision:
    """Decide whether to serve a sender. The default is no."""
    sender = _names(message)
    if local:
        return _serve("owner", "came through a channel that only the owner can use")
    if sender & rules.owner_users:
        return _serve("owner", "listed in access.owner_users")
    if standing.revoked:
        return _ignore("revoked; `hermes pairing invite` lets them in again")
    if standing.paired_as == "owner":
        return _serve("owner", "paired as an owner")
    if sender & rules.allowed_users:
        return _serve("member", "on an allowlist")
    if message.sender.is_bot:
        return _ignore("a bot that is on no allowlist")  # two bots could talk to each other for ever
    if message.key.kind == "dm":
        return _decide_dm(message, rules, standing)
    if standing.chat_allowed or message.key.place_names & rules.allowed_chats:
        return _serve(standing.paired_as or "guest", "in an allowed chat")
    return _ignore("not an allowed chat, and the sender is on no allowlist")


def _decide_dm(message: InboundMessage, rules: Rules, standing: SenderStatus) -> Decision:
    if standing.paired_as is not None:
        return _serve(standing.paired_as, "paired")
    if rules.allow_all_users:
        return _serve("guest", "access.allow_all_users is on")
    if rules.pair_strangers and message.kind in ("message", "command"):
        return Decision(verdict="pair", reason="not paired yet")
    return _ignore("not on an allowlist and not paired")


def _serve(role: Role, reason: str) -> Decision:
    return Decision(verdict="serve", role=role, reason=reason)


def _ignore(reason: str) -> Decision:
    return Decision(verdict="ignore", reason=reason)


def _names(message: InboundMessage) -> frozenset[str]:
    """Return the names of a sender in the rules: the id for any platform, for this one, and for this account."""
    id_ = message.sender.id
    return frozenset((id_, f"{message.key.platform}:{id_}", f"{message.key.account_name}:{id_}"))
