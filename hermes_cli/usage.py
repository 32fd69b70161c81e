"""`hermes usage`: tokens and cost, by day, person, chat or model."""

import json
from dataclasses import asdict

import click

from gateway.clock import now_ms
from gateway.policies.budgets import Amount, against, dollars, how_to_price, no_price
from gateway.store import spending
from gateway.store.db.connection import Transaction
from gateway.store.spending import By, Total
from gateway.wiring.policies import build_budgets, unpriced_models
from hermes_cli.opening import open_home, read_store


@click.command()
@click.option(
    "--days", default=7, show_default=True, type=click.IntRange(1, 36_500), help="Number of days, including today."
)
@click.option(
    "--by",
    default="day",
    show_default=True,
    type=click.Choice(["day", "person", "chat", "model"]),
    help="How to group the rows.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def usage(days: int, by: By, as_json: bool) -> None:
    """Show tokens and cost of the last days, and today's total against the budget."""
    opened = open_home(make=False)
    budgets, now = build_budgets(opened.settings), now_ms()
    since = budgets.days_back(now, days - 1)

    def query(tx: Transaction) -> tuple[list[Total], list[Total], Amount]:
        return spending.totals(tx, since, by), spending.totals(tx, since, "model"), spending.used(tx, budgets.day(now))

    rows, models, today = read_store(opened, query) or ([], [], Amount())
    met = [one.name for one in models if one.unpriced_calls and budgets.limit_money and not budgets.price(one.name)]
    names = dict.fromkeys([*unpriced_models(opened.settings), *met])
    unpriced = [f"{no_price(name)} Set it: {how_to_price(name)}" for name in names]
    if as_json:
        facts = {"since": since, "by": by, "rows": [asdict(row) for row in rows], "today": asdict(today)}
        facts |= {"limit": asdict(budgets.limit("day")), "problems": unpriced}
        click.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        click.echo(f"{row.name:<{width}}  {_line(row)}")
    if not rows:
        click.echo(f"Nothing was used since {since}.")
    for sentence in (f"Today in total: {against(today, budgets.limit('day'))}", *unpriced):
        click.echo(sentence)


def _line(row: Total) -> str:
    calls = f"{row.calls:>6,} {'call ' if row.calls == 1 else 'calls'}"
    cost = dollars(row.cost_micros)
    if row.unpriced_calls:
        cost = f"{cost} and more" if row.cost_micros else "price unknown"
    return f"{calls}  {row.input_tokens:>12,} in  {row.output_tokens:>10,} out  {row.cached_tokens:>10,} cached  {cost}"
