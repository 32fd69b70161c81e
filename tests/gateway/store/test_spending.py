"""What model calls used: counted once, summed for whoever it concerns."""

from dataclasses import replace

import pytest

from agent_core.events import Usage
from gateway.messages import SessionKey
from gateway.policies.budgets import Amount, Budgets
from gateway.store import chats, inbox, people, sessions, spending
from gateway.store.db.connection import Transaction
from gateway.store.spending import Call, Payer
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import begin
from tests.gateway.store.rows import KEY

TODAY, YESTERDAY = "2026-03-24", "2026-03-23"
USED = Usage(input_tokens=100, output_tokens=20, cached_tokens=30, cost_micros=5)
ADA = Payer(chat="telegram:1", people=("ada",), session_id="")
BOB = Payer(chat="telegram:1", people=("bob",), session_id="")
BOTH = Payer(chat="telegram:1", people=("ada", "bob"), session_id="")
AT_THE_TERMINAL = Payer(chat=spending.TERMINAL, people=(people.OWNER,), session_id="")
JOB = Payer(chat="cron:backup", people=("ada",), session_id="")


def call(key: str, *, day: str = TODAY, usage: Usage = USED, model: str = "gpt-5", priced: bool = True) -> Call:
    return Call(key=key, at_ms=1, day=day, model=model, usage=usage, priced=priced)


def test_a_call_counts_once_however_often_it_is_settled(tx: Transaction) -> None:
    session = sessions.open_current(tx, KEY)
    payer = replace(ADA, session_id=session.id)
    assert [spending.settle(tx, call("a"), payer) for _ in range(3)] == [True, False, False]
    assert spending.used(tx, TODAY) == Amount(tokens=120, cost_micros=5)
    [row] = tx.all("SELECT input_tokens, output_tokens, cached_tokens, total_tokens, cost_micros FROM sessions")
    assert tuple(row) == (100, 20, 30, 120, 5)


def test_a_reservation_counts_until_the_true_numbers_take_its_place(tx: Transaction) -> None:
    spending.reserve(tx, call("a", usage=Usage(input_tokens=5000)), ADA)
    assert spending.used(tx, TODAY, person_id="ada").tokens == 5000
    assert spending.used(tx, TODAY, person_id="ada", reserved=False).tokens == 0
    assert spending.settle(tx, call("a"), ADA)
    assert spending.used(tx, TODAY, person_id="ada").tokens == 120


def test_a_call_that_came_to_nothing_gives_its_reservation_back(tx: Transaction) -> None:
    spending.reserve(tx, call("a"), ADA)
    assert not spending.settle(tx, call("a", usage=Usage()), ADA)
    assert tx.count("SELECT COUNT(*) FROM spending") == 0


def test_what_a_crash_left_is_settled_at_its_estimate(tx: Transaction) -> None:
    session = sessions.open_current(tx, KEY)
    spending.reserve(tx, call("a"), replace(ADA, session_id=session.id))
    spending.after_crash(tx)
    spending.after_crash(tx)
    assert tx.count("SELECT COUNT(*) FROM spending WHERE settled = 0") == 0
    assert spending.used(tx, TODAY, reserved=False).tokens == 120
    assert tx.count("SELECT total_tokens FROM sessions") == 120


@pytest.mark.parametrize(("hours", "is_left_alone"), [(0, True), (23, True), (25, False)])
def test_a_call_at_the_terminal_outlives_the_start_of_a_gateway(
    tx: Transaction, clock: Clock, hours: int, is_left_alone: bool
) -> None:
    asked = replace(call("a", usage=Usage(input_tokens=5000)), at_ms=clock.ms)
    spending.reserve(tx, asked, AT_THE_TERMINAL)
    clock.forward(hours=hours)
    spending.after_crash(tx)
    assert spending.settle(tx, call("a"), AT_THE_TERMINAL) is is_left_alone
    assert spending.used(tx, TODAY, reserved=False).tokens == (120 if is_left_alone else 5000)


def test_sums_are_by_day_person_and_chat(tx: Transaction) -> None:
    for key, day, payer in (("a", TODAY, ADA), ("b", TODAY, BOB), ("c", YESTERDAY, ADA), ("d", TODAY, JOB)):
        spending.settle(tx, call(key, day=day), payer)
    assert spending.used(tx, TODAY).tokens == 360
    assert spending.used(tx, YESTERDAY).tokens == 480
    assert spending.used(tx, TODAY, person_id="ada").tokens == 240
    assert spending.used(tx, TODAY, chat="telegram:1").tokens == 240


def test_where_several_asked_the_chat_pays(tx: Transaction) -> None:
    spending.settle(tx, call("a"), BOTH)
    assert spending.used(tx, TODAY, person_id="ada").tokens == 0
    assert spending.used(tx, TODAY, chat="telegram:1").tokens == 120


