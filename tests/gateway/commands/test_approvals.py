"""/approve and /deny: what they reach without an id, and with one."""

from typing import Any

import pytest

from gateway import decisions
from gateway.access import Role
from gateway.commands.registry import CommandCall
from gateway.commands.table import all_commands
from gateway.messages import Address, Sender, SessionKey
from gateway.store import approvals
from gateway.store.approvals import Approval
from gateway.store.connection import Transaction
from tests.gateway.store.rows import KEY, a_question, an_asker

OWNERS = SessionKey(platform="telegram", kind="dm", chat="1")
GROUP = SessionKey(platform="telegram", kind="group", chat="-7")
THERE = Address(account="telegram", chat="1")  # where the owner is asked


def put(
    tx: Transaction, action: str = "rm -r build", *, at: Address = THERE, call: str = "c1", **asker: Any
) -> Approval:
    """A question of Ann's."""
    question = a_question(action)
    return decisions.put(
        tx, an_asker(**asker), call, question, at, origin=Address(account="telegram", chat="42"), wait_ms=60_000
    )


def state(tx: Transaction, approval: Approval) -> str:
    found = approvals.get(tx, approval.id)
    assert found is not None
    return found.state


def say(tx: Transaction, words: str, key: SessionKey = OWNERS, role: Role = "owner", sender: str = "1") -> str:
    name, _, arguments = words.removeprefix("/").partition(" ")
    call = CommandCall(key=key, name=name, arguments=arguments, role=role, sender_id=sender, sender_name="Olga")
    return all_commands().run(tx, call).text


@pytest.mark.parametrize(("words", "become"), [("/approve", "approved"), ("/deny", "denied")])
def test_without_an_id_the_one_that_stands_here_is_meant(tx: Transaction, words: str, become: str) -> None:
    here, elsewhere = put(tx), put(tx, call="c2", at=Address(account="discord", chat="9"))
    assert "rm -r build" in say(tx, words)
    assert (state(tx, here), state(tx, elsewhere)) == (become, "waiting")


def test_without_an_id_the_one_about_this_conversation_is_meant(tx: Transaction) -> None:
    question = put(tx, key=GROUP)
    say(tx, "/approve", GROUP)
    assert state(tx, question) == "approved"


@pytest.mark.parametrize("words", ["/approve", "/approve always", "/deny"])
def test_without_an_id_nothing_elsewhere_is_decided_but_named(tx: Transaction, words: str) -> None:
    one = put(tx, at=Address(account="discord", chat="9"))
    name = words.split()[0]
    assert say(tx, words) == f"No question waits here. Elsewhere there are:\n{name} {one.id}: rm -r build"
    assert state(tx, one) == "waiting"


def test_in_a_group_what_others_asked_for_is_not_told(tx: Transaction) -> None:
    first = put(tx, "rm -r secret")
    assert say(tx, "/approve", GROUP) == f"No question waits here. Elsewhere there are:\n/approve {first.id}"
    assert say(tx, f"/approve {first.id}", GROUP) == f"{first.id} is decided."
    assert state(tx, first) == "approved"
    assert say(tx, f"/approve {first.id}", GROUP) == f"No question {first.id} waits for an answer."
    assert "rm -r secret" in say(tx, f"/approve {first.id}")


@pytest.mark.parametrize(("words", "become"), [("/approve {id}", "approved"), ("/deny {id}", "denied")])
def test_with_an_id_an_owner_decides_any(tx: Transaction, words: str, become: str) -> None:
    one = put(tx, at=Address(account="discord", chat="9"))
    put(tx, call="c2")
    assert "rm -r build" in say(tx, words.format(id=one.id))
    assert state(tx, one) == become


@pytest.mark.parametrize("words", ["/approve", "/approve {id}", "/deny", "/deny {id}"])
def test_a_member_reaches_nothing_of_others(tx: Transaction, words: str) -> None:
    one = put(tx, "rm -r secret")
    bob = SessionKey(platform="telegram", kind="dm", chat="43")
    told = say(tx, words.format(id=one.id), bob, "member", "43")
    assert told.startswith("No question")
    assert "secret" not in told
    approvals.deny(tx, one, by="x")
    assert "secret" not in say(tx, f"/approve {one.id}", bob, "member", "43")


def test_whoever_it_is_for_may_do_without(tx: Transaction) -> None:
    one = put(tx)
    assert say(tx, "/approve", KEY, "member", "42") == decisions.ONLY_OWNERS
    assert state(tx, one) == "waiting"
    say(tx, "/deny", KEY, "member", "42")
    assert state(tx, one) == "denied"


def test_several_here_are_asked_back(tx: Transaction) -> None:
    first, second = put(tx), put(tx, call="c2", sender=Sender(id="43", name="Bob"))
    told = say(tx, "/approve session")
    assert first.id in told
    assert second.id in told
    assert [state(tx, one) for one in (first, second)] == ["waiting", "waiting"]


def test_where_none_waits_that_is_said(tx: Transaction) -> None:
    assert say(tx, "/approve") == "No question waits for an answer."
    assert say(tx, "/deny nosuch") == "No question nosuch waits for an answer."
