"""`hermes keys`: make, list and revoke the keys of programs that use the HTTP API."""

import json
from dataclasses import asdict
from typing import cast

import click

from gateway.clock import now_ms, roughly
from gateway.lock import read_state
from gateway.policies.access import Role
from gateway.store import api_keys
from gateway.store.api_keys import ApiKey
from gateway.store.db.connection import Transaction
from gateway.web.address import page_address
from hermes_cli.opening import OpenedStore, open_home, read_store, write_store

_BY = "the hermes command"


@click.group()
def keys() -> None:
    """Manage the keys of programs that talk to the agent over HTTP. Takes effect at once."""


@keys.command(short_help="Make a key for a person.")
@click.option("--person", "who", required=True, help="owner, an id such as telegram:123, or a name.")
@click.option("--new", "is_new", is_flag=True, help="Add somebody who has no chat, such as a program.")
@click.option("--role", type=click.Choice(["owner", "member", "guest"]), help="With --new.  [default: member]")
@click.option("--label", default="", help="What the key is for.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create(who: str, is_new: bool, role: str | None, label: str, as_json: bool) -> None:
    """Make a key: hermes keys create --person owner --label "home server"

    The key has the rights, the memory and the budget of its person. It is shown only once: a hash is stored.
    """
    if role and not is_new:
        raise click.UsageError("--role is for --new: the key of a known person has their role.")
    if not label.isprintable() or len(label) > 100 or not who.strip() or not who.isprintable():
        raise click.UsageError("Names and labels must be one line, and a label of 100 characters at most.")
    opened = open_home()

    def unit(tx: Transaction) -> tuple[ApiKey, str]:
        person_id = _find_person(tx, who.strip(), cast(Role, role or "member") if is_new else None)
        key_id, key = api_keys.create(tx, person_id, label=label)
        return next(one for one in api_keys.list_keys(tx) if one.id == key_id), key

    made, key = write_store(opened, unit)
    base_url = _find_base_url(opened)
    if as_json:
        facts = {"id": made.id, "key": key, "person": made.person, "role": made.role, "base_url": base_url}
        click.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    click.echo(f"Key {made.id} for {made.person} ({made.role}). It is shown only this once:\n\n  {key}\n")
    click.echo(f"Base URL: {base_url}   Model: hermes")
    if not opened.settings.http.enabled:
        click.echo("The endpoint is off. Switch it on, then restart: hermes config set http.enabled true")


@keys.command("list", short_help="List keys.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(as_json: bool) -> None:
    """List keys with their persons and when they were last used. The keys themselves are not stored."""
    opened = open_home(make=False)
    found = read_store(opened, api_keys.list_keys) or []
    nothing = "There is no key. Make one: hermes keys create --person owner"
    opened.print_list(found, as_json=as_json, data=asdict, line=_describe, nothing=nothing)


@keys.command(short_help="Revoke a key.")
@click.argument("key_id", metavar="ID", type=int)
def revoke(key_id: int) -> None:
    """Revoke a key by its number: hermes keys revoke 3"""
    opened = open_home()
    found = write_store(opened, lambda tx: api_keys.revoke(tx, key_id, by=_BY))
    if found is None:
        raise click.UsageError(f"There is no key {key_id}. `hermes keys list` shows them.")
    if found.revoked_ms is not None:
        click.echo(f"Key {key_id} was revoked {_ago(found.revoked_ms)}.")
    else:
        click.echo(f"Key {key_id} for {found.person} is revoked.")


def _find_person(tx: Transaction, who: str, new_role: Role | None) -> str:
    found = api_keys.find_people(tx, who)
    if new_role is not None:
        if found:
            raise click.UsageError(f"There is somebody called {who!r} already: leave out --new, or use another name.")
        return api_keys.add_person(tx, who, new_role)
    if len(found) == 1:
        return str(found[0]["id"])
    if found:
        several = ", ".join(str(row["id"]) for row in found)
        raise click.UsageError(f"Several people are called {who!r}. Name one by the id: {several}")
    near = api_keys.suggest_person(tx, who)
    hint = f"Did you mean {near}?" if near else "`hermes pairing list` shows people."
    raise click.UsageError(f"Nobody is called {who!r}. {hint} For a program of its own, add --new.")


def _find_base_url(opened: OpenedStore) -> str:
    running = read_state(opened.home.lock_file) or {}
    web = opened.settings.platforms.web
    return f"{page_address(web.host, running.get('web_port') or web.port)}v1"


def _describe(key: ApiKey) -> str:
    used = f"used {_ago(key.used_ms)}" if key.used_ms else "never used"
    state = f"revoked {_ago(key.revoked_ms)}" if key.revoked_ms else used
    label = f"  {key.label}" if key.label else ""
    return f"{key.id:>3}  …{key.ending}  {key.person} ({key.role}), made {_ago(key.created_ms)}, {state}{label}"


def _ago(at_ms: int) -> str:
    return f"{roughly(now_ms() - at_ms)} ago"
