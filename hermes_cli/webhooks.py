"""`hermes webhooks`: add, list, test and remove the webhooks by which other services start the agent."""

import http.client
import json
import secrets
import sys
import time
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from gateway.lock import read_state
from gateway.outbound.owner_message import find_target
from gateway.store.members import Problem
from gateway.web.address import page_address
from gateway.web.signatures import CHECKS, sign_sample
from gateway.wiring.platforms import MAX_TEMPLATE_CHARS, build_webhook_routes, read_template
from gateway.wiring.schedule import list_accounts
from hermes_cli.opening import OpenedStore, confirm, open_home, read_store
from hermes_config.accounts import SHORTEST_WEBHOOK_SECRET, webhook_secrets
from hermes_config.edit import replace_file, set_values, unset_value
from hermes_config.ids import WEBHOOK_ENTRY
from hermes_config.places import make_private
from hermes_config.secrets import WEBHOOK_SECRET

_SAMPLE = {"message": "This is a test of the webhook.", "sender": "hermes webhooks test"}
_SECONDS = 30.0
_FROM_PIPE = "-"


@click.group()
def webhooks() -> None:
    """Let other services start the agent."""


@webhooks.command(short_help="Add a webhook.")
@click.argument("name")
@click.option("--signature", required=True, type=click.Choice(list(CHECKS)), help="How the service signs requests.")
@click.option("--deliver", default="", metavar="PLATFORM[:CHAT]", help="The chat for answers.  [default: the home]")
@click.option("--prompt", default="", help="What to do with an event, such as 'Summarise {commits} for me.'")
@click.option("--prompt-file", type=click.Path(exists=True, dir_okay=False), help="The same from a file.")
@click.option("--secret", default="", help="The secret that the service issued; - reads a pipe.  [default: a new one]")
def add(name: str, signature: str, deliver: str, prompt: str, prompt_file: str | None, secret: str) -> None:
    """Add a webhook: hermes webhooks add deploys --signature github --deliver telegram"""
    opened = open_home()
    entry = f"{name}={signature}{f':{deliver}' if deliver else ''}"
    if not WEBHOOK_ENTRY.fullmatch(entry):
        raise click.UsageError(f"{name!r} is not a name; use lowercase letters, digits and _, such as deploys.")
    if name in webhook_secrets(opened.settings):
        raise click.UsageError(f"There is a webhook {name} already. Remove it first: hermes webhooks remove {name}")
    if deliver:  # refuse a chat that nobody has used, as far as can be known now
        accounts, allowed = list_accounts(opened.settings), opened.settings.access.allowed_chats
        found = read_store(opened, lambda tx: find_target(tx, deliver, accounts, allowed))
        if isinstance(found, Problem):
            raise click.UsageError(found.text)
    template = Path(prompt_file).read_text(encoding="utf-8", errors="replace") if prompt_file else prompt
    if len(template) > MAX_TEMPLATE_CHARS:
        raise click.UsageError(f"The prompt is longer than {MAX_TEMPLATE_CHARS:,} characters.")
    given = sys.stdin.readline().strip() if secret == _FROM_PIPE else secret
    chosen = given or secrets.token_urlsafe(32)
    if len(chosen) < SHORTEST_WEBHOOK_SECRET:
        raise click.UsageError(f"The secret must have {SHORTEST_WEBHOOK_SECRET} characters or more.")
    if template.strip():
        make_private(opened.home.webhooks)
        replace_file(opened.home.webhooks / f"{name}.md", template)
    entries = json.dumps([*opened.settings.http.webhooks, entry])
    set_values(opened.home, {WEBHOOK_SECRET + name.upper(): chosen, "http.webhooks": entries})
    click.echo(f"Added {name}. Address for the service: {_find_url(opened, name)}")
    if not given:
        click.echo(f"Secret for the service: {chosen}")
    _tell_next_step(opened)