LIMITS = Budgets(
    limits={
        "user": Amount(tokens=1),
        "chat": Amount(tokens=2),
        "job": Amount(tokens=3),
        "day": Amount(tokens=4),
    }
)


@pytest.mark.parametrize(
    ("payer", "scopes"),
    [
        (ADA, ["user", "chat", "day"]),
        (BOTH, ["user", "user", "chat", "day"]),
        (JOB, ["user", "job", "day"]),
    ],
)
def test_the_budgets_that_bind_a_call(tx: Transaction, payer: Payer, scopes: list[str]) -> None:
    spending.settle(tx, call("a"), payer)
    found = spending.pots(tx, LIMITS, payer, TODAY)
    assert [pot.scope for pot in found] == scopes
    assert found[-1].used.tokens == found[-2].used.tokens == 120
    assert spending.pots(tx, Budgets(), payer, TODAY) == []


@pytest.mark.parametrize("written", ["telegram:123", "telegram@work:123", "123"])
def test_a_persons_own_limit_holds_for_all_their_identities(tx: Transaction, written: str) -> None:
    tx.execute("INSERT INTO people (id, name, role, created_ms) VALUES ('ada', 'Ada', 'member', 1)")
    for account, user_id in (("telegram@work", "123"), ("slack", "U1")):
        tx.execute(
            "INSERT INTO identities (account, user_id, person_id, name) VALUES (?, ?, 'ada', 'Ada')", account, user_id
        )
    budgets = Budgets(limits={"user": Amount(tokens=1)}, own={written: Amount(tokens=9)})
    assert spending.limit_of_person(tx, budgets, "ada") == Amount(tokens=9)
    assert spending.limit_of_person(tx, budgets, "bob") == Amount(tokens=1)


def test_the_owner_at_the_terminal_has_a_name_too(tx: Transaction) -> None:
    assert spending.limit_of_person(tx, Budgets(own={"owner": Amount(tokens=9)}), people.OWNER) == Amount(tokens=9)


def test_the_payer_of_a_turn_is_whoever_asked_in_it(tx: Transaction) -> None:
    turn = begin(tx, "hello")
    [asked] = turn.messages
    payer = spending.payer_of_turn(tx, turn.id, turn.session_id)
    assert payer == Payer(
        chat=f"{asked.key.account_name}:{asked.key.chat}", people=(str(asked.person_id),), session_id=turn.session_id
    )
    tx.execute("UPDATE inbox SET kind = 'wake'")  # the end of a process that they had begun
    assert spending.payer_of_turn(tx, turn.id, turn.session_id) == payer
    tx.execute("DELETE FROM messages")
    tx.execute("DELETE FROM inbox")  # erased meanwhile
    assert spending.payer_of_turn(tx, turn.id, turn.session_id).person == ""


def test_the_price_that_only_the_provider_knows_is_taken_from_the_last_call(tx: Transaction) -> None:
    assert spending.micros_per_token(tx, "gpt-5") == 0
    spending.settle(tx, call("a", usage=replace(USED, cost_micros=12)), ADA)
    spending.settle(tx, call("b", usage=replace(USED, cost_micros=60)), ADA)
    spending.settle(tx, call("c", priced=False), ADA)
    assert spending.micros_per_token(tx, "gpt-5") == 0.5
    assert spending.micros_per_token(tx, "o3") == 0


def test_totals_by_whatever_one_wants_to_know(tx: Transaction) -> None:
    tx.execute("INSERT INTO people (id, name, role, created_ms) VALUES ('ada', 'Ada', 'member', 1)")
    spending.settle(tx, call("a", day=YESTERDAY), ADA)
    spending.settle(tx, call("b"), BOTH)
    spending.settle(tx, call("c", model="o3", usage=Usage(input_tokens=9), priced=False), JOB)

    def names(by: spending.By) -> list[str]:
        return [total.name for total in spending.totals(tx, YESTERDAY, by)]

    assert names("day") == [YESTERDAY, TODAY]
    assert names("person") == ["Ada", "(several, or forgotten)"]
    assert names("chat") == ["telegram:1", "cron:backup"]
    assert names("model") == ["gpt-5", "o3"]
    [today] = spending.totals(tx, TODAY, "day")
    assert (today.calls, today.input_tokens, today.cost_micros, today.unpriced_calls) == (2, 109, 5, 1)


def test_a_group_that_is_given_another_id_keeps_its_budget(tx: Transaction) -> None:
    group = SessionKey(platform="telegram", kind="group", chat="-7")
    turn = begin(tx, "hello", key=group)
    spending.settle(tx, call("a"), spending.payer_of_turn(tx, turn.id, turn.session_id))
    chats.move(tx, "telegram", "-7", "-1007")
    assert spending.used(tx, TODAY, chat="telegram:-1007").tokens == 120
    assert inbox.read_turn(tx, turn.id)[0].key.chat == "-1007"
    assert spending.payer_of_turn(tx, turn.id, turn.session_id).chat == "telegram:-1007"
