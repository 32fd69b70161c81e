"""`hermes approvals`: list, answer and explain approval requests."""

import json
from typing import TYPE_CHECKING, Any

import click

from hermes_cli.explaining import explain

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gateway.approvals.wording import Verdict
    from gateway.store.approvals import GrantedRule, Lists, WaitingApproval
    from gateway.store.db.connection import Transaction

_BY = "the hermes command"


@click.group()
def approvals() -> None:
    """List, answer and explain approval requests. Takes effect at once."""


approvals.add_command(explain)


@approvals.command("list", short_help="List open requests and granted rules.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_approvals(as_json: bool) -> None:
    """List the requests that wait for an answer, and the rules that were granted."""
    from gateway.store import approvals
    from gateway.store.inspect import peek
    from gateway.wiring.basics import build_redactor
    from hermes_cli.opening import open_home

    opened = open_home(make=False)  # a question changes nothing
    found = peek(opened.home.database, approvals.read, approvals.Lists())
    redactor = build_redactor(opened.settings)  # a command may hold a token
    if as_json:
        click.echo(json.dumps(redactor.clean_all(_facts(found)), ensure_ascii=False, indent=2))
    else:
        click.echo(redactor.clean("\n".join(_lines(found))))


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
    from gateway.approvals.wording import escape_invisible
    from gateway.store import approvals as store
    from hermes_cli.opening import open_home, with_store

    if everything == bool(rule_ids):
        raise click.UsageError("Name the rules by their numbers, or give --all: hermes approvals revoke 3")

    def unit(tx: "Transaction") -> list[str]:
        there = [one.id for one in store.rules(tx)]
        return store.revoke(tx, there if everything else _known(rule_ids, there), by=_BY)

    gone = with_store(open_home(), lambda db: db.write(unit))
    for rule in gone:
        click.echo(f"Revoked: {escape_invisible(rule)}")
    if not gone:
        click.echo("There are no rules to revoke.")


def _decide(approval_id: str, verdict: "Verdict") -> None:
    from gateway.approvals import decisions
    from gateway.approvals.wording import render_outcome
    from gateway.clock import now_ms
    from gateway.store import approvals as store
    from gateway.wiring.basics import build_redactor
    from hermes_cli.opening import open_home, with_store

    opened = open_home()

    def unit(tx: "Transaction") -> tuple[bool, str]:
        """Whether it was decided here, and what to say."""
        approval = store.get(tx, approval_id.lower())
        if approval is None:
            return False, _unknown(approval_id, [one.id for one in store.waiting(tx)])
        if approval.is_waiting and approval.expires_ms <= now_ms():  # no gateway was running to expire it
            decisions.expire(tx, approval)
            approval = store.get(tx, approval.id) or approval
        if not approval.is_waiting:
            return False, render_outcome(approval)
        if verdict in ("session", "always") and not approval.question.rules:
            return False, f"This can only be allowed once: hermes approvals approve {approval.id}"
        person = decisions.DecidingPerson(account=_BY, id="", name=_BY, role="owner")
        said = decisions.decide(tx, approval, verdict, person)
        decisions.update_message(tx, approval)
        return True, said

    is_decided, said = with_store(opened, lambda db: db.write(unit))
    said = build_redactor(opened.settings).clean(said)
    if not is_decided:
        raise click.ClickException(said)
    click.echo(said)
    _say_when_it_acts(opened.home.lock_file)


def _known(given: "Sequence[str]", there: "Collection[int]") -> list[int]:
    """Return the numbers of the given rules. Raises when one is unknown, so that nothing is revoked by half."""
    known = {str(one): one for one in there}
    for one in given:
        if one.lstrip("#") not in known:
            what = f"Rules: {', '.join(known)}." if known else "There are no rules."
            raise click.ClickException(f"There is no rule {one!r}; nothing was revoked. {what}")
    return [known[one.lstrip("#")] for one in given]


def _unknown(approval_id: str, waiting: "Sequence[str]") -> str:
    from difflib import get_close_matches

    if not waiting:
        return f"There is no approval request {approval_id!r}; none is waiting."
    near = get_close_matches(approval_id.lower(), waiting, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Waiting: {', '.join(waiting)}."
    return f"There is no approval request {approval_id!r}. {hint} `hermes approvals list` shows them."


def _say_when_it_acts(lock_file: Any) -> None:
    from gateway.lock import read_state

    if read_state(lock_file) is None:
        click.echo("The gateway is not running. The answer takes effect when it starts: hermes gateway run")


def _lines(found: "Lists") -> list[str]:
    waiting = [line for one in found.waiting for line in _waiting_lines(one)]
    granted = [line for one in found.rules for line in _rule_lines(one)]
    return [
        *(["Waiting for an answer:", *waiting] if waiting else ["No approval request is waiting."]),
        "",
        *(["Granted rules:", *granted] if granted else ["No rules were granted."]),
        *(["", "To answer: hermes approvals approve ID, or hermes approvals deny ID"] if waiting else []),
        *(["To revoke a rule: hermes approvals revoke ID"] if granted else []),
    ]


def _waiting_lines(one: "WaitingApproval") -> list[str]:
    from gateway.approvals.wording import escape_invisible
    from gateway.clock import for_people, now_ms, roughly

    question = one.approval.question
    first, *rest = escape_invisible(question.action).split("\n")
    where = f", {escape_invisible(question.where)}" if question.where else ""
    ago = f"{for_people(one.asked_ms)}, {roughly(now_ms() - one.asked_ms)} ago"
    return [
        f"  {one.approval.id}  since {ago}, for {escape_invisible(_whom(one))}, asked in {_place(one)}",
        f"      {question.tool}{where}: {first}",
        *(f"      | {line}" for line in rest),
        *(f"      reason: {escape_invisible(reason)}" for reason in question.reasons),
    ]


def _rule_lines(one: "GrantedRule") -> list[str]:
    from gateway.approvals.wording import escape_invisible
    from gateway.clock import for_people

    rule = one.granted
    how_long = "permanently" if one.is_lasting else f"in conversation {rule.session_id}"
    when = for_people(rule.granted_ms)
    return [
        f"  {rule.id}  {escape_invisible(rule.rule)}",
        f"      for {escape_invisible(one.holder)}, {how_long}; granted by {escape_invisible(rule.granted_by)}, {when}",
    ]


def _whom(one: "WaitingApproval") -> str:
    asker = one.approval.asker
    if not asker.sender_id:
        return "several people"
    handle = f"{asker.account}:{asker.sender_id}"
    return f"{asker.sender_name} ({handle})" if asker.sender_name else handle


def _place(one: "WaitingApproval") -> str:
    at = one.approval.asked_at
    return ":".join(filter(None, (at.account, at.chat, at.thread)))


def _facts(found: "Lists") -> dict[str, list[dict[str, Any]]]:
    return {
        "waiting": [
            {
                "id": one.approval.id,
                "asked_ms": one.asked_ms,
                "expires_ms": one.approval.expires_ms,
                "for": _whom(one),
                "asked_in": _place(one),
                "session_key": one.approval.asker.session_key,
                "turn_id": one.approval.asker.turn_id,
                "tool": one.approval.question.tool,
                "action": one.approval.question.action,
                "where": one.approval.question.where,
                "reasons": one.approval.question.reasons,
                "rules": one.approval.question.rules,
            }
            for one in found.waiting
        ],
        "granted": [
            {
                "id": one.granted.id,
                "rule": one.granted.rule,
                "for": one.holder,
                "scope": "always" if one.is_lasting else "session",
                "session_id": one.granted.session_id,
                "by": one.granted.granted_by,
                "granted_ms": one.granted.granted_ms,
            }
            for one in found.rules
        ],
    }
