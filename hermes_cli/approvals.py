"""`hermes approvals`: list, answer and explain approval requests."""

import os
from collections.abc import Collection, Sequence
from typing import Any

import click

from gateway.approvals import decisions
from gateway.approvals.wording import Verdict, escape_invisible
from gateway.clock import for_people, now_ms, roughly
from gateway.lock import read_state
from gateway.store import approvals as store
from gateway.store.approvals import Approval, GrantedRule
from gateway.store.db.connection import Transaction
from gateway.store.inspect import peek
from hermes_cli.explaining import explain
from hermes_cli.opening import open_home, write_store

_BY = "the hermes command"


@click.group()
def approvals() -> None:
    """List, answer and explain approval requests. Takes effect at once."""


approvals.add_command(explain)


@approvals.command("list", short_help="List open requests and granted rules.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_approvals(as_json: bool) -> None:
    """List the requests that wait for an answer, and the rules that were granted."""
    opened = open_home(make=False)  # a question changes nothing
    nothing: tuple[list[Approval], list[GrantedRule]] = ([], [])
    found = peek(opened.home.database, lambda tx: (store.waiting(tx), store.rules(tx)), nothing)
    if as_json:
        opened.print_json(_facts(*found))
    else:
        opened.print_text("\n".join(_lines(*found)))  # a command may hold a token


@approvals.command(short_help="Approve a request.")
@click.argument("approval_id", metavar="ID")
@click.option("--session", is_flag=True, help="Also allow its rule for this conversation.")
@click.option("--always", is_flag=True, help="Also allow its rule permanently.")
def approve(approval_id: str, session: bool, always: bool) -> None:
    """Approve the request ID, once."""
    if session and always:
        raise click.UsageError("Give --session or --always, not both.")
    _decide(approval_id, "always" if always else "session" if session else "once")


@approvals.command(short_help="Deny a request.")
@click.argument("approval_id", metavar="ID")
def deny(approval_id: str) -> None:
    """Deny the request ID."""
    _decide(approval_id, "deny")


@approvals.command(short_help="Revoke granted rules.")
@click.argument("rule_ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Revoke all rules.")
def revoke(rule_ids: tuple[str, ...], everything: bool) -> None:
    """Revoke rules by their numbers in `hermes approvals list`. What they covered needs approval again."""
    if everything == bool(rule_ids):
        raise click.UsageError("Name the rules by their numbers, or give --all: hermes approvals revoke 3")

    def unit(tx: Transaction) -> list[str]:
        there = [one.id for one in store.rules(tx)]
        return store.revoke(tx, there if everything else _known(rule_ids, there), by=_BY)

    gone = write_store(open_home(), unit)
    for rule in gone:
        click.echo(f"Revoked: {escape_invisible(rule)}")
    if not gone:
        click.echo("There are no rules to revoke.")


def _decide(approval_id: str, verdict: Verdict) -> None:
    """Let the running gateway decide, which sees who asks. Without one it is decided here, for when it starts."""
    from gateway.approvals.control import REFUSED, request_decision
    from tools.backends.ancestry import is_our_command

    opened = open_home()
    state = read_state(opened.home.lock_file)
    if is_our_command(os.getpid(), gateway_pid=(state or {}).get("pid", 0)):
        raise click.ClickException(REFUSED)
    if state is not None:
        try:
            is_decided, said = request_decision(opened.home.control_socket, approval_id, verdict)
        except (OSError, ValueError) as error:
            problem = f"The running gateway does not answer ({error}). Use the buttons in the chat, or restart it."
            raise click.ClickException(problem) from error
    else:
        is_decided, said = write_store(opened, lambda tx: decisions.decide_for_owner(tx, approval_id, verdict))
    said = opened.redactor.clean(said)
    if not is_decided:
        raise click.ClickException(said)
    click.echo(said)
    if state is None:
        click.echo("The gateway is not running. The answer takes effect when it starts: hermes gateway run")


def _known(given: Sequence[str], there: Collection[int]) -> list[int]:
    """Return the numbers of the given rules. Raises when one is unknown, before any is revoked."""
    known = {str(one): one for one in there}
    for one in given:
        if one.lstrip("#") not in known:
            what = f"Rules: {', '.join(known)}." if known else "There are no rules."
            raise click.ClickException(f"There is no rule {one!r}; nothing was revoked. {what}")
    return [known[one.lstrip("#")] for one in given]


def _lines(requests: Sequence[Approval], rules: Sequence[GrantedRule]) -> list[str]:
    waiting = [line for one in requests for line in _waiting_lines(one)]
    granted = [line for one in rules for line in _rule_lines(one)]
    return [
        *(["Waiting for an answer:", *waiting] if waiting else ["No approval request is waiting."]),
        "",
        *(["Granted rules:", *granted] if granted else ["No rules were granted."]),
        *(["", "To answer: hermes approvals approve ID, or hermes approvals deny ID"] if waiting else []),
        *(["To revoke a rule: hermes approvals revoke ID"] if granted else []),
    ]


def _waiting_lines(one: Approval) -> list[str]:
    question = one.question
    first, *rest = escape_invisible(question.action).split("\n")
    where = f", {escape_invisible(question.where)}" if question.where else ""
    ago = f"{for_people(one.asked_ms)}, {roughly(now_ms() - one.asked_ms)} ago"
    return [
        f"  {one.id}  since {ago}, for {escape_invisible(_whom(one))}, asked in {_place(one)}",
        f"      {question.tool}{where}: {first}",
        *(f"      | {line}" for line in rest),
        *(f"      reason: {escape_invisible(reason)}" for reason in question.reasons),
    ]


def _rule_lines(rule: GrantedRule) -> list[str]:
    how_long = "permanently" if rule.is_lasting else f"in conversation {rule.session_id}"
    by, when = escape_invisible(rule.granted_by), for_people(rule.granted_ms)
    return [
        f"  {rule.id}  {escape_invisible(rule.rule)}",
        f"      for {escape_invisible(rule.holder_name)}, {how_long}; granted by {by}, {when}",
        *([] if rule.is_signed else ["      without effect: Hermes did not write it"]),
    ]


def _whom(one: Approval) -> str:
    asker = one.asker
    if not asker.sender_id:
        return "several people"
    handle = f"{asker.account}:{asker.sender_id}"
    return f"{asker.sender_name} ({handle})" if asker.sender_name else handle


def _place(one: Approval) -> str:
    at = one.asked_at
    return ":".join(filter(None, (at.account, at.chat, at.thread)))


def _facts(requests: Sequence[Approval], rules: Sequence[GrantedRule]) -> dict[str, list[dict[str, Any]]]:
    return {
        "waiting": [
            {
                "id": one.id,
                "asked_ms": one.asked_ms,
                "expires_ms": one.expires_ms,
                "for": _whom(one),
                "asked_in": _place(one),
                "session_key": one.asker.session_key,
                "turn_id": one.asker.turn_id,
                "tool": one.question.tool,
                "action": one.question.action,
                "where": one.question.where,
                "reasons": one.question.reasons,
                "rules": one.question.rules,
            }
            for one in requests
        ],
        "granted": [
            {
                "id": one.id,
                "rule": one.rule,
                "for": one.holder_name,
                "scope": "always" if one.is_lasting else "session",
                "session_id": one.session_id,
                "by": one.granted_by,
                "granted_ms": one.granted_ms,
                "is_signed": one.is_signed,
            }
            for one in rules
        ],
    }
