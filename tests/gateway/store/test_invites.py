"""Invites: a friend who sends the code is in, once, and guessing them is limited."""

from dataclasses import replace

import pytest

from gateway.messages import Sender
from gateway.policies.access import Role
from gateway.store import members, pairing, people
from gateway.store.db.connection import Transaction
from tests.gateway.store.conftest import Clock
from tests.gateway.store.strangers import LIMITS, asks, stranger

pytestmark = pytest.mark.usefixtures("clock", "hashed")

WRONG = "22222222"


def invite(tx: Transaction, platform: str = "telegram", role: Role = "member") -> str:
    return pairing.invite(tx, platform, role, LIMITS, by="test")


def redeem(tx: Transaction, code: str, user: str = "42", *, account: str = "telegram") -> Role | None:
    return pairing.redeem(tx, stranger(user, code, account=account), LIMITS)


@pytest.mark.parametrize("role", ["owner", "member", "guest"])
@pytest.mark.parametrize("form", ["{}", "/start {}", "  {}\n"])
def test_whoever_sends_the_code_is_in_and_told_so(tx: Transaction, role: Role, form: str) -> None:
    code = invite(tx, role=role)
    assert redeem(tx, form.format(code.lower())) == role
    assert people.read_status(tx, "telegram", "42", "").paired_as == role
    [notice] = tx.all("SELECT * FROM outbox")
    assert (notice["topic"], notice["notify"], notice["chat"]) == ("paired", 1, "chat 42")
    assert [row["event"] for row in tx.all("SELECT event FROM trail ORDER BY id")] == ["invited", "invite used"]


def test_an_invite_works_once(tx: Transaction) -> None:
    code = invite(tx)
    assert redeem(tx, code) == "member"
    assert redeem(tx, code, "43") is None
    assert people.read_status(tx, "telegram", "43", "").paired_as is None


@pytest.mark.parametrize(("seconds", "role"), [(3599.999, "member"), (3600, None)])
def test_an_invite_is_good_for_an_hour(tx: Transaction, clock: Clock, seconds: float, role: Role | None) -> None:
    code = invite(tx)
    clock.forward(seconds=seconds)
    assert redeem(tx, code) == role


@pytest.mark.parametrize(
    ("platform", "account", "role"),
    [
        ("telegram", "telegram@work", "member"),
        ("telegram@work", "telegram@work", "member"),
        ("telegram@work", "telegram", None),
        ("discord", "telegram", None),
    ],
)
def test_an_invite_is_good_on_its_platform_alone(
    tx: Transaction, platform: str, account: str, role: Role | None
) -> None:
    assert redeem(tx, invite(tx, platform), account=account) == role


def test_only_a_persons_direct_message_is_an_answer_to_an_invite(tx: Transaction) -> None:
    code = invite(tx)
    in_a_group = stranger(text=code, kind="group")
    a_bot = replace(stranger(text=code), sender=Sender(id="42", is_bot=True))
    an_edit = replace(stranger(text=code), kind="edit")
    assert [pairing.redeem(tx, message, LIMITS) for message in (in_a_group, a_bot, an_edit)] == [None, None, None]
    assert pairing.redeem(tx, replace(stranger("42", f"/start {code}"), kind="command"), LIMITS) == "member"


def test_the_revoked_are_let_in_again_by_an_invite(tx: Transaction) -> None:
    members.revoke(tx, "telegram", "42", owner_users=(), allowed_users=(), by="test")
    assert people.read_status(tx, "telegram", "42", "").revoked
    redeem(tx, invite(tx))
    standing = people.read_status(tx, "telegram", "42", "")
    assert (standing.revoked, standing.paired_as) == (False, "member")


def test_who_waited_for_approval_waits_no_longer(tx: Transaction) -> None:
    asks(tx)
    redeem(tx, invite(tx))
    assert pairing.overview(tx, LIMITS).pending == ()
    assert pairing.compose_code(tx, "telegram", "chat 42", LIMITS) is None


def test_many_invites_may_be_open_and_a_guess_still_costs_one_hash(tx: Transaction, hashed: list[str]) -> None:
    codes = [invite(tx) for _ in range(20)]
    hashed.clear()
    assert redeem(tx, WRONG) is None
    assert redeem(tx, codes[7], "43") == "member"
    assert hashed == [WRONG, codes[7]]
    assert len(pairing.overview(tx, LIMITS).invites) == 19


def test_invites_that_are_over_leave_nothing(tx: Transaction, clock: Clock) -> None:
    for _ in range(5):
        invite(tx)
        clock.forward(hours=1)
    assert tx.count("SELECT COUNT(*) FROM pairing_invites") == 1


# Wrong guesses


def test_without_an_open_invite_nothing_is_hashed_or_counted(tx: Transaction, hashed: list[str]) -> None:
    for _ in range(100):
        redeem(tx, WRONG)
    assert hashed == []
    assert tx.count("SELECT COUNT(*) FROM pairing_failures") == 0


def test_ordinary_words_are_no_guess(tx: Transaction, hashed: list[str]) -> None:
    invite(tx)
    hashed.clear()
    for text in ("hello", "what is the weather like?", "/start", "/help", ""):
        redeem(tx, text)
    assert hashed == []
    assert tx.count("SELECT COUNT(*) FROM pairing_failures") == 0