@webhooks.command("list", short_help="List webhooks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_webhooks(as_json: bool) -> None:
    """List webhooks, their addresses and where their answers go."""
    opened = open_home(make=False)
    held = webhook_secrets(opened.settings)
    found = []
    for entry in opened.settings.http.webhooks:
        match = WEBHOOK_ENTRY.fullmatch(entry)
        assert match is not None  # the settings have checked it
        name = match["name"]
        found.append(
            {
                "name": name,
                "signature": match["signature"],
                "deliver": match["deliver"] or "home",
                "url": _find_url(opened, name),
                "has_secret": len(held[name]) >= SHORTEST_WEBHOOK_SECRET,
                "has_prompt": bool(read_template(opened.home, name)),
            }
        )
    nothing = "There is no webhook. Add one: hermes webhooks add NAME --signature github"
    opened.print_list(found, as_json=as_json, data=dict, line=_summarise, nothing=nothing)


@webhooks.command(short_help="Send a signed sample to the running gateway.")
@click.argument("name")
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False), help="The body to send, such as JSON.")
def test(name: str, file: str | None) -> None:
    """Send a signed sample event to the running gateway: hermes webhooks test deploys"""
    opened = open_home(make=False)
    route = build_webhook_routes(opened.settings, opened.home).get(name)
    if route is None:
        raise click.UsageError(_explain_unknown(opened, name))
    running = read_state(opened.home.lock_file) or {}
    if not running.get("web_port"):
        raise click.ClickException("The gateway is not running, or its page is off. See: hermes status")
    body = Path(file).read_bytes() if file else json.dumps(_SAMPLE | {"at": time.time()}).encode()
    headers = sign_sample(route.signature, route.secret, body, time.time()) | {"Content-Type": "application/json"}
    host = page_address(opened.settings.platforms.web.host, 1).removeprefix("http://").removesuffix(":1/").strip("[]")
    connection = http.client.HTTPConnection(host, running["web_port"], timeout=_SECONDS)
    try:
        connection.request("POST", f"/hooks/{name}", body, headers)
        response = connection.getresponse()
        status, told = response.status, response.read().decode("utf-8", "replace")
    except OSError as error:
        raise click.ClickException(f"The gateway did not answer: {error}.") from error
    finally:
        connection.close()
    if status >= 300:
        raise click.ClickException(_explain(name, status))
    trace = json.loads(told).get("trace", "")
    click.echo(
        f"Accepted. The answer comes to {route.deliver or 'the home'}.{f' See: hermes trace {trace}' if trace else ''}"
    )


@webhooks.command(short_help="Remove a webhook.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(name: str, yes: bool) -> None:
    """Remove a webhook, its secret and its prompt."""
    opened = open_home()
    if name not in webhook_secrets(opened.settings):
        raise click.UsageError(_explain_unknown(opened, name))
    confirm(f"Remove {name}, its secret and its prompt?", yes=yes, command=f"hermes webhooks remove {name} --yes")
    rest = [entry for entry in opened.settings.http.webhooks if entry.partition("=")[0] != name]
    set_values(opened.home, {"http.webhooks": json.dumps(rest)})
    unset_value(opened.home, WEBHOOK_SECRET + name.upper())
    (opened.home.webhooks / f"{name}.md").unlink(missing_ok=True)
    click.echo(f"Removed {name}.")
    _tell_next_step(opened)


def _summarise(one: dict[str, Any]) -> str:
    trouble = "" if one["has_secret"] else f"  NO SECRET: hermes config set {WEBHOOK_SECRET}{one['name'].upper()}"
    return f"{one['name']}  {one['signature']} -> {one['deliver']}  {one['url']}{trouble}"


def _explain_unknown(opened: OpenedStore, name: str) -> str:
    known = list(webhook_secrets(opened.settings))
    if name in known:
        return f"The secret of {name} is missing or too short: hermes config set {WEBHOOK_SECRET}{name.upper()}"
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Add it: hermes webhooks add {name} --signature github"
    return f"There is no webhook {name!r}. {hint}"


def _explain(name: str, status: int) -> str:
    answers = {
        404: "The gateway serves no webhooks: hermes config set http.enabled true, then restart it.",
        401: f"The gateway does not know {name}, or another secret: hermes gateway reload",
        429: "Too many events of this webhook are waiting already. Try again later.",
        503: "There is no chat for the answer: write to the bot once, or send /sethome, or name one with --deliver.",
    }
    return answers.get(status, f"The gateway answered with status {status}. See its log: hermes gateway logs")


def _tell_next_step(opened: OpenedStore) -> None:
    if not opened.settings.http.enabled:
        click.echo("Webhooks are off. Switch them on, then restart the gateway: hermes config set http.enabled true")
    elif read_state(opened.home.lock_file) is not None:
        click.echo("Let the running gateway know: hermes gateway reload")


def _find_url(opened: OpenedStore, name: str) -> str:
    web, running = opened.settings.platforms.web, read_state(opened.home.lock_file) or {}
    if web.allowed_hosts:
        return f"https://{web.allowed_hosts[0]}/hooks/{name}"
    return f"{page_address(web.host, running.get('web_port') or web.port)}hooks/{name}"
