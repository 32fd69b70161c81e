"""Who may speak to us."""

import pytest

from gateway.access import Role, Rules, decide
from gateway.messages import InboundMessage, Sender, SessionKey, Text

EVERYBODY = Rules(allow_all_users=True)


def message(sender: str, *, kind: str = "dm", platform: str = "telegram", account: str = "") -> InboundMessage:
    return InboundMessage(
        key=SessionKey(platform=platform, account=account, kind=kind, chat="1"),
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
        (message("123", kind="group"), Rules(allowed_users=frozenset({"123"})), "member"),
        (message("123"), Rules(allowed_users=frozenset({"discord:123", "1234", "12"})), None),
        (message("123"), Rules(owner_users=frozenset({"123"})), "owner"),
        (message("123"), Rules(owner_users=frozenset({"telegram:123"})), "owner"),
        (message("123"), Rules(owner_users=frozenset({"slack:123"})), None),
        (message("123"), Rules(owner_users=frozenset({"123"}), allowed_users=frozenset({"123"})), "owner"),
        (message("123"), EVERYBODY, "member"),
        (message("123", kind="group"), EVERYBODY, None),
        (message("123", kind="channel"), EVERYBODY, None),
        (message("123", kind=""), EVERYBODY, None),
        (message("telegram:123"), Rules(allowed_users=frozenset({"123"})), None),
    ],
)
def test_only_those_who_are_listed_get_in(said: InboundMessage, rules: Rules, role: Role | None) -> None:
    assert decide(said, rules, local=False).role == role


def test_a_name_that_looks_like_an_id_opens_nothing() -> None:
    assert decide(message("999"), Rules(allowed_users=frozenset({"123"})), local=False).role is None


def test_whoever_reaches_a_local_platform_is_the_owner() -> None:
    assert decide(message("anybody"), Rules(), local=True).role == "owner"


def test_a_refusal_says_why() -> None:
    assert decide(message("123"), Rules(), local=False).reason == "not on an allowlist"
