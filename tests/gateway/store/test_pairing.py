"""Asking to be let in, approving, and the limits on both."""

from dataclasses import replace

import pytest

from gateway.messages import Sender
from gateway.policies.access import Role
from gateway.policies.pairing import PairingLimits
from gateway.store import members, outbox, pairing, people
from gateway.store.db.connection import Transaction
from gateway.store.members import Problem
from gateway.store.pairing import CODE_TOPIC, Approved
from tests.gateway.store.conftest import Clock
from tests.gateway.store.strangers import LIMITS, asks, stranger, told

pytestmark = pytest.mark.usefixtures("clock", "hashed")

WRONG = "22222222"


def approve(tx: Transaction, code: str, *, platform: str = "telegram", role: Role = "member") -> Approved | Problem:
    return pairing.approve(tx, platform, code, role, LIMITS, by="test")


def problem(done: Approved | Problem) -> str:
    assert isinstance(done, Problem)
    return done.text


def notices(tx: Transaction) -> list[tuple[str, str, int]]:
    return [(row["topic"], row["chat"], row["notify"]) for row in tx.all("SELECT * FROM outbox ORDER BY id")]


def role_of(tx: Transaction, user: str = "42", account: str = "telegram") -> Role | None:
    return people.read_status(tx, account, user, "").paired_as


def test_a_stranger_is_told_a_code_that_lets_them_in_for_good(tx: Transaction, clock: Clock) -> None:
    assert pairing.ask(tx, stranger(), LIMITS)
    [claimed] = outbox.claim(tx, "telegram", 10)
    assert (claimed.topic, claimed.message.text, claimed.message.address.chat) == (CODE_TOPIC, "", "chat 42")
    [row] = tx.all("SELECT * FROM outbox")
    assert (row["topic"], row["kind"], row["parts"], row["notify"]) == (CODE_TOPIC, "notice", "[]", 1)
    assert row["expires_ms"] == clock.ms + LIMITS.code_ms
    code = told(tx)
    done = approve(tx, code)
    assert done == Approved(account="telegram", user_id="42", name="Ada", role="member")
    assert role_of(tx) == "member"
    clock.forward(hours=24 * 365)
    assert role_of(tx) == "member"
    assert notices(tx)[-1] == ("paired", "chat 42", 1)
    assert "You are in" in tx.all("SELECT parts FROM outbox")[-1]["parts"]


def test_the_message_says_what_to_do_and_until_when(tx: Transaction, clock: Clock) -> None:
    pairing.ask(tx, stranger(account="telegram@work"), LIMITS)
    clock.forward(seconds=600)
    text = pairing.compose_code(tx, "telegram@work", "chat 42", LIMITS)
    assert text is not None
    assert "hermes pairing approve telegram@work " in text
    assert "within 50 minutes" in text


