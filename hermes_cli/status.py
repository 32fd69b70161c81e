"""`hermes status`: whether the gateway runs, its connections, and the work in hand."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gateway.store.db.database import Database
    from hermes_cli.opening import OpenedStore

_STATES = {"needs operator": "stopped until you fix this"}  # as shown; scripts get the state as it is


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> None:
    """Show whether the gateway runs, its connections, and what it is working on.

    Exits with 1 when the gateway is not running.
    """
    from gateway.lock import read_state
    from hermes_cli.opening import open_home

    opened = open_home(make=False)  # a question changes nothing
    running = read_state(opened.home.lock_file)
    facts: dict[str, Any] = {"home": str(opened.home.root), "gateway": running, **_from_store(opened)}
    facts |= _from_settings(opened)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        for line in _lines(facts, opened.settings.platforms.web.host):
            click.echo(line)
    if running is None:
        raise SystemExit(1)


def _from_settings(opened: "OpenedStore") -> dict[str, Any]:
    from gateway.wiring.policies import build_rules

    rules = build_rules(opened.settings)
    return {
        "model": opened.settings.model.name,
        "listed": len(rules.owner_users | rules.allowed_users),
        "allow_all_users": rules.allow_all_users,
    }


def _from_store(opened: "OpenedStore") -> dict[str, Any]:
    """Read the counts from the database, or say why it cannot be read."""
    from gateway.errors import GatewayError
    from gateway.store import approvals, inbox, outbox, pairing, processes, turns
    from gateway.store.db.connection import Transaction
    from hermes_cli.opening import with_store
    from tools.workplaces import process_backends

    if not opened.home.database.exists():
        counts = ("waiting", "running", "undelivered", "processes", "questions", "people", "asking")
        return {**dict.fromkeys(counts, 0), "notices": []}

    def query(tx: Transaction) -> dict[str, Any]:
        access = pairing.overview(tx, pairing.PairingLimits())
        return {
            "waiting": inbox.count_all_waiting(tx),
            "running": turns.count_running(tx),
            "undelivered": outbox.count_undelivered(tx),
            "processes": [process.handle for process in processes.read_running(tx)],
            "questions": len(approvals.waiting(tx)),
            "people": len(access.people),
            "asking": len(access.pending),
            "notices": [asdict(notice) for notice in outbox.recent(tx)],
        }

    async def read(db: "Database") -> dict[str, Any]:
        facts = await db.read(query)
        handles, facts["processes"] = facts["processes"], 0
        for name, backend in process_backends().items():
            statuses = await backend.statuses([handle for handle in handles if handle.backend == name])
            facts["processes"] += sum(status.is_running for status in statuses.values())
        return facts

    try:
        return with_store(opened, read)
    except GatewayError as error:
        return {"store_problem": str(error)}


def _lines(facts: dict[str, Any], web_host: str) -> list[str]:
    lines = [f"Home      {facts['home']}", *_gateway_lines(facts["gateway"], facts["model"], web_host)]
    if problem := facts.get("store_problem"):
        lines.append(f"Store     {problem}")
    else:
        counts = f"{facts['waiting']} waiting, {facts['running']} running, {facts['undelivered']} undelivered"
        lines.append(f"Messages  {counts}")
        if facts["processes"]:
            lines.append(f"Processes {facts['processes']} running in the background")
        if number := facts["questions"]:
            lines.append(f"Approvals {number} waiting for an answer: hermes approvals list")
        lines.append(f"Access    {_access(facts)}")
    lines += [f"Notice    {_when(notice['at_ms'])}: {notice['text']}" for notice in facts.get("notices", ())]
    return lines


def _access(facts: dict[str, Any]) -> str:
    if facts["allow_all_users"]:
        return click.style("ANYBODY can talk to the bot: access.allow_all_users is on", fg="red")
    asking = f", {facts['asking']} waiting for approval" if facts["asking"] else ""
    return f"{facts['listed']} on allowlists, {facts['people']} paired{asking} (hermes pairing list)"


def _gateway_lines(running: dict[str, Any] | None, configured_model: str, web_host: str) -> list[str]:
    from gateway.web.address import page_address

    if running is None:
        return ["Gateway   not running (start it: hermes gateway run)", f"Model     {configured_model}"]
    lines = [f"Gateway   {running.get('state', 'unknown')}, pid {running.get('pid')}"]
    if store := running.get("store"):
        lines.append(f"Store     cannot accept messages: {store}")
    model = running.get("model", {})  # the running gateway may use another than the settings name
    trouble = f": {model['problem']}" if model.get("problem") else ""
    lines.append(f"Model     {model.get('name', configured_model)}{trouble}")
    if port := running.get("web_port"):
        lines.append(f"Page      {page_address(web_host, port)} (sign in: hermes web)")
    for account, platform in running.get("platforms", {}).items():
        heard = f", last contact {_when(platform['last_heard_ms'])}" if platform["last_heard_ms"] else ""
        problem = f": {platform['problem']}" if platform["problem"] else ""
        lines.append(f"{account:<9} {_STATES.get(platform['state'], platform['state'])}{heard}{problem}")
    return lines


def _when(at_ms: int) -> str:
    from gateway.clock import now_ms, roughly

    return f"{roughly(now_ms() - at_ms)} ago"
