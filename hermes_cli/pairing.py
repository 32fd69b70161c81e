"""`hermes pairing`: manage who may talk to the bot."""

import json
import sys
from dataclasses import asdict

import click

from gateway.commands.access import overview_lines
from gateway.lock import read_state
from gateway.policies import pairing as words
from gateway.policies.access import Role
from gateway.policies.pairing import nearest, platform_of
from gateway.store import chats, members
from gateway.store import pairing as store
from gateway.store.db.connection import Transaction
from gateway.store.members import Problem
from gateway.store.pairing import Approved
from gateway.wiring.policies import build_pairing_limits, build_rules
from hermes_cli.opening import OpenedStore, open_home, read_store, write_store

_BY = "the hermes command"
_ROLES = click.Choice(["owner", "member", "guest"])


@click.group()
def pairing() -> None:
    """Manage who may talk to the bot. Takes effect at once, whether or not the gateway runs."""


@pairing.command("list", short_help="List people, requests and invites.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_pairings(as_json: bool) -> None:
    """List who waits for approval, who has access, who lost it, locks and open invites."""
    opened = open_home(make=False)  # a question changes nothing
    limits = build_pairing_limits(opened.settings)
    found = read_store(opened, lambda tx: store.overview(tx, limits)) or store.Overview()
    click.echo(json.dumps(asdict(found), ensure_ascii=False, indent=2) if as_json else "\n".join(overview_lines(found)))
    if not (as_json or found.pending or found.people or found.invites):
        click.echo(
            "Whoever writes to the bot gets a code for you to approve. Or invite: hermes pairing invite telegram"
        )


@pairing.command(short_help="Approve a pairing code.")
@click.argument("platform")
@click.argument("code", nargs=-1, required=True)
@click.option("--role", type=_ROLES, help="Their role.  [default: member]")
def approve(platform: str, code: tuple[str, ...], role: Role | None) -> None:
    """Give access to the person who got this code: hermes pairing approve telegram ABCD2345"""
    opened = open_home()
    limits = build_pairing_limits(opened.settings)

    asks = role is None and _could_be_the_owner(opened)

    def unit(tx: Transaction) -> Approved | Problem:
        done = store.approve(tx, _known(tx, opened, platform), "".join(code), role or "member", limits, by=_BY)
        if asks and isinstance(done, Approved):
            raise _AskFirst(done)
        return done

    try:
        done = write_store(opened, unit)
    except _AskFirst as waiting:
        role, asks = _ask_for_owner(waiting.found), False
        done = write_store(opened, unit)
    if isinstance(done, Problem):
        raise click.ClickException(done.text)
    click.echo(words.approved(done.name, f"{done.account}:{done.user_id}", done.role))
    if read_state(opened.home.lock_file) is None:
        click.echo("The gateway is not running. They are told when it starts: hermes gateway run")


@pairing.command(short_help="Revoke a person's access.")
@click.argument("platform")
@click.argument("who", nargs=-1, required=True)
def revoke(platform: str, who: tuple[str, ...]) -> None:
    """Revoke a person's access, by id or exact name: hermes pairing revoke telegram 123456789"""
    opened = open_home()
    rules = build_rules(opened.settings)

    def unit(tx: Transaction) -> members.Revoked | Problem:
        name = _known(tx, opened, platform)
        lists = {"owner_users": rules.owner_users, "allowed_users": rules.allowed_users}
        return members.revoke(tx, name, " ".join(who), by=_BY, **lists)

    done = write_store(opened, unit)
    if isinstance(done, Problem):
        raise click.ClickException(done.text)
    click.echo(words.revoked(done.name, done.user_id, platform.lower(), is_listed=done.is_listed))


@pairing.command("clear-pending", short_help="Delete requests and cancel invites.")
@click.argument("platform", required=False)
def clear_pending(platform: str | None) -> None:
    """Delete requests for access and cancel open invites, on one platform or on all."""
    opened = open_home()

    def unit(tx: Transaction) -> tuple[int, int]:
        return store.clear(tx, _known(tx, opened, platform) if platform else None)

    click.echo(words.cleared(*write_store(opened, unit)))


@pairing.command(short_help="Unlock after too many wrong codes.")
@click.argument("platform")
def unlock(platform: str) -> None:
    """Unlock pairing on a platform after too many wrong codes."""
    opened = open_home()
    limits = build_pairing_limits(opened.settings)

    def unit(tx: Transaction) -> bool:
        return store.unlock(tx, _known(tx, opened, platform), limits)

    state = "is unlocked" if write_store(opened, unit) else "was not locked"
    click.echo(f"Pairing on {platform_of(platform.lower())} {state}. The count of wrong codes was reset.")


@pairing.command(short_help="Create an invite for one person.")
@click.argument("platform")
@click.option("--role", type=_ROLES, default="member", show_default=True, help="Their role.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def invite(platform: str, role: Role, as_json: bool) -> None:
    """Create an invite code for one person, who sends it to the bot."""
    opened = open_home()
    limits = build_pairing_limits(opened.settings)

    def unit(tx: Transaction) -> tuple[str, str, str]:
        name = _known(tx, opened, platform)
        return name, store.invite(tx, name, role, limits, by=_BY), chats.read_cursor(tx, name, "username")

    name, code, username = write_store(opened, unit)
    link = words.deep_link(username, code) if username else ""
    if as_json:
        click.echo(json.dumps({"code": code, "link": link, "platform": name, "role": role, "good_ms": limits.code_ms}))
        return
    click.echo(f"{code}  gives one person the role {role}. It works once, within {words.in_words(limits.code_ms)}.")
    if link:
        click.echo(f"Send this link to them: {link}")
    else:
        click.echo(f"Send it to them; they send it to the bot on {name} as a direct message.")


def _known(tx: Transaction, opened: OpenedStore, platform: str) -> str:
    """Return the name of a known platform or account. Raises with the nearest name otherwise."""
    accounts = members.list_accounts(tx)
    for key, section in opened.settings.platforms:
        if hasattr(section, "allowed_users"):  # strangers can write to us there
            accounts |= {key, *(f"{key}@{account}" for account in getattr(section, "accounts", ()))}
    known = accounts | {platform_of(account) for account in accounts}
    if platform.lower() not in known:
        raise click.UsageError(nearest(platform, known))
    return platform.lower()


def _could_be_the_owner(opened: OpenedStore) -> bool:
    """Return whether to ask: the first person approved at a terminal is most likely the owner."""
    if opened.settings.access.owner_users or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return not read_store(opened, members.has_owner)


class _AskFirst(Exception):
    """Undoes an approval: the question for the owner names the person, who is only known from the code.

    A right code stays open that way, and only a wrong one is counted.
    """

    def __init__(self, found: Approved) -> None:
        super().__init__()
        self.found = found


def _ask_for_owner(waiting: Approved) -> Role:
    who = f"{waiting.name} ({waiting.account}:{waiting.user_id})"
    question = (
        f"There is no owner yet. This code is for {who}. Is that you? An owner may use every command in every chat."
    )
    return "owner" if click.confirm(question, default=False) else "member"
