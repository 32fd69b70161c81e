"""What may be spent in a day: limits and sums in, sentences out."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent_core.events import Usage
from gateway.policies.budgets import Amount, Budgets, Pot, Price, Scope, against, budgets_for, dollars
from hermes_config.settings import BudgetsSettings

NOON_MS = 1_774_350_000_000  # 2026-03-24 11:00 UTC
BERLIN = ZoneInfo("Europe/Berlin")


def pot(used: int, limit: int, *, scope: Scope = "user", cost: int = 0, cost_limit: int = 0) -> Pot:
    return Pot(
        scope=scope,
        limit=Amount(tokens=limit, cost_micros=cost_limit),
        used=Amount(tokens=used, cost_micros=cost),
    )


@pytest.mark.parametrize(
    ("budget", "asked", "passes"),
    [
        (pot(0, 100), Amount(tokens=100), False),
        (pot(1, 100), Amount(tokens=100), True),
        (pot(100, 100), Amount(), True),
        (pot(99, 100), Amount(), False),
        (pot(500, 0, cost=5, cost_limit=10), Amount(tokens=9_999, cost_micros=5), False),
        (pot(0, 0, cost=5, cost_limit=10), Amount(cost_micros=6), True),
        (pot(0, 100, cost=10, cost_limit=10), Amount(tokens=1), True),
    ],
)
def test_a_limit_is_passed_by_what_would_exceed_it(budget: Pot, asked: Amount, passes: bool) -> None:
    assert budget.is_passed_by(asked) is passes
    assert bool(Budgets().refusal([pot(0, 10**9), budget], asked, at_ms=NOON_MS)) is passes


@pytest.mark.parametrize(
    ("budget", "owner", "said"),
    [
        (
            pot(200_000, 200_000),
            False,
            "Your budget for today is used up (200,000 of 200,000 tokens). It resets at 00:00 (CET). "
            "Ask the owner if you need more.",
        ),
        (
            pot(199_700, 200_000),
            False,
            "Your budget for today has too little left for this (199,700 of 200,000 tokens); a new conversation (/new) "
            "needs less. It resets at 00:00 (CET). Ask the owner if you need more.",
        ),
        (
            pot(5, 200_000, cost=2_000_000, cost_limit=2_000_000, scope="chat"),
            True,
            "The budget of this chat for today is used up ($2.00 of $2.00). It resets at 00:00 (CET). "
            "Change it: hermes config set budgets.chat_usd …",
        ),
        (
            pot(10, 10, scope="day"),
            False,
            "Today's budget for everybody together is used up. "
            "It resets at 00:00 (CET). Ask the owner if you need more.",
        ),
        (
            pot(10, 10, scope="day"),
            True,
            "Today's budget for everybody together is used up (10 of 10 tokens). It resets at 00:00 (CET). "
            "Change it: hermes config set budgets.day_tokens …",
        ),
        (
            pot(10, 10, scope="job"),
            False,
            "The budget of this job for today is used up (10 of 10 tokens). It resets at 00:00 (CET). "
            "Ask the owner if you need more.",
        ),
    ],
)
def test_a_refusal_says_what_is_used_up_when_it_begins_anew_and_what_to_do(budget: Pot, owner: bool, said: str) -> None:
    budgets = Budgets(timezone=BERLIN)
    assert budgets.refusal([budget], Amount(tokens=400), at_ms=NOON_MS, owner=owner) == said


def test_where_several_asked_it_is_not_told_whose_budget_it_is() -> None:
    said = Budgets().refusal([pot(10, 10)], Amount(), at_ms=NOON_MS, several=True)
    assert said.startswith("Today's budget of one of the people who asked is used up")


@pytest.mark.parametrize(
    ("before", "last", "warned"), [(0, 79, False), (0, 80, True), (79, 1, True), (80, 1, False), (0, 150, True)]
)
def test_the_warning_comes_with_the_call_that_crosses_the_line(before: int, last: int, warned: bool) -> None:
    said = Budgets(timezone=BERLIN).warning(pot(before + last, 100), Amount(tokens=last), at_ms=NOON_MS)
    share = before + last
    expected = f"Your budget for today is {share}% used: {share} of 100 tokens. It resets at 00:00 (CET)."
    assert said == (expected if warned else "")


def test_days_are_those_of_the_owner() -> None:
    late_ms = NOON_MS + 12 * 3_600_000 + 1  # 23:00 UTC
    assert Budgets(timezone=ZoneInfo("UTC")).day(late_ms) == "2026-03-24"
    assert Budgets(timezone=BERLIN).day(late_ms) == "2026-03-25"
    assert Budgets(timezone=BERLIN).month(late_ms) == "2026-03-01"


SETTINGS = BudgetsSettings(
    user_tokens=1000,
    day_usd=2.5,
    people=("telegram:123=5000:1.50", "owner=0"),
    prices=("gpt-5=1.25:0.125:10", "claude-*=3:0.3:15", "llama3:8b=0:0:0"),
)


def test_a_budget_of_ones_own_wins() -> None:
    budgets = budgets_for(SETTINGS, "")
    assert budgets.limit_of_person(["telegram:124"]) == Amount(tokens=1000)
    assert budgets.limit_of_person(["slack:U1", "telegram:123"]) == Amount(tokens=5000, cost_micros=1_500_000)
    assert budgets.limit_of_person(["owner"]) == Amount()
    assert (budgets.bind, budgets.limit_money) == (True, True)
    own = pot(5000, 5000, cost_limit=1_500_000)
    assert "budgets.people" in budgets.refusal([own], Amount(), at_ms=NOON_MS, owner=True)


def test_without_settings_nothing_binds() -> None:
    budgets = budgets_for(BudgetsSettings(), "Europe/Berlin")
    assert (budgets.bind, budgets.limit_money) == (False, False)
    assert budgets.timezone == BERLIN


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=1000, model="gpt-5"), 810_000),
        (Usage(input_tokens=1000, model="anthropic/claude-sonnet-4.5"), 3000),
        (Usage(input_tokens=1000, model="Claude-Opus"), 3000),
        (Usage(input_tokens=1000, model="gpt-5-mini"), None),
        (Usage(input_tokens=1000, model="llama3:8b"), 0),
        (Usage(input_tokens=1000, model="demo"), 0),
        (Usage(input_tokens=1000, cost_micros=7, model="gpt-5"), 7),  # the provider knows best
        (Usage(input_tokens=1000), 1250),
    ],
)
def test_what_a_call_cost(usage: Usage, cost: int | None) -> None:
    assert budgets_for(SETTINGS, "").cost(usage, "gpt-5") == cost


@pytest.mark.parametrize(
    ("micros", "shown"), [(0, "$0.00"), (1234, "$0.0012"), (300_000, "$0.30"), (1_234_567_890, "$1,234.57")]
)
def test_money_for_people(micros: int, shown: str) -> None:
    assert dollars(micros) == shown


def test_use_against_a_limit() -> None:
    used = Amount(tokens=1200, cost_micros=300_000)
    assert against(used, Amount()) == "1,200 tokens, $0.30"
    assert against(used, Amount(tokens=5000, cost_micros=1_000_000)) == "1,200 of 5,000 tokens, $0.30 of $1.00"


def test_cached_tokens_that_are_counted_apart_give_no_money_back() -> None:
    price = Price(model="a", input=3, cached=1, output=10)
    assert price.of(Usage(input_tokens=100, cached_tokens=1_000)) == 100


@pytest.mark.parametrize(
    ("at", "days", "day"),
    [
        (datetime(2026, 3, 30, 0, 30, tzinfo=BERLIN), 1, "2026-03-29"),  # after a day of 23 hours
        (datetime(2026, 10, 25, 23, 30, tzinfo=BERLIN), 1, "2026-10-24"),  # at the end of one of 25
        (datetime(2026, 10, 25, 23, 30, tzinfo=BERLIN), 0, "2026-10-25"),
    ],
)
def test_days_are_counted_by_the_calendar(at: datetime, days: int, day: str) -> None:
    assert Budgets(timezone=BERLIN).days_back(int(at.timestamp() * 1000), days) == day


def test_where_several_asked_none_is_told_what_another_has_used() -> None:
    said = Budgets(timezone=BERLIN).refusal([pot(9_000, 9_000)], Amount(), at_ms=NOON_MS, several=True)
    assert said.startswith("Today's budget of one of the people who asked is used up. It resets")
