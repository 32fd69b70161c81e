"""/usage: this conversation, mine against my limit, and everybody's for owners."""

import pytest

from agent_core.events import Usage
from gateway.clock import now_ms
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall
from gateway.messages import Sender, SessionKey
from gateway.policies.access import Role
from gateway.policies.budgets import Amount, Budgets
from gateway.store import people, sessions, spending
from gateway.store.db.connection import Transaction
from gateway.store.spending import Call, Payer

KEY = SessionKey(platform="pigeon", kind="dm", chat="home")
GROUP = SessionKey(platform="pigeon", kind="group", chat="-7")
LIMITED = Budgets(
    limits={
        "user": Amount(tokens=5_000, cost_micros=2_000_000),
        "chat": Amount(tokens=6_000),
        "day": Amount(tokens=70_000),
    }
)


@pytest.fixture(autouse=True)
def _spent(tx: Transaction) -> None:
    ada = people.recognise(tx, "pigeon", Sender(id="42", name="Ada"), role="member")
    session = sessions.open_current(tx, KEY)
    for number, (key, person) in enumerate(((KEY, ada), (GROUP, ada), (GROUP, "bob"))):
        payer = Payer(chat=f"pigeon:{key.chat}", people=(person,), session_id=session.id if key == KEY else "")
        day = Budgets().day(now_ms())
        usage = Usage(input_tokens=1_000, output_tokens=100, cost_micros=500_000)
        spending.settle(tx, Call(key=str(number), at_ms=1, day=day, model="m", usage=usage), payer)


def use(tx: Transaction, budgets: Budgets, key: SessionKey = KEY, *, role: Role = "member", sender: str = "42") -> str:
    commands = make_commands(budgets=budgets, unpriced=["m"])
    return commands.run(tx, CommandCall(key=key, name="usage", role=role, sender_id=sender)).text


def test_without_limits(tx: Transaction) -> None:
    assert use(tx, Budgets()).splitlines() == [
        "This conversation: 1,000 tokens in, 100 out, $0.50",
        "You today: 2,200 tokens, $1.00",
        "You this month: 2,200 tokens, $1.00",
    ]


def test_with_limits(tx: Transaction) -> None:
    assert use(tx, LIMITED).splitlines()[1:] == [
        "You today: 2,200 of 5,000 tokens, $1.00 of $2.00",
        "You this month: 2,200 tokens, $1.00",
        "This chat today: 1,100 of 6,000 tokens, $0.50",
    ]


def test_in_a_group_the_groups_is_told_and_nobody_elses(tx: Transaction) -> None:
    assert use(tx, Budgets(), GROUP, role="owner").splitlines() == [
        "This conversation: nothing yet",
        "You today: 2,200 tokens, $1.00",
        "You this month: 2,200 tokens, $1.00",
        "This chat today: 2,200 tokens, $1.00",
    ]


def test_an_owner_sees_everybodys_and_what_has_no_price(tx: Transaction) -> None:
    assert use(tx, LIMITED, role="owner").splitlines()[-2:] == [
        "Everybody today: 3,300 of 70,000 tokens, $1.50",
        "The price of m is not known, so limits in money do not apply to it. "
        "hermes config set budgets.prices m=input:cached:output says it.",
    ]


def test_somebody_never_seen_has_used_nothing_to_tell_of(tx: Transaction) -> None:
    assert use(tx, Budgets(), sender="99").splitlines() == ["This conversation: 1,000 tokens in, 100 out, $0.50"]


def test_at_the_terminal_it_is_the_owners(tx: Transaction) -> None:
    call = CommandCall(key=SessionKey(platform="cli", chat="1a2b"), name="usage", place="cli")
    assert make_commands().run(tx, call).text.splitlines() == [
        "This conversation: nothing yet",
        "You today: 0 tokens",
        "You this month: 0 tokens",
        "Everybody today: 3,300 tokens, $1.50",
    ]
