"""`hermes trace`: show what happened to a message, step by step."""

from dataclasses import asdict

import click

from gateway import trace as words
from gateway.clock import now_ms
from gateway.lock import read_state
from gateway.store import trace as store
from gateway.store.db.connection import Transaction
from hermes_cli.opening import OpenedStore, open_home, read_store

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
    opened = open_home(make=False)  # a question changes nothing
    if message == "refused":
        _show_refusals(opened, as_json)
    else:
        _show_message(opened, message, as_json)


def _show_message(opened: OpenedStore, name: str, as_json: bool) -> None:
    def query(tx: Transaction) -> list[store.Trace] | str:
        newest = store.newest(tx)
        found = ([newest] if newest else []) if name == "last" else store.find(tx, name)
        return [store.read(tx, one) for one in found[: _FITTING_SHOWN + 1]] or _why_unknown(tx, name)

    traces = read_store(opened, query) or _NOTHING_YET
    if isinstance(traces, str):
        raise click.ClickException(traces)
    if len(traces) > 1:
        shown = "\n".join(f"  {words.candidate(one)}" for one in traces[:_FITTING_SHOWN])
        more = "\n  and more" if len(traces) > _FITTING_SHOWN else ""
        raise click.ClickException(f"{name!r} matches several messages. Choose one:\n{shown}{more}")
    [found] = traces
    gateway, now = _gateway(opened), now_ms()
    if as_json:
        opened.print_json({"verdict": words.verdict(found, now, gateway), **asdict(found)})
    else:  # problems quote error messages, and a URL in one may contain a token
        opened.print_text("\n".join(words.lines(found, now, gateway)))


def _show_refusals(opened: OpenedStore, as_json: bool) -> None:
    found = read_store(opened, lambda tx: store.refusals(tx, limit=_REFUSALS_SHOWN))
    if found is None:
        raise click.ClickException(_NOTHING_YET)
    nothing = "No message was refused."
    opened.print_list(found, as_json=as_json, data=asdict, line=words.refusal_line, nothing=nothing)


def _why_unknown(tx: Transaction, name: str) -> str:
    """Explain why no message was found: it may have been refused, or not addressed to the bot."""
    if name == "last":
        return _NOTHING_YET
    match name.split(":", 2):
        case [account, chat, message_id]:
            if store.was_overheard(tx, account, chat, message_id):
                return words.UNADDRESSED
            if (refusal := store.refusal_of(tx, account, chat, message_id)) is not None:
                return words.refused(refusal)
    return (
        f"No message matches {name!r}. Try `hermes trace last`, a message as telegram:CHAT:ID, or "
        "`hermes trace refused` for messages that were not accepted."
    )


def _gateway(opened: OpenedStore) -> words.GatewayState:
    state = read_state(opened.home.lock_file)
    if state is None:
        return words.GatewayState(is_running=False)
    platforms = state.get("platforms", {}).items()
    unconnected = {account: one["problem"] for account, one in platforms if one["state"] != "connected"}
    return words.GatewayState(is_stopping=state.get("state") == "stopping", unconnected=unconnected)
