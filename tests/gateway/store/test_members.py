"""Showing people the door."""

import json
from dataclasses import replace

import pytest

from gateway.messages import Sender
from gateway.policies.access import Role, Rules, decide
from gateway.store import inbox, members, pairing, people, turns
from gateway.store.db.connection import Transaction
from gateway.store.inspect import read_counts
from gateway.store.members import Problem, Revoked
from tests.gateway.store.strangers import LIMITS, asks, stranger

pytestmark = pytest.mark.usefixtures("clock")


def revoke(
    tx: Transaction, who: str = "42", *, platform: str = "telegram", owners: str = "", allowed: str = ""
) -> Revoked | Problem:
    lists = {"owner_users": set(filter(None, [owners])), "allowed_users": set(filter(None, [allowed]))}
    return members.revoke(tx, platform, who, by="test", **lists)


def pair(tx: Transaction, user: str = "42", *, role: Role = "member", account: str = "telegram") -> None:
    code = asks(tx, user, account=account)
    assert isinstance(pairing.approve(tx, account, code, role, LIMITS, by="test"), pairing.Approved)


def problem(done: Revoked | Problem) -> str:
    assert isinstance(done, Problem)
    return done.text


def verdict(tx: Transaction, user: str = "42", account: str = "telegram") -> str:
    return decide(stranger(user, account=account), Rules(), people.read_status(tx, account, user, "")).verdict


def test_who_was_paired_is_out(tx: Transaction) -> None:
    pair(tx)
    assert verdict(tx) == "serve"
    done = revoke(tx)
    assert done == Revoked(accounts=("telegram",), user_id="42", name="Ada", is_listed=False)
    assert verdict(tx) == "ignore"


def test_by_exact_name(tx: Transaction) -> None:
    pair(tx)
    assert isinstance(revoke(tx, "Ada"), Revoked)
    assert verdict(tx) == "ignore"


def test_a_name_that_two_have_is_not_enough(tx: Transaction) -> None:
    pair(tx)
    pair(tx, "43")
    assert "42, 43. Name one by the id." in problem(revoke(tx, "Ada"))
    assert verdict(tx) == verdict(tx, "43") == "serve"


def test_an_id_wins_over_somebody_who_took_it_as_a_name(tx: Transaction) -> None:
    pair(tx)
    people.recognise(tx, "telegram", Sender(id="666", name="42"), role="guest")
    done = revoke(tx, "42")
    assert isinstance(done, Revoked)
    assert done.user_id == "42"


def test_one_person_on_two_accounts_is_out_of_both(tx: Transaction) -> None:
    pair(tx)
    pair(tx, account="telegram@work")
    done = revoke(tx, "Ada")
    assert isinstance(done, Revoked)
    assert done.accounts == ("telegram", "telegram@work")
    assert verdict(tx) == verdict(tx, account="telegram@work") == "ignore"


def test_somebody_with_a_name_on_each_account_is_called_by_the_first_and_it_is_written_down(tx: Transaction) -> None:
    for account, name in (("telegram", "Ada"), ("telegram@work", "Countess")):
        people.recognise(tx, account, Sender(id="42", name=name), role="guest")
    done = revoke(tx)
    assert isinstance(done, Revoked)
    assert done.name == "Ada"
    [row] = tx.all("SELECT event, detail FROM trail")
    assert row["event"] == "revoked"
    assert json.loads(row["detail"]) == {"platform": "telegram", "sender": "42", "by": "test"}


def test_of_one_account_alone(tx: Transaction) -> None:
    pair(tx)
    pair(tx, account="telegram@work")
    revoke(tx, platform="telegram@work")
    assert (verdict(tx), verdict(tx, account="telegram@work")) == ("serve", "ignore")


def test_somebody_never_seen_is_kept_out_on_every_account(tx: Transaction) -> None:
    pair(tx, "43", account="telegram@work")
    assert verdict(tx) == "pair"
    assert isinstance(revoke(tx), Revoked)
    assert verdict(tx) == verdict(tx, account="telegram@work") == "ignore"


@pytest.mark.parametrize("who", ["Bob", "@bob", "bob2", ""])
def test_an_unknown_name_is_no_id(tx: Transaction, who: str) -> None:
    assert "hermes pairing list" in problem(revoke(tx, who))
    assert tx.count("SELECT COUNT(*) FROM identities") == 0


@pytest.mark.parametrize("listed", ["42", "telegram:42", "telegram@work:42"])
def test_an_owner_by_the_config_stays_and_one_is_told_where_to_remove_them(tx: Transaction, listed: str) -> None:
    pair(tx, account="telegram@work")
    assert "access.owner_users" in problem(revoke(tx, owners=listed))
    assert verdict(tx, account="telegram@work") == "serve"


@pytest.mark.parametrize(("listed", "said"), [("42", True), ("telegram:42", True), ("discord:42", False)])
def test_one_on_an_allowlist_is_out_and_one_is_told_about_the_list(tx: Transaction, listed: str, said: bool) -> None:
    done = revoke(tx, allowed=listed)
    assert isinstance(done, Revoked)
    assert done.is_listed is said
    rules = Rules(allowed_users=frozenset({listed}))
    assert decide(stranger(), rules, people.read_status(tx, "telegram", "42", "")).verdict == "ignore"


def test_a_request_that_waits_is_gone_too(tx: Transaction) -> None:
    code = asks(tx)
    revoke(tx)
    assert isinstance(pairing.approve(tx, "telegram", code, "member", LIMITS, by="test"), Problem)
    assert pairing.compose_code(tx, "telegram", "chat 42", LIMITS) is None


def test_an_owner_who_was_shown_the_door_is_none_any_more(tx: Transaction) -> None:
    assert not members.has_owner(tx)
    pair(tx, role="owner")
    assert members.has_owner(tx)
    revoke(tx)
    assert not members.has_owner(tx)
    assert [row["role"] for row in tx.all("SELECT role FROM people")] == ["guest"]


def test_the_local_owner_is_not_an_owner_anybody_paired_and_is_never_demoted(tx: Transaction) -> None:
    people.recognise(tx, "telegram", Sender(id="42", name="Ada"), role="owner")
    assert not members.has_owner(tx)
    revoke(tx)
    assert verdict(tx) == "ignore"
    assert [row["role"] for row in tx.all("SELECT role FROM people WHERE id = 'owner'")] == ["owner"]


def test_members_are_no_owners(tx: Transaction) -> None:
    pair(tx)
    assert not members.has_owner(tx)


def test_what_they_had_waiting_is_dropped_and_what_runs_for_them_ends_without_an_answer(tx: Transaction) -> None:
    pair(tx)
    for number in ("1", "2"):
        message = replace(stranger("42", "hello"), message_id=number)
        person_id = people.recognise(tx, "telegram", message.sender, role="member")
        inbox.insert(tx, message, person_id=person_id)
        if number == "1":
            turn = turns.begin(tx)
    revoke(tx)
    assert turn is not None
    assert turns.stop_requested(tx, turn.id)
    assert turns.list_stopping(tx) == [turn.id]
    assert turns.begin(tx) is None
    assert read_counts(tx)["waiting"] == 0
