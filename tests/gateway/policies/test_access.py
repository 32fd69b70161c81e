"""Who may speak to us: every kind of event, by everybody, everywhere."""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from gateway.messages import InboundMessage, Kind, Quote, Sender, SessionKey, Text
from gateway.policies.access import UNKNOWN, Decision, Role, Rules, SenderStatus, decide, lesser

EVERYBODY = Rules(allow_all_users=True)
ID = "123"
GROUP = "-100"


def message(
    sender: str = ID, *, kind: str = "dm", chat: str = "1", platform: str = "telegram", account: str = ""
) -> InboundMessage:
    return InboundMessage(
        key=SessionKey(platform=platform, account=account, kind=kind, chat=chat),
        message_id="1",
        sender=Sender(id=sender, name="123"),
        parts=(Text(text="hello"),),
        sent_ms=0,
    )


@pytest.mark.parametrize(
    ("said", "rules", "role"),
    [
        (message("123"), Rules(), None),
        (message("123", kind="group"), Rules(), None),
        (message("123"), Rules(allowed_users=frozenset({"123"})), "member"),
        (message("123"), Rules(allowed_users=frozenset({"telegram:123"})), "member"),
        (message("123", account="work"), Rules(allowed_users=frozenset({"telegram:123"})), "member"),
        (message("123", account="work"), Rules(allowed_users=frozenset({"telegram@work:123"})), "member"),
        (message("123"), Rules(allowed_users=frozenset({"telegram@work:123"})), None),
        (message("123", kind="group"), Rules(allowed_users=frozenset({"123"})), "member"),
        (message("123"), Rules(allowed_users=frozenset({"discord:123", "1234", "12"})), None),
        (message("123"), Rules(owner_users=frozenset({"123"})), "owner"),
        (message("123"), Rules(owner_users=frozenset({"telegram:123"})), "owner"),
        (message("123"), Rules(owner_users=frozenset({"slack:123"})), None),
        (message("123"), Rules(owner_users=frozenset({"123"}), allowed_users=frozenset({"123"})), "owner"),
        (message("123"), EVERYBODY, "guest"),
        (message("123", kind="group"), EVERYBODY, None),
        (message("123", kind="channel"), EVERYBODY, None),
        (message("123", kind=""), EVERYBODY, None),
        (message("telegram:123"), Rules(allowed_users=frozenset({"123"})), None),
        (message("123", kind="group", chat="-5"), Rules(allowed_chats=frozenset({"telegram:-5"})), "guest"),
        (message("123", kind="group", chat="-5"), Rules(allowed_chats=frozenset({"telegram:-50", "slack:-5"})), None),
        (message("123", kind="dm", chat="5"), Rules(allowed_chats=frozenset({"telegram:5"})), None),
        (message("-5", kind="group", chat="-7"), Rules(allowed_chats=frozenset({"telegram:-5"})), None),
    ],
)
def test_only_those_who_are_listed_get_in(said: InboundMessage, rules: Rules, role: Role | None) -> None:
    assert decide(said, rules).role == role


def test_a_name_that_looks_like_an_id_opens_nothing() -> None:
    assert decide(message("999"), Rules(allowed_users=frozenset({"123"}))).role is None


def test_whoever_reaches_a_local_platform_is_the_owner() -> None:
    assert decide(message("anybody"), Rules(), local=True).role == "owner"


# Who acts: the rules that name them, and what the store knows of them.
WHO: dict[str, tuple[Rules, SenderStatus]] = {
    "owner": (Rules(owner_users=frozenset({ID})), UNKNOWN),
    "paired owner": (Rules(), SenderStatus(paired_as="owner")),
    "allowed": (Rules(allowed_users=frozenset({ID})), UNKNOWN),
    "member": (Rules(), SenderStatus(paired_as="member")),
    "guest": (Rules(), SenderStatus(paired_as="guest")),
    "stranger": (Rules(), UNKNOWN),
    "revoked": (Rules(allowed_users=frozenset({ID}), allow_all_users=True), SenderStatus(revoked=True)),
    "revoked owner": (Rules(), SenderStatus(paired_as="owner", revoked=True)),
}
# Where: in an allowed chat that is named in the settings, and in one that an owner has opened.
WHERE = ("DM", "group", "channel", "named chat", "opened chat")
SERVED: dict[str, dict[str, Role]] = {
    "owner": dict.fromkeys(WHERE, "owner"),
    "paired owner": dict.fromkeys(WHERE, "owner"),
    "allowed": dict.fromkeys(WHERE, "member"),
    "member": {"DM": "member", "named chat": "member", "opened chat": "member"},
    "guest": {"DM": "guest", "named chat": "guest", "opened chat": "guest"},
    "stranger": {"named chat": "guest", "opened chat": "guest"},
    "revoked": {},
    "revoked owner": {},
}
WHAT = (*get_args(Kind), "forwarded", "bot", "channel post")


def judged(what: str, who: str, where: str) -> Decision:
    rules, standing = WHO[who]
    kind = {"DM": "dm", "channel": "channel"}.get(where, "group")
    said = message(kind=kind, chat=ID if kind == "dm" else GROUP)
    if where == "named chat":
        rules = replace(rules, allowed_chats=frozenset({f"telegram:{GROUP}"}))
    if where == "opened chat":
        standing = replace(standing, chat_allowed=True)
    if what == "forwarded":
        said = replace(said, parts=(Quote(text="", author="The Owner", how="forwarded from"), *said.parts))
    elif what == "bot":
        said = replace(said, sender=replace(said.sender, is_bot=True))
    elif what != "channel post":  # which comes from a channel's own id, like any sender's
        said = replace(said, kind=what)  # type: ignore[arg-type]
    return decide(said, rules, standing)


@pytest.mark.parametrize("what", WHAT)
def test_the_same_gate_for_every_kind_of_event(what: str) -> None:
    """And a code is for strangers who say something alone with us."""
    for who, where in product(WHO, WHERE):
        decision = judged(what, who, where)
        role = SERVED[who].get(where)
        if what == "bot" and who in ("member", "guest", "stranger"):
            role = None  # a bot is served when it is named, never because of where it is
        asks = who == "stranger" and where == "DM" and what in ("message", "command", "forwarded", "channel post")
        verdict = "serve" if role else "pair" if asks else "ignore"
        assert (decision.role, decision.verdict) == (role, verdict), (who, where)
        assert decision.reason


def test_strangers_can_be_ignored() -> None:
    assert decide(message(), Rules(pair_strangers=False)).verdict == "ignore"


def test_a_named_owner_cannot_be_locked_out() -> None:
    assert decide(message(), Rules(owner_users=frozenset({ID})), SenderStatus(revoked=True)).role == "owner"


def test_a_bot_is_not_let_in_with_everybody() -> None:
    bot = replace(message(), sender=Sender(id="9", is_bot=True))
    assert decide(bot, EVERYBODY).verdict == "ignore"


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("owner", "owner", "owner"),
        ("owner", "member", "member"),
        ("member", "guest", "guest"),
        ("guest", "owner", "guest"),
    ],
)
def test_two_roles_together_may_what_both_may(one: Role, other: Role, both: Role) -> None:
    assert lesser(one, other) == lesser(other, one) == both
