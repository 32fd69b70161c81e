"""`hermes trace`: show what happened to a message, step by step."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from gateway.store.db.connection import Transaction
    from gateway.trace import GatewayState
    from hermes_cli.opening import OpenedStore
    from hermes_config.redaction import Redactor

T = TypeVar("T")

_REFUSALS_SHOWN = 50
_FITTING_SHOWN = 10
_NOTHING_YET = (
    'No message has reached this home yet. Send the bot one, or ask something here: hermes chat -q "what is 17 * 23?"'
)


@click.command()
@click.argument("message", default="last")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trace(message: str, as_json: bool) -> None:
    """Show what happened to a message: whether it was answered, if not why, and each step with its time.

    MESSAGE is `last`, inbox:NUMBER, the platform's id of a message or of our answer (alone or as telegram:CHAT:ID), a
    turn id or a session key. `refused` lists messages that were not accepted.
    """
    from gateway.store.db.commit_counter import check_not_lost
    from hermes_cli.opening import open_home

    opened = open_home(make=False)  # a question changes nothing
    check_not_lost(opened.home.database)
    if not opened.home.database.exists():
        raise click.ClickException(_NOTHING_YET)
    if message == "refused":
        _show_refusals(opened, as_json)
    else:
        _show_message(opened, message, as_json)


def _show_message(opened: "OpenedStore", name: str, as_json: bool) -> None:
    from gateway import trace as words
    from gateway.clock import now_ms
    from gateway.store import trace

    def query(tx: "Transaction") -> list[trace.Trace] | str:
        newest = trace.newest(tx)
        found = ([newest] if newest else []) if name == "last" else trace.find(tx, name)
        return [trace.read(tx, one) for one in found[: _FITTING_SHOWN + 1]] or _why_unknown(tx, name)

    traces = _read(opened, query)
    if isinstance(traces, str):
        raise click.ClickException(traces)
    if len(traces) > 1:
        shown = "\n".join(f"  {words.candidate(one)}" for one in traces[:_FITTING_SHOWN])
        more = "\n  and more" if len(traces) > _FITTING_SHOWN else ""
        raise click.ClickException(f"{name!r} matches several messages. Choose one:\n{shown}{more}")
    [found] = traces
    gateway, now = _gateway(opened), now_ms()
    if as_json:
        facts = {"verdict": words.verdict(found, now, gateway), **asdict(found)}
        _print_json(opened, facts)
    else:
        click.echo(_redactor(opened).clean("\n".join(words.lines(found, now, gateway))))


def _show_refusals(opened: "OpenedStore", as_json: bool) -> None:
    from gateway.store import trace
    from gateway.trace import refusal_line

    found = _read(opened, lambda tx: trace.refusals(tx, limit=_REFUSALS_SHOWN))
    if as_json:
        _print_json(opened, [asdict(refusal) for refusal in found])
        return
    if not found:
        click.echo("No message was refused.")
    for refusal in found:
        click.echo(_redactor(opened).clean(refusal_line(refusal)))


def _why_unknown(tx: "Transaction", name: str) -> str:
    """Explain why no message was found: it may have been refused, or not addressed to the bot."""
    from gateway.store import trace
    from gateway.trace import UNADDRESSED, refused

    if name == "last":
        return _NOTHING_YET
    match name.split(":", 2):
        case [account, chat, message_id]:
            if trace.was_overheard(tx, account, chat, message_id):
                return UNADDRESSED
            if (refusal := trace.refusal_of(tx, account, chat, message_id)) is not None:
                return refused(refusal)
    return (
        f"No message matches {name!r}. Try `hermes trace last`, a message as telegram:CHAT:ID, or "
        "`hermes trace refused` for messages that were not accepted."
    )


def _gateway(opened: "OpenedStore") -> "GatewayState":
    from gateway.lock import read_state
    from gateway.trace import GatewayState

    state = read_state(opened.home.lock_file)
    if state is None:
        return GatewayState(is_running=False)
    platforms = state.get("platforms", {}).items()
    unconnected = {account: one["problem"] for account, one in platforms if one["state"] != "connected"}
    return GatewayState(is_stopping=state.get("state") == "stopping", unconnected=unconnected)


def _redactor(opened: "OpenedStore") -> "Redactor":
    """Problems quote error messages, and a URL in one may contain a token."""
    from gateway.wiring.basics import build_redactor

    return build_redactor(opened.settings)


def _print_json(opened: "OpenedStore", facts: object) -> None:
    click.echo(json.dumps(_redactor(opened).clean_all(facts), ensure_ascii=False, indent=2))


def _read(opened: "OpenedStore", query: "Callable[[Transaction], T]") -> T:
    from hermes_cli.opening import with_store

    return with_store(opened, lambda db: db.read(query))