def test_the_code_stands_nowhere(tx: Transaction) -> None:
    code, other = asks(tx), asks(tx, "43")
    approve(tx, code.lower())
    invited = pairing.invite(tx, "telegram", "member", LIMITS, by="test")
    tables = [row["name"] for row in tx.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
    everything = [
        repr(tuple(row)).upper()
        for table in tables
        if not table.startswith("messages_search")
        for row in tx.all(f"SELECT * FROM {table}")
    ]
    assert any("CHAT 43" in row for row in everything)
    for secret in (code, other, invited):
        assert not [row for row in everything if secret in row or secret.encode().hex().upper() in row]


def test_in_doubt_means_a_new_code_and_the_old_one_is_void(tx: Transaction) -> None:
    first = asks(tx)
    second = told(tx)
    assert first != second
    assert isinstance(approve(tx, first), Problem)
    assert isinstance(approve(tx, second), Approved)
    assert isinstance(approve(tx, second), Problem), "a code works once"


@pytest.mark.parametrize(("seconds", "still_good"), [(3599.999, True), (3600, False)])
def test_a_code_is_good_for_an_hour(tx: Transaction, clock: Clock, seconds: float, still_good: bool) -> None:
    code = asks(tx)
    clock.forward(seconds=seconds)
    assert isinstance(approve(tx, code), Approved) is still_good


def test_sending_late_or_again_does_not_make_it_good_for_longer(tx: Transaction, clock: Clock) -> None:
    asks(tx)
    clock.forward(seconds=3000)
    code = told(tx)
    clock.forward(seconds=600)
    assert isinstance(approve(tx, code), Problem)
    assert pairing.compose_code(tx, "telegram", "chat 42", LIMITS) is None


def test_a_lowered_setting_holds_for_codes_that_are_still_to_be_sent(tx: Transaction, clock: Clock) -> None:
    pairing.ask(tx, stranger(), LIMITS)
    clock.forward(seconds=60)
    lowered = replace(LIMITS, code_ms=120_000)
    text = pairing.compose_code(tx, "telegram", "chat 42", lowered)
    assert text is not None
    assert "within 1 minute;" in text
    clock.forward(seconds=60)
    assert pairing.compose_code(tx, "telegram", "chat 42", lowered) is None


@pytest.mark.parametrize("lowered_ms", [59_000, 60_000])
def test_a_setting_that_ends_a_code_before_it_is_sent_leaves_nothing_to_say(
    tx: Transaction, clock: Clock, lowered_ms: int
) -> None:
    pairing.ask(tx, stranger(), LIMITS)
    clock.forward(seconds=60)
    assert pairing.compose_code(tx, "telegram", "chat 42", replace(LIMITS, code_ms=lowered_ms)) is None


@pytest.mark.parametrize(("seconds", "answered"), [(599.999, False), (600, True)])
def test_one_request_in_ten_minutes(tx: Transaction, clock: Clock, seconds: float, answered: bool) -> None:
    asks(tx)
    clock.forward(seconds=seconds)
    assert pairing.ask(tx, stranger(), LIMITS) is answered


def test_asking_again_replaces_the_code_and_takes_no_second_place(tx: Transaction, clock: Clock) -> None:
    first = asks(tx)
    tx.execute("UPDATE outbox SET state = 'sent'")
    for user in ("43", "44"):
        asks(tx, user)
    clock.forward(seconds=600)
    second = asks(tx)
    assert isinstance(approve(tx, first), Problem)
    assert isinstance(approve(tx, second), Approved)
    assert tx.count("SELECT COUNT(*) FROM pairing_requests WHERE user_id = '42'") == 1


def test_while_the_code_has_not_gone_out_there_is_no_second_notice(tx: Transaction, clock: Clock) -> None:
    pairing.ask(tx, stranger(), LIMITS)
    clock.forward(seconds=600)
    assert pairing.ask(tx, stranger(), LIMITS)
    assert notices(tx) == [(CODE_TOPIC, "chat 42", 1)]


def test_three_may_wait_and_the_fourth_hears_nothing(tx: Transaction, clock: Clock) -> None:
    assert [pairing.ask(tx, stranger(user), LIMITS) for user in ("1", "2", "3", "4")] == [True, True, True, False]
    assert len(notices(tx)) == 3
    assert pairing.ask(tx, stranger("4", account="telegram@work"), LIMITS), "each bot has room of its own"
    clock.forward(seconds=3599.999)
    assert not pairing.ask(tx, stranger("4"), LIMITS)
    approve(tx, told(tx, "2"))
    assert pairing.ask(tx, stranger("4"), LIMITS), "an approved one makes room"
    assert not pairing.ask(tx, stranger("5"), LIMITS)
    clock.forward(seconds=0.001)
    assert pairing.ask(tx, stranger("5"), LIMITS)


def test_strangers_cannot_fill_the_disk(tx: Transaction, clock: Clock) -> None:
    for hour in range(50):
        for user in range(10):
            pairing.ask(tx, stranger(f"{hour}{user}"), LIMITS)
        clock.forward(hours=1)
    assert tx.count("SELECT COUNT(*) FROM pairing_requests") <= 3


def test_the_wait_between_two_requests_outlasts_a_short_code(tx: Transaction, clock: Clock) -> None:
    limits = PairingLimits(code_ms=60_000)
    asks(tx, limits=limits)
    clock.forward(seconds=300)
    asks(tx, "43", limits=limits)
    assert not pairing.ask(tx, stranger(), limits)


def test_the_notice_is_not_sent_when_the_request_is_gone(tx: Transaction) -> None:
    pairing.ask(tx, stranger(), LIMITS)
    assert pairing.clear(tx) == (1, 0)
    assert pairing.compose_code(tx, "telegram", "chat 42", LIMITS) is None
    assert pairing.compose_code(tx, "telegram", "another chat", LIMITS) is None


@pytest.mark.parametrize(
    ("platform", "found"), [("telegram", True), ("telegram@work", True), ("telegram@home", False), ("discord", False)]
)
def test_a_code_is_good_on_its_platform_alone(tx: Transaction, platform: str, found: bool) -> None:
    code = asks(tx, account="telegram@work")
    assert isinstance(approve(tx, code, platform=platform), Approved) is found
    assert (role_of(tx, account="telegram@work") == "member") is found
    assert role_of(tx, account="telegram") is None


def test_the_right_one_of_several_is_let_in(tx: Transaction) -> None:
    codes = {user: asks(tx, user) for user in ("1", "2", "3")}
    done = approve(tx, codes["2"])
    assert isinstance(done, Approved)
    assert done.user_id == "2"
    assert [role_of(tx, user) for user in codes] == [None, "member", None]


@pytest.mark.parametrize("role", ["owner", "member", "guest"])
def test_the_role_is_the_approvers_choice_and_nobody_becomes_the_local_owner(tx: Transaction, role: Role) -> None:
    people.recognise(tx, "web", Sender(id="me"), role="owner")
    approve(tx, asks(tx), role=role)
    assert role_of(tx) == role
    assert tx.count("SELECT COUNT(*) FROM identities WHERE user_id = '42' AND person_id <> 'owner'") == 1
    assert [row["role"] for row in tx.all("SELECT role FROM people WHERE id = 'owner'")] == ["owner"]


def test_whoever_was_served_before_stays_the_same_person(tx: Transaction) -> None:
    person = people.recognise(tx, "telegram", Sender(id="42", name="Ada"), role="guest")
    approve(tx, asks(tx), role="member")
    assert people.recognise(tx, "telegram", Sender(id="42", name="Ada"), role="member") == person
    assert role_of(tx) == "member"
    assert tx.count("SELECT COUNT(*) FROM people") == 1


def test_one_who_was_an_owner_by_the_config_does_not_take_the_local_owner_along(tx: Transaction) -> None:
    assert people.recognise(tx, "telegram", Sender(id="42", name="Ada"), role="owner") == people.OWNER
    approve(tx, asks(tx), role="guest")
    assert role_of(tx) == "guest"
    assert [row["role"] for row in tx.all("SELECT role FROM people WHERE id = 'owner'")] == ["owner"]


# Wrong codes


def test_the_fifth_wrong_code_locks_and_a_right_one_no_longer_helps(tx: Transaction) -> None:
    code = asks(tx)
    said = [problem(approve(tx, WRONG)) for _ in range(5)]
    assert [text.split("; ")[-1] for text in said[:4]] == [
        "4 more wrong ones lock approval on telegram.",
        "3 more wrong ones lock approval on telegram.",
        "2 more wrong ones lock approval on telegram.",
        "the next wrong one locks approval on telegram.",
    ]
    for text in (said[4], problem(approve(tx, code)), problem(approve(tx, code, platform="telegram@work"))):
        assert "locked until 15:13 UTC after 5 wrong codes" in text
        assert "hermes pairing unlock telegram" in text
    assert role_of(tx) is None


def test_a_success_takes_the_wrong_codes_of_its_platform_back(tx: Transaction) -> None:
    first, second = asks(tx), asks(tx, "43")
    for _ in range(4):
        approve(tx, WRONG)
        approve(tx, WRONG, platform="discord")
    approve(tx, first)
    for _ in range(4):
        approve(tx, WRONG)
    assert isinstance(approve(tx, second), Approved)
    assert "locked" in problem(approve(tx, WRONG, platform="discord"))


@pytest.mark.parametrize(("seconds", "open_again"), [(3599.999, False), (3600, True)])
def test_the_lock_holds_for_an_hour(tx: Transaction, clock: Clock, seconds: float, open_again: bool) -> None:
    for _ in range(5):
        approve(tx, WRONG)
    clock.forward(seconds=seconds)
    assert (not pairing.overview(tx, LIMITS).locks) is open_again
    code = asks(tx)
    assert isinstance(approve(tx, code), Approved) is open_again


def test_what_is_tried_while_locked_does_not_make_it_longer(tx: Transaction, clock: Clock) -> None:
    for _ in range(5):
        approve(tx, WRONG)
    clock.forward(seconds=3000)
    approve(tx, WRONG)
    clock.forward(seconds=600)
    assert isinstance(approve(tx, asks(tx)), Approved)


def test_the_lock_counts_from_the_last_wrong_code_not_from_the_first(tx: Transaction, clock: Clock) -> None:
    for _ in range(5):
        approve(tx, WRONG)
        clock.forward(seconds=600)
    assert "locked" in problem(approve(tx, asks(tx)))
    clock.forward(seconds=2999.999)
    assert pairing.overview(tx, LIMITS).locks
    clock.forward(seconds=0.001)
    assert not pairing.overview(tx, LIMITS).locks


@pytest.mark.parametrize(("seconds", "locks"), [(3599.999, True), (3600, False)])
def test_only_wrong_codes_within_an_hour_count_together(
    tx: Transaction, clock: Clock, seconds: float, locks: bool
) -> None:
    approve(tx, WRONG)
    clock.forward(seconds=seconds)
    for _ in range(4):
        approve(tx, WRONG)
    assert bool(pairing.overview(tx, LIMITS).locks) is locks


def test_a_wrong_code_elsewhere_does_not_lift_a_lock(tx: Transaction, clock: Clock) -> None:
    approve(tx, WRONG)
    clock.forward(seconds=3590)
    for _ in range(4):
        approve(tx, WRONG)
    clock.forward(seconds=3590)
    approve(tx, WRONG, platform="discord")
    assert pairing.overview(tx, LIMITS).locks == (pairing.Lock(platform="telegram", until_ms=clock.ms + 10_000),)


def test_platforms_are_locked_one_by_one(tx: Transaction) -> None:
    for _ in range(5):
        approve(tx, WRONG)
    assert isinstance(approve(tx, asks(tx, account="discord"), platform="discord"), Approved)


def test_what_cannot_be_a_code_counts_too_and_is_told_apart(tx: Transaction) -> None:
    asks(tx)
    assert "8 letters and digits" in problem(approve(tx, "0O1I"))
    for _ in range(4):
        said = problem(approve(tx, ""))
    assert "locked" in said


def test_unlock_opens_at_once(tx: Transaction) -> None:
    code = asks(tx)
    assert pairing.unlock(tx, "telegram", LIMITS) is False
    for _ in range(5):
        approve(tx, WRONG)
    assert pairing.unlock(tx, "telegram@work", LIMITS) is True
    assert tx.count("SELECT COUNT(*) FROM trail WHERE event = 'pairing unlocked'") == 2
    assert isinstance(approve(tx, code), Approved)


def test_failures_are_forgotten_in_time(tx: Transaction, clock: Clock) -> None:
    for _ in range(30):
        approve(tx, WRONG)
        clock.forward(hours=1)
    assert tx.count("SELECT COUNT(*) FROM pairing_failures") <= 2


# The rest


def test_clearing_is_for_one_platform_or_for_all(tx: Transaction) -> None:
    codes = [asks(tx, account=account) for account in ("telegram", "telegram@work", "discord")]
    assert pairing.clear(tx, "telegram") == (2, 0)
    assert isinstance(approve(tx, codes[0]), Problem)
    assert isinstance(approve(tx, codes[2], platform="discord"), Approved)
    asks(tx, "43", account="discord")
    assert pairing.clear(tx) == (1, 0)
    assert pairing.clear(tx) == (0, 0)


def test_a_cleared_one_must_still_wait_before_asking_again(tx: Transaction, clock: Clock) -> None:
    asks(tx)
    pairing.clear(tx)
    assert not pairing.ask(tx, stranger(), LIMITS)
    clock.forward(seconds=600)
    assert pairing.ask(tx, stranger(), LIMITS)


def test_the_overview_names_everybody(tx: Transaction, clock: Clock) -> None:
    approve(tx, asks(tx), role="guest")
    asks(tx, "43")
    members.revoke(tx, "telegram", "44", owner_users=(), allowed_users=(), by="test")
    pairing.invite(tx, "telegram", "owner", LIMITS, by="test")
    for _ in range(5):
        approve(tx, WRONG, platform="discord")
    found = pairing.overview(tx, LIMITS)
    now, later = clock.ms, clock.ms + 3_600_000
    assert found == pairing.Overview(
        pending=(
            pairing.PendingRequest(account="telegram", user_id="43", name="Ada", requested_ms=now, expires_ms=later),
        ),
        people=(members.KnownPerson(account="telegram", user_id="42", name="Ada", role="guest", since_ms=now),),
        revoked=(members.KnownPerson(account="telegram", user_id="44", name="44", role="guest", since_ms=now),),
        locks=(pairing.Lock(platform="discord", until_ms=later),),
        invites=(pairing.OpenInvite(platform="telegram", role="owner", created_ms=now, expires_ms=later),),
    )
    clock.forward(hours=1)
    later_on = pairing.overview(tx, LIMITS)
    assert (later_on.pending, later_on.locks, later_on.invites) == ((), (), ())


def test_every_step_leaves_a_trace_without_a_code_in_it(tx: Transaction) -> None:
    code = asks(tx)
    approve(tx, WRONG)
    approve(tx, code)
    trail = tx.all("SELECT event, detail FROM trail ORDER BY id")
    assert [row["event"] for row in trail] == ["pairing asked", "approval failed", "pairing approved"]
    assert not any(text in row["detail"] for row in trail for text in (code, WRONG, "hello"))
