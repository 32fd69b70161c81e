"""`hermes status`: whether the gateway runs, its connections, and the work in hand."""

import json
import time
from typing import Any

import click

from gateway.clock import now_ms, roughly
from gateway.errors import GatewayError
from gateway.lock import read_state
from gateway.store.inspect import NOTHING, read_counts
from gateway.web.address import page_address
from gateway.wiring.policies import build_rules
from hermes_cli.opening import OpenedStore, open_home, read_store

_WATCH_SECONDS = 2.0
_STATES = {"needs operator": "stopped until you fix this"}  # as shown; scripts get the state as it is


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", is_flag=True, help="Refresh every two seconds until Ctrl-C.")
def status(as_json: bool, watch: bool = False) -> None:
    """Show whether the gateway runs, its connections, and what it is working on.

    Exits with 1 when the gateway is not running.
    """
    if watch and as_json:
        raise click.UsageError("--watch and --json cannot be combined.")
    while True:
        opened = open_home(make=False)  # a question changes nothing
        running, rules = read_state(opened.home.lock_file), build_rules(opened.settings)
        facts = {"home": str(opened.home.root), "gateway": running, **_from_store(opened)} | {
            "model": opened.settings.model.name,
            "listed": len(rules.owner_users | rules.allowed_users),
            "allow_all_users": rules.allow_all_users,
        }
        if as_json:
            text = json.dumps(facts, ensure_ascii=False, indent=2)
        else:
            text = "\n".join(_lines(facts, opened.settings.platforms.web.host))
        if watch:
            click.clear()  # only now: the screen is never empty while the facts are collected
        click.echo(text)
        if not watch:
            break
        time.sleep(_WATCH_SECONDS)
    if running is None:
        raise SystemExit(1)


def _from_store(opened: OpenedStore) -> dict[str, Any]:
    """Read the counts from the database, or say why it cannot be read."""
    try:
        facts = read_store(opened, read_counts) or NOTHING
        return facts | ({"processes": _count_running(opened)} if facts["processes"] else {})
    except GatewayError as error:
        return {"store_problem": str(error)}


def _count_running(opened: OpenedStore) -> int:
    """Count the background processes that still run: where no gateway watches, some may have ended."""
    import asyncio

    from gateway.store import processes
    from tools.workplaces import process_backends

    opened.configure_logs()
    handles = [process.handle for process in read_store(opened, processes.read_running) or ()]

    async def count() -> int:
        found = [
            await backend.statuses([handle for handle in handles if handle.backend == name])
            for name, backend in process_backends(opened.settings.terminal).items()
        ]
        return sum(status.is_running for statuses in found for status in statuses.values())

    return asyncio.run(count())


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
        if facts["jobs"] or facts["failing_jobs"]:
            failing = f", {facts['failing_jobs']} failing" if facts["failing_jobs"] else ""
            lines.append(f"Jobs      {facts['jobs']} scheduled{failing}: hermes cron list")
        lines.append(f"Access    {_access(facts)}")
    lines += [f"Notice    {_when(notice['at_ms'])}: {notice['text']}" for notice in facts.get("notices", ())]
    return lines


def _access(facts: dict[str, Any]) -> str:
    if facts["allow_all_users"]:
        return click.style("ANYBODY can talk to the bot: access.allow_all_users is on", fg="red")
    asking = f", {facts['asking']} waiting for approval" if facts["asking"] else ""
    return f"{facts['listed']} on allowlists, {facts['people']} paired{asking} (hermes pairing list)"


def _gateway_lines(running: dict[str, Any] | None, configured_model: str, web_host: str) -> list[str]:
    if running is None:
        return ["Gateway   not running (start it: hermes gateway run)", f"Model     {configured_model}"]
    lines = [f"Gateway   {running.get('state', 'unknown')}, pid {running.get('pid')}"]
    if store := running.get("store"):
        lines.append(f"Store     cannot accept messages: {store}")
    model = running.get("model", {})  # the running gateway may use another than the settings name
    trouble = f": {model['problem']}" if model.get("problem") else ""
    lines.append(f"Model     {model.get('name', configured_model)}{trouble}")
    if problem := running.get("sandbox_problem"):
        lines.append(f"Sandbox   none, so the owner's commands run on this machine: {problem}")
    if port := running.get("web_port"):
        lines.append(f"Page      {page_address(web_host, port)} (sign in: hermes web)")
    for account, platform in running.get("platforms", {}).items():
        heard = f", last contact {_when(platform['last_heard_ms'])}" if platform["last_heard_ms"] else ""
        trouble = f": {platform['problem']}" if platform["problem"] else ""
        lines.append(f"{account:<9} {_STATES.get(platform['state'], platform['state'])}{heard}{trouble}")
    return lines


def _when(at_ms: int) -> str:
    return f"{roughly(now_ms() - at_ms)} ago"