@pytest.mark.parametrize(("wrong", "role"), [(4, "member"), (5, None)])
def test_a_sender_has_five_wrong_guesses(tx: Transaction, hashed: list[str], wrong: int, role: Role | None) -> None:
    code = invite(tx)
    hashed.clear()
    for _ in range(wrong):
        assert redeem(tx, WRONG) is None
    assert redeem(tx, code) == role
    assert len(hashed) == 5
    assert redeem(tx, code, "43") == ("member" if role is None else None), "another sender has guesses of their own"


@pytest.mark.parametrize(("wrong", "role"), [(49, "member"), (50, None)])
def test_all_senders_together_have_fifty(tx: Transaction, hashed: list[str], wrong: int, role: Role | None) -> None:
    code = invite(tx)
    for number in range(wrong):
        redeem(tx, WRONG, f"1{number}")
    hashed.clear()
    assert redeem(tx, code) == role
    assert len(hashed) == (0 if role is None else 1)


@pytest.mark.parametrize(("seconds", "role"), [(3599.999, None), (3600, "member")])
def test_guesses_come_back_after_an_hour(tx: Transaction, clock: Clock, seconds: float, role: Role | None) -> None:
    invite(tx)
    for _ in range(5):
        redeem(tx, WRONG)
    clock.forward(seconds=seconds)
    assert redeem(tx, invite(tx)) == role


def test_guesses_on_one_platform_do_not_hinder_another(tx: Transaction) -> None:
    invite(tx)
    for number in range(50):
        redeem(tx, WRONG, f"1{number}")
    assert redeem(tx, invite(tx, "discord"), account="discord") == "member"


def test_wrong_guesses_do_not_lock_approval_and_wrong_approvals_take_no_guesses(tx: Transaction) -> None:
    code, invited = asks(tx), invite(tx)
    for _ in range(4):
        pairing.approve(tx, "telegram", WRONG, "member", LIMITS, by="test")
        redeem(tx, WRONG, "43")
    assert redeem(tx, invited, "43") == "member"
    assert isinstance(pairing.approve(tx, "telegram", code, "member", LIMITS, by="test"), pairing.Approved)


def test_a_second_bot_gives_a_sender_no_more_than_the_platform_has(tx: Transaction) -> None:
    code = invite(tx)
    for number in range(50):
        redeem(tx, WRONG, f"1{number}", account="telegram@work")
    assert redeem(tx, code) is None


def test_unlock_gives_guesses_back(tx: Transaction) -> None:
    code = invite(tx)
    for _ in range(5):
        redeem(tx, WRONG)
    pairing.unlock(tx, "telegram", LIMITS)
    assert redeem(tx, code) == "member"


def test_being_let_in_takes_back_the_wrong_guesses_before_it(tx: Transaction) -> None:
    for _ in range(4):
        assert redeem(tx, WRONG) is None
        invite(tx)
    assert redeem(tx, invite(tx)) == "member"
    right = invite(tx)
    for _ in range(4):
        assert redeem(tx, WRONG) is None
    assert redeem(tx, right) == "member"


# Somebody who is in already


def test_an_open_invite_is_known_and_stays_open(tx: Transaction) -> None:
    code = invite(tx)
    assert pairing.is_open_invite(tx, stranger("7", code), LIMITS)
    assert not pairing.is_open_invite(tx, stranger("7", "hello"), LIMITS)
    assert not pairing.is_open_invite(tx, stranger("7", WRONG), LIMITS)
    assert redeem(tx, code) == "member"
    assert not pairing.is_open_invite(tx, stranger("7", code), LIMITS)


def test_who_is_in_may_guess_no_more_than_strangers(tx: Transaction) -> None:
    code = invite(tx)
    for _ in range(LIMITS.max_guesses_per_sender):
        assert not pairing.is_open_invite(tx, stranger("7", "hello"), LIMITS)  # which is no guess
    assert pairing.is_open_invite(tx, stranger("7", code), LIMITS)
    for _ in range(LIMITS.max_guesses_per_sender):
        assert not pairing.is_open_invite(tx, stranger("7", WRONG), LIMITS)
    assert not pairing.is_open_invite(tx, stranger("7", code), LIMITS)
    assert pairing.is_open_invite(tx, stranger("8", code), LIMITS)


# Taken back


def test_clearing_voids_requests_and_invites_of_one_platform_or_of_all(tx: Transaction, clock: Clock) -> None:
    over = invite(tx)
    clock.forward(seconds=3_600)
    telegram, discord = invite(tx), invite(tx, "discord")
    asks(tx)
    assert pairing.clear(tx, "telegram") == (1, 1)
    assert (redeem(tx, over), redeem(tx, telegram)) == (None, None)
    assert redeem(tx, discord, account="discord") == "member"
    invite(tx)
    invite(tx, "slack")
    assert pairing.clear(tx) == (0, 2)
    assert pairing.clear(tx) == (0, 0)
    cleared = tx.all("SELECT event, detail FROM trail WHERE event LIKE '%cleared' ORDER BY id")
    assert [row["event"] for row in cleared] == ["pairing cleared", *["invite cleared"] * 3]
    assert ['"slack"' in row["detail"] for row in cleared] == [False, False, False, True]
