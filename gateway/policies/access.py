"""Who may speak to us. Pure: decided on who acts, where, and what the rules and the store know of them.

The same gate for everything: a message, an edit, a reaction, a button, a command, a forwarded post, another bot.
"""

from dataclasses import dataclass
from typing import Literal

from gateway.messages import InboundMessage

Role = Literal["owner", "member", "guest"]
Verdict = Literal["serve", "pair", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Users are the platform's immutable ids, alone or behind the platform's name (`123`, `telegram:123`);
    chats have the name before them always."""

    owner_users: frozenset[str] = frozenset()
    allowed_users: frozenset[str] = frozenset()
    allowed_chats: frozenset[str] = frozenset()
    allow_all_users: bool = False
    pair_strangers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderStatus:
    """What the store knows of a sender and of the chat they speak in."""

    paired_as: Role | None = None
    revoked: bool = False
    chat_allowed: bool = False  # by an owner's /allow here


UNKNOWN = SenderStatus()
_RISING: tuple[Role, ...] = ("guest", "member", "owner")  # by what they may do


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    verdict: Verdict
    reason: str
    role: Role | None = None  # of who is served


def lesser(one: Role, other: Role) -> Role:
    """What both of them may do."""
    return min(one, other, key=_RISING.index)


def decide(message: InboundMessage, rules: Rules, standing: SenderStatus = UNKNOWN, *, local: bool = False) -> Decision:
    """The default is no."""
    sender = _names(message)
    if local:
        return _serve("owner", "reached us in a way that only the owner has")
    if sender & rules.owner_users:
        return _serve("owner", "listed in access.owner_users")
    if standing.revoked:
        return _ignore("revoked; `hermes pairing invite` lets them in again")
    if standing.paired_as == "owner":
        return _serve("owner", "paired as an owner")
    if sender & rules.allowed_users:
        return _serve("member", "on an allowlist")
    if message.sender.is_bot:
        return _ignore("a bot that is on no allowlist")  # two bots would talk to each other for ever
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
    """An id alone counts on every platform, behind a name on that platform, behind an account's for that bot."""
    id_ = message.sender.id
    return frozenset((id_, f"{message.key.platform}:{id_}", f"{message.key.account_name}:{id_}"))
